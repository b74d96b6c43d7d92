"""What the Bot API says of entities, checked by itself: nesting, links, and that the text is all there."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.channels.telegram_format import render

STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler"}
CODE = {"pre", "code"}

LEAF = st.sampled_from(
    ["word", "ünï", "😀", "👨‍👩‍👧‍👦", "🇫🇷", "漢字", "a < b", "x & y", "f(x)", "long " * 900, "😀" * 2050]
)


def _around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(
        [
            *("**{}**", "*{}*", "~~{}~~", "`{}`", "[{}](https://a.example/b?c=1)", "***{}***", "_{}_"),
            '[x](https://a.example "{}")',
        ]
    )
    return st.one_of(
        st.builds(lambda sign, text: sign.format(text), signs, inner),
        st.lists(inner, min_size=2, max_size=3).map(" ".join),
    )


INLINE = st.recursive(LEAF, _around, max_leaves=6)
BLOCK = st.one_of(
    INLINE,
    INLINE.map(lambda text: f"# {text}"),
    INLINE.map(lambda text: f"> {text}"),
    INLINE.map(lambda text: f"> > {text}"),
    INLINE.map(lambda text: f"- {text}\n  - {text}"),
    INLINE.map(lambda text: f"```py\n{text}\n```"),
    INLINE.map(lambda text: f"| a | b |\n|---|---|\n| {text} | 2 |"),
)
DOCUMENT = st.lists(BLOCK, min_size=1, max_size=5).map("\n\n".join)


def check_nesting(entities: Sequence[dict[str, Any]]) -> None:
    """The Bot API's rules for entities that have characters in common."""
    spans = [(e["offset"], e["offset"] + e["length"], e["type"]) for e in entities]
    assert len(set(spans)) == len(spans), f"the same twice: {spans}"
    for number, (start, end, kind) in enumerate(spans):
        for other_start, other_end, other in spans[number + 1 :]:
            if end <= other_start or other_end <= start:
                continue
            inside = start <= other_start and other_end <= end
            assert inside or (other_start <= start and end <= other_end), f"{kind} and {other} cross"
            kinds = {kind, other}
            assert not (kinds & CODE and kinds - CODE - {"blockquote"}), f"{kinds} have characters in common"
            assert kinds & (STYLES | {"blockquote"}), f"{kinds} contain each other"
            assert kinds != {"blockquote"}, "quotes are not nested"


@settings(deadline=None, max_examples=150)
@given(DOCUMENT)
@example("**bold `code` bold**")
@example("[see `f.py` there](https://a.example)")
@example("[`f.py`](https://a.example)")
@example("# about `code`")
@example("# **word**")
@example("~~*`x`*~~")
@example("> > **a `b`**")
def test_entities_are_nested_as_telegram_allows(markdown: str) -> None:
    for part in render(markdown):
        check_nesting(part["entities"])


@settings(deadline=None, max_examples=100)
@given(DOCUMENT)
@example("word\n\n~~~~word~~~~")
@example("~~~~word~~~~\n\nword")
@example("> ```word\n> ```\nlong")
def test_every_word_is_there_in_its_order(markdown: str) -> None:
    words = re.compile(r"word|ünï|漢字|😀|👨‍👩‍👧‍👦|🇫🇷|long")
    shown = "".join(part["text"] for part in render(markdown))
    assert words.findall(shown) == words.findall(markdown)


@pytest.mark.parametrize(
    ("markdown", "marks"),
    [
        ("**a `b` c**", [("bold", "a "), ("code", "b"), ("bold", " c")]),
        ("[`f.py`](https://a.example)", [("text_link", "f.py")]),
        ("[see `f.py`](https://a.example)", [("text_link", "see f.py")]),
        ('[a](https://a.example "b *c*") d', [("text_link", "a")]),
        ("# `x` of *y*", [("code", "x"), ("bold", " of y"), ("italic", "y")]),
    ],
)
def test_around_code_other_marks_end_and_a_link_stays(markdown: str, marks: list[tuple[str, str]]) -> None:
    (part,) = render(markdown)
    found = [(e["type"], part["text"][e["offset"] : e["offset"] + e["length"]]) for e in part["entities"]]
    assert found == marks
