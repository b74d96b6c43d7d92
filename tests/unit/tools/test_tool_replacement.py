"""Exact and unique replacement, and the sentences for a passage that misses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput
from tools.replacement import replace

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def refused(text: str, old: str, new: str = "x", **options: bool) -> str:
    with pytest.raises(BadInput) as raised:
        replace(text, old, new, "a.py", **options)
    return str(raised.value)


def test_the_one_place_is_replaced() -> None:
    done = replace(CODE, "def b():\n", "def c():\n", "a.py")
    assert (done.text, done.lines) == (CODE.replace("b()", "c()"), [5])


def test_several_places_are_named_and_need_leave() -> None:
    assert "old_text stands at 2 places (lines 2, 6)" in refused(CODE, "return 1")
    done = replace(CODE, "return 1", "return 2", "a.py", everywhere=True)
    assert done.text == CODE.replace("1", "2") and done.lines == [2, 6]


def test_overlapping_places_are_several() -> None:
    assert "2 places" in refused("aaa", "aa")


def test_near_misses_are_explained() -> None:
    assert "Line 2 differs from it in white space only: '    return 1'" in refused(CODE, "\treturn 1\n")
    assert "leave the numbers and the tab after them out" in refused(CODE, "     2\t    return 1")
    assert "stands at line 1, but what follows there differs" in refused(CODE, "def a():\n    return 7")
    assert "Closest lines: line 1: 'def a():'" in refused(CODE, "def aa():")
    assert "No line of the file is close" in refused(CODE, "something else entirely")
    assert "old_text is empty" in refused(CODE, "")
    assert "nothing would change" in refused(CODE, "def a", "def a")
    assert "white space only" in refused(CODE, "\t\t")


def test_mixed_line_endings_stay_where_they_are() -> None:
    assert replace("a\r\nb\r\nc\nd\r\n", "c\nd", "C\nD", "a").text == "a\r\nb\r\nC\nD\r\n"
    assert replace("a\r\nb\r\nc\n", "b", "b\nb2", "a").text == "a\r\nb\r\nb2\r\nc\n"


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=4), st.text("ab\n", max_size=4))
def test_either_one_place_changes_or_none(text: str, old: str, new: str) -> None:
    try:
        done = replace(text, old, new, "a")
    except BadInput:
        return
    assert text.count(old) == 1
    assert done.text == text.replace(old, new, 1)
    assert done.lines == [text[: text.index(old)].count("\n") + 1]
