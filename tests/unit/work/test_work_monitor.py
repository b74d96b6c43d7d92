"""The monitor: every row of its order, and silence while a task gets on."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.work.monitor import RETRY_FIRST, Do, decide, next_check
from app.work.observation import Branch, Kind
from app.work.projection import Truth, project
from app.work.supervision import Limits, Supervision
from tests.unit.work.ledgers import Line, minutes, watch

PROOF = {"job_id": "7"}


def inconsistent() -> Line:
    return Line("a").see(1, Kind.TASK_COMPLETED)


@pytest.mark.parametrize(
    "line",
    [
        Line().see(1, Kind.TASK_COMPLETED),
        Line("a").see(1, Kind.BLOCKED_CONFIRMED, "a", reason="EXECUTION_ERROR", final=True),
        inconsistent().see(2, Kind.OWNER_REPLY_RECORDED, branch=Branch.GIVEN_UP),
    ],
    ids=["completed", "failed", "given up"],
)
def test_row_1_what_has_ended_is_watched_no_more(line: Line) -> None:
    assert decide(line.derived, watch(), minutes(999)).kind is Do.STOP_AND_DELETE


def test_row_2_what_cannot_be_believed_is_asked_about_before_anything_else() -> None:
    line = inconsistent().see(2, Kind.BLOCKED_CONFIRMED, "a", reason="NO_KEY")
    action = decide(line.derived, watch(), minutes(999))
    assert (action.kind, action.attempt, action.is_due(minutes(999))) == (Do.OWNER_RECONCILE, 1, True)
    assert "not its steps: a" in action.reason


def test_row_2_a_claim_without_evidence_is_asked_about_even_while_progress_is_fresh() -> None:
    line = Line().see(1, Kind.EXTERNAL_OBSERVED, job="film", status="pending").see(2, Kind.HEARTBEAT, success=True)
    assert decide(line.derived, watch(), minutes(2)).kind is Do.OWNER_RECONCILE


def test_row_2_the_same_question_waits_before_it_is_put_again() -> None:
    action = decide(inconsistent().derived, watch(asks=1, asked_at=minutes(2)), minutes(3))
    assert (action.kind, action.attempt, action.not_before) == (Do.OWNER_RECONCILE, 2, minutes(32))


@pytest.mark.parametrize("changes", [{"owner_key": None}, {"asks": 3, "asked_at": minutes(5)}])
def test_row_2_with_nobody_to_ask_it_is_only_stated_and_a_person_told_once(changes: dict[str, Any]) -> None:
    action = decide(inconsistent().derived, watch(**changes), minutes(6))
    assert (action.kind, action.tells) == (Do.TRUTH_INCONSISTENT, True)
    told = decide(inconsistent().derived, watch(**changes, escalated_at=minutes(7)), minutes(8))
    assert (told.kind, told.tells) == (Do.TRUTH_INCONSISTENT, False)


@pytest.mark.parametrize("reason", RETRY_FIRST)
def test_row_3_a_passing_fault_is_tried_again_three_times_then_escalated(reason: str) -> None:
    line = Line("a").see(1, Kind.BLOCKED_CONFIRMED, "a", reason=reason)
    found = []
    for used in range(4):
        tried = watch(retries={"a": used} if used else {}, retried_at=minutes(2) if used else None)
        action = decide(line.derived, tried, minutes(999))
        found.append((action.kind, action.attempt, action.subject))
    assert found == [(Do.RETRY, 1, "a"), (Do.RETRY, 2, "a"), (Do.RETRY, 3, "a"), (Do.BLOCKED_ESCALATE, 0, "a")]


def test_row_3_retries_wait_longer_each_time() -> None:
    line = Line("a").see(1, Kind.BLOCKED_CONFIRMED, "a", reason="TRANSIENT_NETWORK")
    due = [
        decide(
            line.derived, watch(retries={"a": used}, retried_at=minutes(10) if used else None), minutes(1)
        ).not_before
        for used in range(3)
    ]
    assert due == [minutes(1), minutes(15), minutes(25)]


def test_row_3_retries_are_counted_by_step() -> None:
    line = Line("a", "b").see(1, Kind.BLOCKED_CONFIRMED, "b", reason="EXECUTION_ERROR")
    action = decide(line.derived, watch(retries={"a": 3}), minutes(1))
    assert (action.kind, action.attempt) == (Do.RETRY, 1)


def test_row_3_any_other_block_is_told_at_once_and_once() -> None:
    line = Line("a", "b").see(1, Kind.BLOCKED_CONFIRMED, "a", reason="EXECUTION_ERROR")
    line.see(2, Kind.BLOCKED_CONFIRMED, "b", reason="NEEDS_A_KEY")
    action = decide(line.derived, watch(), minutes(2))
    assert (action.kind, action.subject, action.tells) == (Do.BLOCKED_ESCALATE, "b", True)
    assert not decide(line.derived, watch(escalated_at=minutes(2)), minutes(3)).tells
    line.see(4, Kind.STEP_PROGRESS, "b").see(5, Kind.BLOCKED_CONFIRMED, "b", reason="NEEDS_A_KEY")
    assert decide(line.derived, watch(escalated_at=minutes(2)), minutes(6)).tells, "it got on and is blocked again"


@pytest.mark.parametrize("status", ["timeout", "incomplete", "failed"])
def test_row_3_a_download_that_fell_short_is_a_block(status: str) -> None:
    line = Line("a").see(1, Kind.DOWNLOAD_OBSERVED, "a", path="x", status=status)
    assert decide(line.derived, watch(), minutes(1)).kind is Do.RETRY


def test_row_4_idle_for_longer_and_longer() -> None:
    line = Line("a").see(1, Kind.STEP_PROGRESS, "a")
    kinds = [decide(line.derived, watch(), minutes(1 + idle)).kind for idle in (9, 10, 19, 20, 29, 30)]
    assert kinds == [
        Do.OK,
        Do.HEARTBEAT_DUE,
        Do.HEARTBEAT_DUE,
        Do.STALE_PROGRESS,
        Do.STALE_PROGRESS,
        Do.NUDGE_MAIN_AGENT,
    ]


def test_row_4_who_only_lives_is_nudged_all_the_same() -> None:
    line = Line("a").see(1, Kind.STEP_PROGRESS, "a")
    for minute in range(2, 32):
        line.see(minute, Kind.HEARTBEAT, success=False)
    assert decide(line.derived, watch(), minutes(15)).kind is Do.OK, "it was heard of, and is not stale yet"
    assert decide(line.derived, watch(), minutes(31)).kind is Do.NUDGE_MAIN_AGENT


def test_row_4_the_owner_is_nudged_three_times_then_a_person_is_told_once() -> None:
    line = Line("a")
    second = decide(line.derived, watch(asks=1, asked_at=minutes(30)), minutes(40))
    assert (second.kind, second.attempt, second.not_before) == (Do.NUDGE_MAIN_AGENT, 2, minutes(60))
    last = decide(line.derived, watch(asks=3, asked_at=minutes(90)), minutes(120))
    assert (last.kind, last.tells, last.not_before) == (Do.STALE_PROGRESS, True, minutes(120))
    assert not decide(line.derived, watch(asks=3, asked_at=minutes(90), escalated_at=minutes(120)), minutes(150)).tells


def test_row_4_answering_without_getting_on_does_not_start_the_count_anew() -> None:
    line = Line("a").see(31, Kind.OWNER_REPLY_RECORDED, branch=Branch.WORKING)
    assert decide(line.derived, watch(asks=3, asked_at=minutes(30)), minutes(99)).kind is Do.STALE_PROGRESS
    line.see(32, Kind.STEP_PROGRESS, "a")
    assert decide(line.derived, watch(asks=3, asked_at=minutes(30)), minutes(99)).kind is Do.NUDGE_MAIN_AGENT


def test_row_5_a_wait_with_evidence_is_ok_until_nobody_looked_for_six_hours() -> None:
    line = Line("a").see(1, Kind.EXTERNAL_OBSERVED, "a", job="film", status="pending", evidence=PROOF)
    assert decide(line.derived, watch(), minutes(360)).kind is Do.OK
    assert decide(line.derived, watch(), minutes(361)).kind is Do.NUDGE_MAIN_AGENT
    line.see(300, Kind.EXTERNAL_OBSERVED, "a", job="film", status="pending", evidence=PROOF)
    assert decide(line.derived, watch(), minutes(361)).kind is Do.OK, "it was looked at since"


PROGRESS = st.sampled_from(
    [(Kind.STEP_PROGRESS, {}), (Kind.HEARTBEAT, {"success": True}), (Kind.STEP_PROGRESS, {"chars": 7})]
)


@given(st.lists(st.tuples(st.floats(0.1, 9.9), PROGRESS), min_size=30, max_size=60), st.floats(0, 9.9))
def test_a_task_with_steady_progress_is_never_nudged_however_long_it_takes(
    seen: list[tuple[float, Any]], rest: float
) -> None:
    line, at = Line("a"), 0.0
    for gap, (kind, data) in seen:
        assert decide(line.derived, watch(), minutes(at + gap)).kind is Do.OK
        at += gap
        line.see(at, kind, "a", **data)
    assert decide(line.derived, watch(), minutes(at + rest)).kind is Do.OK


def test_four_hours_of_steady_progress() -> None:
    line = Line("a")
    for minute in range(1, 241):
        assert decide(line.derived, watch(), minutes(minute)).kind is Do.OK
        if minute % 9 == 0:
            line.see(minute, Kind.STEP_PROGRESS, "a")


@given(st.lists(st.sampled_from(["a", "b"]), max_size=5), st.floats(0, 9.9))
def test_no_action_but_ok_while_progress_is_fresh(steps: list[str], age: float) -> None:
    line = Line("a", "b")
    for minute, step in enumerate(steps, 1):
        line.see(minute, Kind.STEP_PROGRESS, step)
    assert decide(line.derived, watch(), minutes(len(steps) + age)).kind is Do.OK


ENDS = (Truth.COMPLETED, Truth.FAILED, Truth.ABANDONED)
DECISIONS = {truth: {Do.STOP_AND_DELETE} for truth in ENDS} | {
    Truth.INCONSISTENT: {Do.OWNER_RECONCILE, Do.TRUTH_INCONSISTENT},
    Truth.BLOCKED: {Do.RETRY, Do.BLOCKED_ESCALATE},
    Truth.RUNNING: {Do.NUDGE_MAIN_AGENT, Do.STALE_PROGRESS, Do.HEARTBEAT_DUE, Do.OK},
    Truth.WAITING_EXTERNAL: {Do.NUDGE_MAIN_AGENT, Do.STALE_PROGRESS, Do.OK},
}
"""The rows of the order, by what is believed of the task."""

anything = st.lists(
    st.sampled_from(
        [
            (Kind.STEP_PROGRESS, "a", {}),
            (Kind.STEP_PROGRESS, "b", {"idle_s": 120}),
            (Kind.STEP_COMPLETED, "a", {}),
            (Kind.STEP_COMPLETED, "b", {}),
            (Kind.TASK_COMPLETED, None, {}),
            (Kind.BLOCKED_CONFIRMED, "a", {"reason": "EXTERNAL_WAIT"}),
            (Kind.BLOCKED_CONFIRMED, None, {"reason": "NO_KEY"}),
            (Kind.BLOCKED_CONFIRMED, "b", {"reason": "NO_KEY", "final": True}),
            (Kind.OWNER_RESUMED, None, {}),
            (Kind.OWNER_REPLY_RECORDED, None, {"branch": "A"}),
            (Kind.OWNER_REPLY_RECORDED, None, {"branch": "E"}),
            (Kind.EXTERNAL_OBSERVED, None, {"job": "film", "status": "pending", "evidence": PROOF}),
            (Kind.EXTERNAL_OBSERVED, "b", {"job": "song", "status": "pending"}),
            (Kind.EXTERNAL_OBSERVED, None, {"job": "film", "status": "completed"}),
            (Kind.DOWNLOAD_OBSERVED, "a", {"path": "x", "status": "timeout"}),
            (Kind.HEARTBEAT, None, {"success": True}),
            (Kind.HEARTBEAT, None, {"success": False}),
        ]
    ),
    max_size=12,
)
watches = st.builds(
    lambda owner, asks, used, told: watch(
        owner, asks=asks, asked_at=minutes(5) if asks else None, retries={"a": used}, escalated_at=told
    ),
    st.sampled_from([None, "test:chat"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([None, minutes(6)]),
)


@given(anything, watches, st.floats(0, 1000))
def test_whatever_was_observed_the_order_of_the_rows_holds(seen: list[Any], held: Supervision, age: float) -> None:
    line = Line("a", "b")
    for minute, (kind, step, data) in enumerate(seen, 1):
        line.see(minute, kind, step, **data)
    derived, now = line.derived, minutes(len(seen) + age)
    action = decide(derived, held, now)
    assert action.kind in DECISIONS[derived.truth_state]
    assert action == decide(project(reversed(line.seen)), held, now), "it depends on nothing else"
    assert next_check(derived, held, action, now) > now or not action.is_due(now) or action.kind is Do.RETRY
    fresh = derived.progressed_at == now and not any(at <= now for at in derived.idle_at.values())
    if fresh and derived.truth_state in (Truth.RUNNING, Truth.WAITING_EXTERNAL):
        assert action.kind is Do.OK


@given(anything, watches)
def test_right_after_progress_it_is_ok_unless_something_is_wrong(seen: list[Any], held: Supervision) -> None:
    line = Line("a", "b")
    for minute, (kind, step, data) in enumerate([*seen, (Kind.STEP_PROGRESS, "b", {"idle_s": 120})], 1):
        line.see(minute, kind, step, **data)
    derived, now = line.derived, minutes(len(seen) + 1)
    wrong = derived.truth_state not in (Truth.RUNNING, Truth.WAITING_EXTERNAL)
    assert (decide(derived, held, now + timedelta(minutes=1.9)).kind is Do.OK) is not wrong


def test_row_4_a_step_that_said_how_long_it_may_be_idle_is_asked_about_then() -> None:
    line = Line("a", "b").see(1, Kind.STEP_PROGRESS, "a", idle_s=600)
    for minute in range(2, 14):
        line.see(minute, Kind.STEP_PROGRESS, "b")
    assert decide(line.derived, watch(), minutes(10.9)).kind is Do.OK
    found = decide(line.derived, watch(), minutes(11))
    assert (found.kind, found.subject) == (Do.NUDGE_MAIN_AGENT, "a") and "Step a was to get on by" in found.reason
    line.see(14, Kind.STEP_PROGRESS, "a")
    assert decide(line.derived, watch(), minutes(23.9)).kind is Do.OK, "each progress begins it anew"
    line.see(24, Kind.STEP_COMPLETED, "a")
    assert decide(line.derived, watch(), minutes(26)).kind is Do.OK


@given(st.integers(1, 500), st.booleans(), st.integers(0, 3))
def test_the_next_look_is_never_now_and_never_too_late(age: int, waits: bool, asks: int) -> None:
    """What is decided then is decided at the first moment at which it can be, however long nothing is observed."""
    line = Line("a")
    if waits:
        line.see(0, Kind.EXTERNAL_OBSERVED, "a", job="film", status="pending", evidence=PROOF)
    held = watch(asks=asks, asked_at=minutes(0) if asks else None)
    now = minutes(age)
    action = decide(line.derived, held, now)
    after = next_check(line.derived, held, action, now)
    assert after > now
    between = now + (after - now) * 0.99
    assert replace(decide(line.derived, held, between), reason="") == replace(action, reason="")


def test_the_limits_are_the_tasks_own() -> None:
    slow = Limits(heartbeat_s=3600, stale_s=7200, nudge_s=10_800)
    assert decide(Line("a").derived, watch(limits=slow), minutes(59)).kind is Do.OK
    assert decide(Line("a").derived, watch(limits=slow), minutes(180)).kind is Do.NUDGE_MAIN_AGENT
