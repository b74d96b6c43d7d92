"""A goal's life: readiness, retries and names, over all the ways in which a goal can go."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.work.life import (
    DELAYS,
    Life,
    Outcome,
    Priority,
    Try,
    done_steps,
    is_complete,
    next_number,
    open_life,
    pause,
    ready,
    taken_back,
)
from app.work.pipeline import Action, Pipeline, Step


def pipeline(needs: dict[str, tuple[str, ...]], retries: int = 3) -> Pipeline:
    steps = tuple(Step(id=name, action=Action.NOTIFY, needs=n, max_retries=retries) for name, n in needs.items())
    return Pipeline(name="demo", steps=steps)


DIAMOND = pipeline({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")})


def done(step: str, number: int = 1) -> Try:
    return Try(step, number, True, Outcome.DONE)


def failed(step: str, number: int = 1) -> Try:
    return Try(step, number, True, Outcome.FAILED)


def test_ready_steps_come_side_by_side() -> None:
    assert ready(DIAMOND, []) == ["a"]
    assert ready(DIAMOND, [Try("a", 1)]) == []
    assert ready(DIAMOND, [done("a")]) == ["b", "c"]
    assert ready(DIAMOND, [done("a"), done("c")]) == ["b"]
    assert ready(DIAMOND, [done("a"), done("b"), Try("c", 1, True)]) == []
    assert ready(DIAMOND, [done("a"), done("b"), done("c")]) == ["d"]


def test_a_failed_step_is_not_ready_but_retried_after_a_growing_while() -> None:
    tries = [done("a"), failed("b")]
    assert ready(DIAMOND, tries) == ["c"]
    waits = []
    for number in range(1, 5):
        waits.append(pause(DIAMOND, [failed("b", n) for n in range(1, number + 1)], "b"))
    assert waits == [*DELAYS, None], "at most three retries"
    assert sorted(DELAYS) == list(DELAYS) and len(set(DELAYS)) == 3
    assert pause(pipeline({"a": ()}, retries=0), [failed("a")], "a") is None
    assert pause(DIAMOND, [Try("a", 1, True, Outcome.HOPELESS)], "a") is None


def test_what_counts_no_more_gives_new_tries() -> None:
    old = [replace(failed("a", n), void=True) for n in (1, 2, 3, 4)]
    assert ready(DIAMOND, old) == ["a"]
    assert next_number(old, "a") == 5
    assert pause(DIAMOND, [*old, failed("a", 5)], "a") == DELAYS[0]


@pytest.mark.parametrize(
    ("tries", "life"),
    [
        ([], Life.CREATED),
        ([Try("a", 1)], Life.CREATED),
        ([Try("a", 1, True)], Life.IN_PROGRESS),
        ([done("a")], Life.IN_PROGRESS),
        ([failed("a")], Life.FAILED),
        ([failed("a"), Try("a", 2)], Life.FAILED),
        ([failed("a"), Try("a", 2, True)], Life.RETRY),
        ([failed("a"), done("a", 2)], Life.IN_PROGRESS),
        ([done("a"), done("b"), failed("c")], Life.FAILED),
        ([replace(done("a"), void=True), Try("a", 2, True)], Life.IN_PROGRESS),
    ],
)
def test_names_of_an_open_life(tries: list[Try], life: Life) -> None:
    assert open_life(tries) is life


def test_priorities_have_an_order() -> None:
    assert sorted(Priority, key=lambda one: one.rank) == ["person", "file", "interrupted", "batch"]


def test_a_poor_product_takes_back_what_was_made_of_it() -> None:
    needs = {"a": (), "sum": ("a",), "page": ("sum",), "other": ("a",), "check": ("page", "other"), "end": ("check",)}
    assert taken_back(pipeline(needs), "check", "sum") == ["sum", "page", "check"]


@st.composite
def graphs(draw: st.DrawFn) -> Pipeline:
    size = draw(st.integers(1, 8))
    names = [f"s{i}" for i in range(size)]
    needs = {
        n: tuple(draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else ()) for i, n in enumerate(names)
    }
    return pipeline(dict(draw(st.permutations(list(needs.items())))))


@given(graphs(), st.data())
def test_whatever_ends_first_and_fails_everything_is_done_once(demo: Pipeline, data: st.DataObject) -> None:
    """Steps end in any order and fail at will: none begins before its needs, none twice at a time, all get done."""
    tries: dict[tuple[str, int], Try] = {}
    while not is_complete(demo, tries.values()):
        for name in ready(demo, list(tries.values())):
            assert done_steps(tries.values()).issuperset(demo.step(name).needs)
            number = next_number(tries.values(), name)
            tries[name, number] = Try(name, number, True)
        running = [one for one in tries.values() if one.outcome is None]
        assert running, "something is left to do, so something runs"
        assert len({one.step for one in running}) == len(running)
        one = data.draw(st.sampled_from(running))
        has_failed = one.number <= 3 and data.draw(st.booleans())
        tries[one.step, one.number] = replace(one, outcome=Outcome.FAILED if has_failed else Outcome.DONE)
        if has_failed:
            wait = pause(demo, list(tries.values()), one.step)
            assert wait is not None and wait > timedelta()
            tries[one.step, one.number + 1] = Try(one.step, one.number + 1, True)
    assert ready(demo, list(tries.values())) == []
    assert sum(one.outcome is Outcome.DONE for one in tries.values()) == len(demo.steps)
