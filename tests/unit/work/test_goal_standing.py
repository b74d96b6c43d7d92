"""How a goal stands is a pure function of its tries and the ledger: the same for the same, anew for what is redone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.work.goals import Claim, Goal
from app.work.life import Life, is_complete, ready
from app.work.observation import Kind, Observation
from app.work.pipeline import Action, Pipeline, Step
from app.work.standing import Standing, standing

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
STEPS = ("a", "b", "c")
PIPELINE = Pipeline(
    name="demo",
    steps=tuple(
        Step(id=name, action=Action.NOTIFY, needs=STEPS[:place][-1:]) for place, name in enumerate(STEPS)
    ),
)  # fmt: skip


def goal(closed: bool = False) -> Goal:
    facts = {"title": "demo", "source": ""}
    return Goal("g1", PIPELINE, facts, None, 0, None, NOW, NOW if closed else None)


def claim(step: str, number: int = 1) -> Claim:
    return Claim("g1", step, number, NOW, "run")


def seen(place: int, kind: Kind, step: str | None = None, summary: str = "", **data: Any) -> Observation:
    at = NOW + timedelta(seconds=place)
    return Observation("g1", kind, f"{place}", at, "pipeline", step, summary, data, id=place)


STARTED = seen(0, Kind.STARTED, goal="demo", steps=list(STEPS))


def stands(claims: list[Claim], *observations: Observation, closed: bool = False) -> Standing:
    return standing(goal(closed), claims, [STARTED, *observations])


def test_products_and_life_come_from_the_ledger() -> None:
    made = seen(1, Kind.STEP_COMPLETED, "a", "made it", **{"try": 1, "product": "x"})
    found = stands([claim("a"), claim("b")], made)
    assert found.products["a"].path == "x" and found.life is Life.CREATED, "b waits for its run"
    begun = seen(2, Kind.STEP_PROGRESS, "b", **{"try": 1})
    found = stands([claim("a"), claim("b")], seen(0, Kind.STEP_PROGRESS, "a", **{"try": 1}), made, begun)
    assert found.life is Life.IN_PROGRESS
    assert ready(PIPELINE, found.tries) == []


def test_progress_never_completes_a_step() -> None:
    found = stands([claim("a")], seen(1, Kind.STEP_PROGRESS, "a", **{"try": 1}))
    assert not is_complete(PIPELINE, found.tries) and found.products == {}


def test_what_is_redone_counts_anew_and_carries_the_hint() -> None:
    done = seen(1, Kind.STEP_COMPLETED, "a", **{"try": 1, "product": "x"})
    redo = seen(2, Kind.OWNER_RESUMED, "a", "better", through=1, by="b", hint="better")
    found = stands([claim("a")], done, redo)
    assert ready(PIPELINE, found.tries) == ["a"] and found.products == {}
    assert found.hints == {"a": "better"} and found.redone == {"b": 1}
    again = stands([claim("a"), claim("a", 2)], done, redo, seen(3, Kind.STEP_COMPLETED, "a", **{"try": 2}))
    assert ready(PIPELINE, again.tries) == ["b"] and again.derived.inconsistencies == ()


def test_a_goal_that_a_person_has_tried_again_is_forgiven() -> None:
    failed = seen(1, Kind.BLOCKED_CONFIRMED, "a", "no", **{"try": 1, "reason": "EXECUTION_ERROR", "final": True})
    assert stands([claim("a")], failed, closed=True).life is Life.FAILED_PERMANENT
    assert stands([claim("a")], failed, closed=True).reason == "no"
    resumed = stands([claim("a")], failed, seen(2, Kind.OWNER_RESUMED))
    assert ready(PIPELINE, resumed.tries) == ["a"] and resumed.reason == ""


def test_ends_are_told_apart() -> None:
    given_up = seen(1, Kind.OWNER_REPLY_RECORDED, branch="E")
    assert stands([claim("a")], given_up, closed=True).life is Life.CANCELLED
    done = [seen(n, Kind.STEP_COMPLETED, step, **{"try": 1}) for n, step in enumerate(STEPS, 1)]
    found = stands([claim(step) for step in STEPS], *done, seen(9, Kind.TASK_COMPLETED), closed=True)
    assert found.life is Life.COMPLETED


kinds = st.sampled_from([Kind.STEP_PROGRESS, Kind.STEP_COMPLETED, Kind.BLOCKED_CONFIRMED, Kind.OWNER_RESUMED])


@given(st.lists(st.tuples(kinds, st.sampled_from(STEPS), st.integers(1, 3)), max_size=15))
def test_a_replay_is_the_same_and_nothing_is_ready_before_its_needs(
    story: list[tuple[Kind, str, int]],
) -> None:
    observations = [
        seen(place, kind, step, **{"try": number, "through": number, "reason": "EXECUTION_ERROR"})
        for place, (kind, step, number) in enumerate(story, 1)
    ]
    claims = [claim(step, number) for step in STEPS for number in (1, 2, 3)]
    first, again = stands(claims, *observations), stands(claims, *observations)
    assert first == again
    done = {one.step for one in first.tries if one.outcome == "done" and not one.void}
    for step in ready(PIPELINE, first.tries):
        assert done.issuperset(PIPELINE.step(step).needs) and step not in done
