"""Markdown made whole: whatever the text, every word of it is one that the parser hands on."""

import re
from typing import Any

import pyromark
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.channels.markdown_whole import OPTIONS, whole

LINES = st.sampled_from(
    [
        *("| a{n} | b{n} |", "|---|---|", "| c{n} | d{n} | e{n} | f{n} |", "g{n} | h{n}", "", "> | i{n} |", "> |---|"),
        *("> | j{n} | k{n} |", "[n{n}]: l{n}", "[n1]: m{n}", "see [n1] and [o{n}][n1]", "> [n2]: p{n}", "- [n3]: q{n}"),
        *("![r{n}][n2] [n3][]", "`s{n}`", "    t{n}", "```", "[![u{n}][n1]][n2]", "[*v{n}*][N1]", "<b>w{n}</b>"),
        *('[x{n}](/u "y{n}")', "![n2](</u> 'z{n}')", '[n4]: /u "aa{n}"', "see [n4]"),
    ]
)
DOCUMENT = st.lists(LINES, max_size=14).map(lambda lines: "\n".join(one.format(n=n) for n, one in enumerate(lines)))


def shown(markdown: str) -> str:
    """All that a renderer is handed: words, and where links lead."""
    found = []
    for event in pyromark.events(markdown, options=OPTIONS):
        match event:
            case {"Text": text} | {"Code": text} | {"Html": text} | {"InlineHtml": text}:
                found.append(text)
            case {"Start": {"Link": tag} | {"Image": tag}}:
                found.append(f" {tag['dest_url']} ")
            case {"Start": {"CodeBlock": {"Fenced": info}}}:
                found.append(info)
            case _:
                found.append(" ")
    return "".join(found)


@settings(deadline=None, max_examples=400)
@given(DOCUMENT)
@example("| a1 |\n|---|\n| b1 | c1 |")
@example("a1 | b1\r\n--|--\r\nc1 | d1 | e1\r\n")
@example("[n1]: a1\n[n1]: a2\n[n1]: a3")
def test_no_word_is_lost(markdown: str) -> None:
    words = set(re.findall(r"\b[a-z]\d+\b", re.sub(r"\[n\d\]|\[N\d\]", "", markdown)))
    assert words - set(re.findall(r"\b[a-z]\d+\b", shown(whole(markdown)))) == set()


@pytest.mark.parametrize("markdown", ["", "plain", "| a |\n|---|\n| 1 |", "[a](b) `[c]: d`", "```\n[a]: b\n```"])
def test_what_is_whole_stays_as_it_is(markdown: str) -> None:
    assert whole(markdown) == markdown


def links(markdown: str) -> list[Any]:
    events = pyromark.events(markdown, options=OPTIONS)
    return [tag["dest_url"] for e in events if isinstance(e, dict) and "Start" in e and isinstance(e["Start"], dict)
            for name, tag in e["Start"].items() if name == "Link"]  # fmt: skip


@pytest.mark.parametrize("url", ["https://e.example/(a)b", "<a b>", "/x&amp;copy;", "/a\\*b", "é"])
def test_a_link_leads_where_it_led(url: str) -> None:
    markdown = f"[a][b]\n\n[b]: {url}"
    assert links(whole(markdown)) == [one.replace(" ", "%20") for one in links(markdown)] != []
