"""Markdown for Slack: every part within every limit, nothing lost, no call to people that the model could make."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.channels.markdown_split import split_markdown
from app.channels.slack_format import MARKDOWN_CHARS, SECTION_CHARS, blocks_of, notice, render
from app.channels.slack_mrkdwn import mrkdwn
from tests.fakes.slack_server import MAX_BLOCKS, check_content

WORDS = st.text(st.sampled_from("ab é漢😀👩‍👩‍👧&<>*_~`[]()#-|!@\\\n \t"), max_size=60)
PIECES = st.sampled_from(
    [
        *("# Head\n", "- item\n", "  - [x] done\n", "> quote\n", "```py\n", "```\n", "~~~\n", "---\n", "\n\n"),
        *("| a | b |\n|---|---|\n| 1 | 2 |\n", "[a](https://a.example/b)", "![c](https://d.example)"),
        *("<!here>", "<@U12345>", "<b>x</b>", "**bold**"),
    ]
)
MARKDOWN = st.lists(st.one_of(WORDS, PIECES), max_size=30).map("".join)


@given(MARKDOWN | st.text(max_size=400))
@example("<!channel>")
@example(">" * 400)
@example("- " * 900)
@example("\x00\ud800")
@example("```" + "`" * 100)
@example("[![c](https://d.example)\\[a](https://a.example/b)")
@settings(max_examples=300, deadline=None)
def test_every_part_is_one_that_slack_takes(markdown: str) -> None:
    parts = render(markdown)
    assert bool(parts) == bool(markdown.replace("\x00", "").strip())
    for part in parts:
        for plain in (False, True):
            check_content({"text": notice(part), "blocks": blocks_of(part, plain=plain)})
        assert not re.search(r"<(?![^<>\s|]+(\|[^<>]*)?>)", part["text"]), "what is no link of ours is escaped"
        for text in (part["text"], part["markdown"]):
            assert not re.search(r"<!(here|channel|everyone)|<@[UW]\w\w", text)


WORD = st.integers(0, 10**6).map(lambda number: f"w{number}")
AROUND = st.sampled_from(
    [
        *(
            "**{}**",
            "*{}*",
            "~~{}~~",
            "~{}~",
            "`{}`",
            "``{}``",
            "[{}](https://a.example/b)",
            "![{}](https://a.example/i)",
        ),
        *("<b>{}</b>", "<!-- {} -->", "[{}][r]", "[{}]", "<https://a.example/{}>", "{}  \n", "&lt;{}&gt;", "<{}>"),
        *('[x](https://a.example/b "{}")', "![x](<https://a.example/i> '{}')"),
    ]
)
INLINE = st.recursive(
    WORD,
    lambda inner: st.builds(str.format, AROUND, inner) | st.lists(inner, min_size=2, max_size=3).map(" ".join),
    max_leaves=6,
)
BLOCK = st.sampled_from(
    [
        *("{}", "# {}", "> {}", "> > {}", "- {}\n  - {}", "```py\n{}\n```", "    {}", "1. {}\n\n   {}", "{}\n==="),
        *(
            "| a | b |\n|---|---|\n| {} | 2 | {} |",
            "- [ ] {}\n- [x] {}",
            "[r]: {}",
            "[r]: https://x.example/{}",
            '[r]: /x "{}"',
        ),
        *("<div>\n{}\n</div>", "> | a |\n> |--|\n> | {} | {} |", "~~~\n{}", "~~~~no language, {}~~~~", "***\n{}"),
    ]
)


@given(st.lists(st.builds(lambda block, text: block.replace("{}", text), BLOCK, INLINE), max_size=5).map("\n\n".join))
@example("[r]: w0\n\n<https://a.example/w1>")
@example("~~~~w0  \n~~~~")
@example("~~~~w0  \n  \n~~~~")
@example('~~~~no language, ``[x](https://a.example/b "w0")``~~~~')
@settings(max_examples=300, deadline=None)
def test_every_word_is_there_in_both_forms(markdown: str) -> None:
    words = set(re.findall(r"w\d+", markdown))
    for form in ("text", "markdown"):
        shown = "\n".join(part[form] for part in render(markdown))
        assert words <= set(re.findall(r"w\d+", shown)), form


@given(MARKDOWN, st.integers(200, 400))
@example("```py\n" + "x = 1\n" * 200 + "```", 200)
@example("> ```\n> code\n" * 30, 200)
@example("word " * 200, 200)
@example("👩‍👩‍👧" * 100, 200)
@settings(max_examples=300, deadline=None)
def test_pieces_keep_the_limit_and_the_words(markdown: str, limit: int) -> None:
    pieces = split_markdown(markdown, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    signs = re.compile(r"[^a-bé漢😀&<>@!]")  # what is neither white space nor part of a fence that is repeated
    if "```" not in markdown and "~~~" not in markdown:
        assert signs.sub("", "".join(pieces)) == signs.sub("", markdown)


def test_a_fence_is_closed_and_opened_again_with_its_language() -> None:
    pieces = split_markdown("before\n\n```py\n" + "line = 1\n" * 60 + "```\n\nafter", 200)
    assert len(pieces) > 2
    for piece in pieces:
        assert piece.count("```") % 2 == 0 and (piece.startswith(("before", "```py\n", "after")))
    assert sum(piece.count("line = 1") for piece in pieces) == 60


def test_cuts_are_made_between_paragraphs() -> None:
    paragraphs = [f"{number} " + "word " * 18 for number in range(6)]
    assert split_markdown("\n\n".join(p.rstrip() for p in paragraphs), 220) == [
        "\n\n".join(p.rstrip() for p in paragraphs[at : at + 2]) for at in (0, 2, 4)
    ]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# A **b** _c_", "*A b _c_*"),
        ("**bold** *slanted* ~~gone~~ `code`", "*bold* _slanted_ ~gone~ `code`"),
        ("***both***", "_*both*_"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("<b>x</b> &amp;", "&lt;b&gt;x&lt;/b&gt; &amp;"),
        ("[the page](https://e.example/?a=1&b=2|3)", "<https://e.example/?a=1&amp;b=2%7C3|the page>"),
        ("<https://e.example>", "<https://e.example>"),
        ("[here](javascript:alert(1))", "here (javascript:alert(1))"),
        ("[*](../x)", "* (../x)"),
        ("![a cat](https://e.example/c.png)", "<https://e.example/c.png|a cat>"),
        (
            "[![ok](https://e.example/ok.png) b](https://e.example)",
            "<https://e.example|ok (https://e.example/ok.png) b>",
        ),
        ("> one\n> two\n\nthree", "> one\n> two\n\nthree"),
        ("- a\n  - b\n    - c\n- d", "• a\n    • b\n        • c\n• d"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"),
        ("```py\na < `b`\n```", "```\na &lt; `b`\n```"),
        (
            "| a |\n|---|\n| [the **page**](https://e.example/x) |",
            "```\na\n------------------------------\nthe page (https://e.example/x)\n```",
        ),
        ("| a | long |\n|---|---|\n| 1 | **2** |", "```\na | long\n--+-----\n1 | 2\n```"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("<!here> <@U12345>", "&lt;!here&gt; &lt;@U12345&gt;"),
    ],
)
def test_the_plain_form(markdown: str, text: str) -> None:
    assert mrkdwn(markdown) == text


def test_code_that_has_the_sign_of_code_in_it_stays_readable() -> None:
    assert mrkdwn("``a`b``") == "a`b"
    assert "`\u200b`\u200b`" in mrkdwn("````\n```\n````") and mrkdwn("````\n```\n````").count("```") == 2


# Text must be preserved: what a parser keeps to itself is written out before it is asked.
@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| 4 |", "```\na | b |\n--+---+--\n1 | 2 | 3\n4 |   |\n```"),
        ("text\n\n[note]: words\n[note]: others", "text\n\n\\[note]: words\n[note]: others"),
        ("[the page][p]\n\n[p]: https://e.example/?a=1&b=2", "[the page](https://e.example/?a=1&b=2)"),
        ("[P] and [p][], ![i][p]\n\n[p]: https://e.example", "[P](https://e.example) and [p](https://e.example), "
         "![i](https://e.example)"),
        ('[a](https://e.example "the (page)") ![b][p]\n\n[p]: /i \'it*\'', "[a](https://e.example) (the \\(page\\)) "
         "![b](/i) (it\\*)"),
        ("[![i][p] *é*][q]\n\n[p]: /a(b)\n[q]: <a b>", "[![i](</a(b)>) *é*](<a%20b>)"),
    ],
)  # fmt: skip
def test_what_a_parser_would_keep_to_itself_is_shown(markdown: str, shown: str) -> None:
    (part,) = render(markdown)
    assert part["markdown"] == shown


def test_a_link_works_in_a_piece_without_its_definition() -> None:
    parts = render("[first][p]\n\n" + "word " * 4000 + "\n\n[p]: https://e.example")
    assert parts[0]["text"].startswith("<https://e.example|first>") and len(parts) > 1


# Slack: ... tables as pipes -> markdown blocks.
def test_what_a_markdown_block_does_not_know_is_written_out() -> None:
    (part,) = render("Look:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n- [ ] open\n\n```py\n| no | table |\n---\n```")
    assert part["markdown"] == (
        "Look:\n\n```\na | b\n--+--\n1 | 2\n```\n\n———\n\n- ☐ open\n\n```py\n| no | table |\n---\n```"
    )


def test_a_text_that_escaping_makes_longer_becomes_more_parts() -> None:
    parts = render("&" * MARKDOWN_CHARS)
    assert len(parts) > 1 and sum(len(part["markdown"]) for part in parts) == MARKDOWN_CHARS
    for part in parts:
        blocks = blocks_of(part, plain=True)
        assert len(blocks) <= MAX_BLOCKS and all(len(block["text"]["text"]) <= SECTION_CHARS for block in blocks)


def test_a_notice_ends_with_a_whole_sign() -> None:
    cut = notice({"text": "x" * 3996 + "&amp;" * 5})
    assert cut == "x" * 3996 + "…"
