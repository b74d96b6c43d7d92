"""Exact and unique replacement, and the sentences for a passage that misses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput
from tools.replacement import Change, replace, replace_all_of

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
    assert "stands at line 1, but what follows there differs: line 2 is '    return 1', not '    return 7'" in refused(
        CODE, "def a():\n    return 7"
    )
    assert "the file ends before 'x = 1'" in refused(CODE, "def b():\n    return 1\nx = 1")
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


def test_of_several_places_the_one_that_agrees_longest_is_told() -> None:
    text = "if a:\n    go()\n\nif a:\n    stop()\n    wait()\n"
    assert "line 6 is '    wait()', not '    run()'" in refused(text, "if a:\n    stop()\n    run()")


def test_several_changes_work_one_after_the_other() -> None:
    changes = [Change("def a", "def first"), Change("first():\n    return 1", "first():\n    return 0")]
    done = replace_all_of(CODE, changes, "a.py")
    assert done.text == CODE.replace("def a():\n    return 1", "def first():\n    return 0") and done.lines == [1, 1]


def test_the_change_that_does_not_fit_is_named_with_the_reason() -> None:
    with pytest.raises(BadInput) as raised:
        replace_all_of(CODE, [Change("def a", "def c"), Change("return 1", "return 2"), Change("x", "y")], "a.py")
    assert "Nothing was changed: edit 2 of 3 does not fit. a.py: old_text stands at 2 places" in str(raised.value)
    with pytest.raises(BadInput) as raised:
        replace_all_of(CODE, [Change("def a", "def c"), Change("def a():", "def d():")], "a.py")
    assert "It stood there before the edits above it" in str(raised.value)


PASSAGES = st.tuples(st.text("ab\n", min_size=1, max_size=4), st.text("ab\n", max_size=4), st.booleans())


@given(st.text("ab\n\r", max_size=30), st.lists(PASSAGES, min_size=1, max_size=4))
def test_all_changes_are_made_or_none(text: str, wanted: list[tuple[str, str, bool]]) -> None:
    changes = [Change(*one) for one in wanted]
    try:
        done = replace_all_of(text, changes, "a")
    except BadInput as error:
        assert len(changes) == 1 or "Nothing was changed: edit " in str(error)
        return
    for change in changes:
        text = replace(text, change.old, change.new, "a", everywhere=change.everywhere).text
    assert done.text == text
