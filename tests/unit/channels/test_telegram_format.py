import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.channels import telegram_format
from app.channels.telegram_format import render
from tests.fakes.telegram_server import check_entities, units

WORDS = st.lists(st.text(alphabet="abcdefghijklmnopqrstuvwxyzäß", min_size=1, max_size=12), min_size=1, max_size=3000)
SCRAPS = st.sampled_from(
    [
        *("# ", "**", "*", "_", "`", "```\n", "```py\n", "> ", "- ", "1. ", "| a | b |\n", "|---|---|\n", "\n", "\n\n"),
        *("[", "](", ")", "https://x.example/y", "![", "<div>", "</b>", "<", "&amp;", "~~", "~", "||", "$", "\\", " "),
        *(
            "👨‍👩‍👧‍👦",
            "🇫🇷",
            "👍🏽",
            "é",
            "\u200b",
            "\u0000",
            "\ud800",
            "word",
            "x" * 5000,
            "😀" * 2100,
            "[a]: b\n",
            "\t",
            "\r\n",
        ),
    ]
)


def texts(markdown):
    return [part["text"] for part in render(markdown)]


def only(markdown):
    (part,) = render(markdown)
    return part


def marked(markdown):
    """Each entity of the only part with the text it covers."""
    part = only(markdown)
    encoded = part["text"].encode("utf-16-le")
    covered = [
        (e, encoded[e["offset"] * 2 : (e["offset"] + e["length"]) * 2].decode("utf-16-le")) for e in part["entities"]
    ]
    return [(entity["type"], text) for entity, text in covered]


def check_limits(parts):
    for part in parts:
        assert 0 < units(part["text"]) <= 4096 and part["text"].strip()
        assert len(part["entities"]) <= 100
        check_entities(part["text"], part["entities"])


# The way out: the splitter throws or exceeds 4,096 after escaping -> total function, property-tested, UTF-16 units.
@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(SCRAPS, max_size=60).map("".join)))
@example("\ud800")
@example("```\n```")
@example("#")
@example("&nbsp;")
def test_any_text_gives_parts_within_every_limit(markdown):
    parts = render(markdown)
    check_limits(parts)
    blank = not markdown.replace("\x00", "").strip()
    assert bool(parts) != blank
    assert parts == render(markdown)


@settings(deadline=None)
@given(WORDS)
def test_plain_text_loses_no_word_and_no_order(words):
    assert " ".join(texts(" ".join(words))).split() == words


@given(st.lists(st.sampled_from(["👨‍👩‍👧‍👦", "🇫🇷", "👍🏽", "é", "✍️"]), min_size=400, max_size=1200))
@settings(max_examples=25, deadline=None)
def test_no_emoji_is_cut(symbols):
    # The way out: emoji cut in half.
    parts = render("".join(symbols))
    check_limits(parts)
    assert "".join(part["text"] for part in parts) == "".join(symbols)
    for part in parts:
        first = part["text"][0]
        assert first not in "\u200d\ufe0f" and not unicodedata.combining(first) and first not in "🏽"
        assert sum(char in "🇫🇷" for char in part["text"]) % 2 == 0


def test_blank_text_has_no_parts():
    assert render(" \n\t") == render("") == render("\x00") == []


# The way out: code fences not reopened.
def test_a_long_fence_is_opened_again_in_each_part():
    code = "\n".join(f"line {number} = [\U0001f600]" for number in range(1000))
    parts = render(f"Before\n\n```python\n{code}\n```\n\nAfter")
    check_limits(parts)
    assert len(parts) > 3
    for part in parts:
        assert [(e["type"], e["language"]) for e in part["entities"]] == [("pre", "python")]
    assert "\n".join(part["text"] for part in parts).count("line ") == 1000


# The way out: `<`, `>` and `&` break the HTML -> every text node kept.
@pytest.mark.parametrize(
    "markdown",
    ["List<int> and a<b && c>d", "<div>\n  kept & shown\n</div>", "a <b>bold</b> <!-- note -->", "&lt;x&gt; is <x>"],
)
def test_what_looks_like_html_is_kept(markdown):
    shown = markdown.replace("&lt;", "<").replace("&gt;", ">")
    assert only(markdown)["text"] == shown


def test_markup_becomes_entities():
    assert marked("# T\n\n**b** *i* `c` ~~s~~\n\n> q") == [
        ("bold", "T"),
        ("bold", "b"),
        ("italic", "i"),
        ("code", "c"),
        ("strikethrough", "s"),
        ("blockquote", "q"),
    ]


def test_headings_and_lists_have_no_emoji():
    assert only("# A\n## B\n\n- x\n- [x] y\n- [ ] z")["text"] == "A\nB\n\n• x\n☑ y\n☐ z"


def test_a_table_is_a_block_of_fixed_width():
    assert marked("| a | b |\n|---|---|\n| [l](https://x.example) | c<br>d |") == [
        ("pre", "a                     | b  \n----------------------+----\nl (https://x.example) | c d")
    ]


@pytest.mark.parametrize("url", ["docs/a.md", "javascript:alert(1)", "http://localhost:3000/x", "mailto:a@b.example"])
def test_links_that_telegram_refuses_become_text(url):
    part = only(f"see [here]({url}).")
    assert (part["text"], part["entities"]) == (f"see here ({url}).", [])


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("[ok](https://a.example/b?c#d)", "ok"),
        ("![chart](https://a.example/c.png)", "chart"),
        ("![](https://a.example/c.png)", "https://a.example/c.png"),
        ("<https://a.example>", "https://a.example"),
        ("[r][1]\n\n[1]: https://a.example", "r"),
    ],
)
def test_other_links_can_be_clicked(markdown, text):
    assert marked(markdown) == [("text_link", text)]


def test_an_image_in_a_link_is_one_link():
    assert marked("[![logo](https://a.example/i.png)](https://b.example)") == [
        ("text_link", "logo (https://a.example/i.png)")
    ]


def test_a_definition_that_no_link_uses_is_shown():
    assert (
        only("text\n\n[note]: words\n[1]: https://a.example")["text"] == "text\n\n[note]: words\n[1]: https://a.example"
    )


def test_of_two_definitions_of_one_name_none_is_lost():
    assert only("[a]: https://a.example\n[a]: https://b.example\n\n[a]") == only(
        "\\[a]: https://b.example\n\n[a](https://a.example)"
    )


def test_cells_beyond_the_heading_of_a_table_are_shown():
    assert only("| a | b |\n|---|---|\n| 1 | 2 | 3 |")["text"] == "a | b |  \n--+---+--\n1 | 2 | 3"
    assert only("> a | b\n> :--|--\n> 1 | 2 | `3\\|4`")["text"].splitlines()[-1] == "1 | 2 | 3|4"


def test_prose_is_not_taken_for_math_spoilers_or_strikethrough():
    text = "pay $5 or $6, about ~5 to ~6, if a || b || c"
    assert only(text) == {"text": text, "entities": []}


def test_more_than_a_hundred_entities_make_more_parts():
    parts = render(" ".join(f"**{number}**" for number in range(250)))
    check_limits(parts)
    assert [word for part in parts for word in part["text"].split()] == [str(n) for n in range(250)]
    assert sum(len(part["entities"]) for part in parts) == 250


def test_many_long_links_make_more_parts():
    parts = render("\n".join(f"[{n}](https://a.example/{'x' * 900})" for n in range(40)))
    assert all(sum(len(e["url"]) for e in part["entities"]) < 9500 for part in parts)
    assert sum(len(part["entities"]) for part in parts) == 40


def test_words_are_not_cut_when_there_is_a_space():
    for text in texts("wonderful " * 2000):
        assert re.fullmatch(r"(wonderful ?)+", text)


def test_a_text_that_panics_the_parser_goes_out_as_it_is(monkeypatch):
    def panics(*_, **__):
        raise BaseException("panicked")

    monkeypatch.setattr(telegram_format, "_converted", panics)
    assert render("**kept**") == [{"text": "**kept**", "entities": []}]
