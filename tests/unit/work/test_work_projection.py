"""The projection: what follows from observations, and what does not."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput
from app.work.observation import EVIDENCE, Branch, Kind, Observation, Status
from app.work.projection import StepState, Truth, project
from tests.unit.work.ledgers import START, TASK, Line, minutes


def test_progress_never_completes_a_step() -> None:
    line = Line("a", "b")
    for minute in range(1, 5):
        line.see(minute, Kind.STEP_PROGRESS, "a")
    assert line.derived.step_states == {"a": StepState.RUNNING, "b": StepState.PENDING}
    assert (line.derived.current_step, line.derived.truth_state) == ("a", Truth.RUNNING)


def test_only_the_completion_of_the_task_completes_it() -> None:
    line = Line("a", "b").see(1, Kind.STEP_COMPLETED, "a").see(2, Kind.STEP_COMPLETED, "b")
    assert (line.derived.truth_state, line.derived.current_step) == (Truth.RUNNING, None)
    line.see(3, Kind.TASK_COMPLETED)
    assert (line.derived.truth_state, line.derived.ended_at) == (Truth.COMPLETED, minutes(3))
    assert line.derived.inconsistencies == ()


def test_the_current_step_is_the_first_that_is_worked_on_else_the_next() -> None:
    line = Line("a", "b", "c").see(1, Kind.STEP_COMPLETED, "a")
    assert line.derived.current_step == "b"
    assert line.see(2, Kind.STEP_PROGRESS, "c").derived.current_step == "c"
    assert line.see(3, Kind.STEP_PROGRESS, "b").derived.current_step == "b"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (Line("a", "b").see(1, Kind.STEP_COMPLETED, "a").see(2, Kind.TASK_COMPLETED), "not its steps: b"),
        (
            Line("a").see(1, Kind.STEP_COMPLETED, "a").see(2, Kind.STEP_PROGRESS, "a"),
            "a was completed before it started",
        ),
        (Line("a").see(1, Kind.STEP_COMPLETED, "a").see(2, Kind.STEP_COMPLETED, "a"), "a was completed twice"),
        (Line().see(1, Kind.TASK_COMPLETED).see(2, Kind.TASK_COMPLETED), "task was completed twice"),
        (Line().see(1, Kind.STARTED, goal="again"), "started twice"),
        (Line("a").see(1, Kind.STEP_PROGRESS, "x"), "Step x is not part of the workflow"),
        (Line().see(1, Kind.EXTERNAL_OBSERVED, source="render.example", job="film", status="pending"), "evidence"),
        (Line().see(1, Kind.BLOCKED_CONFIRMED, reason="NO_KEY").see(2, Kind.TASK_COMPLETED), "completed and blocked"),
        (
            Line("a")
            .see(1, Kind.STEP_COMPLETED, "a")
            .see(2, Kind.BLOCKED_CONFIRMED, "a", reason="NO_KEY")
            .see(3, Kind.TASK_COMPLETED),
            "completed and blocked",
        ),
    ],
)
def test_what_does_not_fit_together_is_said_in_a_sentence(line: Line, sentence: str) -> None:
    assert line.derived.truth_state is Truth.INCONSISTENT
    (found,) = line.derived.inconsistencies
    assert sentence in found and found.endswith(".")


def test_a_task_completed_while_it_waits_outside_is_inconsistent() -> None:
    line = Line().see(1, Kind.EXTERNAL_OBSERVED, job="film", status="pending", evidence={"job_id": "7"})
    assert "waits outside for film" in line.see(2, Kind.TASK_COMPLETED).derived.inconsistencies[0]


def test_what_was_never_started_is_inconsistent() -> None:
    line = Line()
    del line.seen[0]
    line.see(1, Kind.STEP_COMPLETED, "a")
    assert line.derived.inconsistencies == ("The task was never started.",)
    line.see(2, Kind.STARTED, goal="late")
    assert line.derived.inconsistencies == ("Something was completed before the task was started.",)


@pytest.mark.parametrize("proof", EVIDENCE)
def test_any_evidence_makes_a_wait_legitimate(proof: str) -> None:
    line = Line("a").see(1, Kind.EXTERNAL_OBSERVED, "a", job="film", status="pending", evidence={proof: "42"})
    (pending,) = line.derived.pending_external
    assert line.derived.truth_state is Truth.WAITING_EXTERNAL
    assert (pending.name, pending.evidence, pending.is_suspicious) == ("film", {proof: "42"}, False)


@pytest.mark.parametrize("evidence", [{}, {"job_id": ""}])
def test_a_claim_without_evidence_is_no_wait(evidence: dict[str, str]) -> None:
    line = Line().see(1, Kind.EXTERNAL_OBSERVED, job="film", status="pending", evidence=evidence)
    assert line.derived.truth_state is Truth.INCONSISTENT and line.derived.pending_external[0].is_suspicious
    line.see(2, Kind.EXTERNAL_OBSERVED, job="film", status="pending", evidence={"job_id": "7"})
    assert line.derived.truth_state is Truth.WAITING_EXTERNAL, "evidence that comes later heals it"


def test_a_job_that_ends_is_not_waited_for() -> None:
    proof = {"job_id": "7"}
    line = Line("a").see(1, Kind.EXTERNAL_OBSERVED, "a", job="film", status="pending", evidence=proof)
    assert line.see(2, Kind.EXTERNAL_OBSERVED, "a", job="film", status="completed").derived.pending_external == ()
    assert line.derived.truth_state is Truth.RUNNING
    failed = line.see(3, Kind.EXTERNAL_OBSERVED, "a", job="film", status="failed").derived
    assert (failed.truth_state, failed.blocks[0].reason) == (Truth.BLOCKED, "EXECUTION_ERROR")


@pytest.mark.parametrize(
    ("status", "reason"), [(Status.TIMEOUT, "DOWNLOAD_TIMEOUT"), (Status.INCOMPLETE, "DOWNLOAD_INCOMPLETE")]
)
def test_a_download_that_falls_short_blocks_its_step(status: Status, reason: str) -> None:
    line = Line("a").see(1, Kind.DOWNLOAD_OBSERVED, "a", path="x.mp3", status="pending", bytes=10)
    assert line.derived.pending_external[0].evidence == {"artifact": "x.mp3"}
    line.see(2, Kind.DOWNLOAD_OBSERVED, "a", path="x.mp3", status=status, bytes=10)
    assert (line.derived.blocks[0].reason, line.derived.step_states["a"]) == (reason, StepState.BLOCKED)
    line.see(3, Kind.DOWNLOAD_OBSERVED, "a", path="x.mp3", status="completed", bytes=20)
    assert (line.derived.blocks, line.derived.progressed_at) == ((), minutes(3))


def test_a_download_gets_on_only_by_more_bytes() -> None:
    line = Line()
    for minute, size in ((1, 10), (2, 10), (3, 12), (4, 12)):
        line.see(minute, Kind.DOWNLOAD_OBSERVED, path="x.mp3", status="pending", bytes=size)
    assert (line.derived.progressed_at, line.derived.seen_at) == (minutes(3), minutes(4))


def test_a_heartbeat_counts_as_progress_only_if_something_was_done() -> None:
    line = Line().see(1, Kind.HEARTBEAT, success=True).see(2, Kind.HEARTBEAT, success=False).see(3, Kind.HEARTBEAT)
    assert (line.derived.progressed_at, line.derived.seen_at) == (minutes(1), minutes(3))


def test_a_block_ends_when_its_step_gets_on_and_no_other_does() -> None:
    line = Line("a", "b").see(1, Kind.BLOCKED_CONFIRMED, "a", reason="NO_KEY")
    assert line.derived.truth_state is Truth.BLOCKED and line.derived.progressed_at == START
    assert line.see(2, Kind.STEP_PROGRESS, "b").derived.truth_state is Truth.BLOCKED
    assert line.see(3, Kind.STEP_PROGRESS, "a").derived.truth_state is Truth.RUNNING


def test_a_resumed_step_may_be_completed_again() -> None:
    line = Line("a").see(1, Kind.STEP_PROGRESS, "a").see(2, Kind.STEP_COMPLETED, "a")
    line.see(3, Kind.OWNER_RESUMED, "a")
    assert line.derived.step_states == {"a": StepState.PENDING}
    line.see(4, Kind.STEP_PROGRESS, "a").see(5, Kind.STEP_COMPLETED, "a").see(6, Kind.TASK_COMPLETED)
    assert line.derived.truth_state is Truth.COMPLETED


def test_what_failed_for_good_is_an_end_that_the_owner_may_take_back() -> None:
    line = Line("a").see(1, Kind.BLOCKED_CONFIRMED, "a", reason="EXECUTION_ERROR", final=True)
    assert (line.derived.truth_state, line.derived.ended_at) == (Truth.FAILED, minutes(1))
    line.see(2, Kind.OWNER_RESUMED)
    assert (line.derived.truth_state, line.derived.ended_at) == (Truth.RUNNING, None)


def test_the_owners_reply_settles_what_did_not_fit() -> None:
    line = Line("a").see(1, Kind.TASK_COMPLETED).see(2, Kind.EXTERNAL_OBSERVED, job="film", status="pending")
    line.see(3, Kind.TASK_COMPLETED)
    assert len(line.derived.inconsistencies) == 4
    line.see(4, Kind.OWNER_REPLY_RECORDED, branch=Branch.WORKING)
    assert (line.derived.truth_state, line.derived.inconsistencies) == (Truth.RUNNING, ())
    assert line.derived.progressed_at == minutes(3), "a word is no progress"
    line.see(5, Kind.STEP_COMPLETED, "a").see(6, Kind.TASK_COMPLETED)
    assert line.derived.truth_state is Truth.COMPLETED


@pytest.mark.parametrize("branch", list(Branch))
def test_an_answer_that_crosses_the_completion_changes_nothing(branch: Branch) -> None:
    line = Line("a").see(1, Kind.STEP_PROGRESS, "a").see(2, Kind.STEP_COMPLETED, "a").see(3, Kind.TASK_COMPLETED)
    line.see(4, Kind.OWNER_REPLY_RECORDED, branch=branch)
    assert (line.derived.truth_state, line.derived.ended_at) == (Truth.COMPLETED, minutes(3))


def test_a_report_that_comes_after_the_completion_of_its_step_is_no_progress() -> None:
    line = Line("a", "b").see(1, Kind.STEP_PROGRESS, "a").see(2, Kind.STEP_COMPLETED, "a")
    line.see(9, Kind.STEP_PROGRESS, "a")
    assert (line.derived.progressed_at, line.derived.inconsistencies) == (minutes(2), ())


def test_giving_up_is_an_end() -> None:
    line = Line("a").see(1, Kind.OWNER_REPLY_RECORDED, branch=Branch.GIVEN_UP)
    assert (line.derived.truth_state, line.derived.ended_at) == (Truth.ABANDONED, minutes(1))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Kind.STARTED, {}),
        (Kind.STARTED, {"goal": "g", "steps": ["a", "a"]}),
        (Kind.STARTED, {"goal": "g", "steps": [" "]}),
        (Kind.STEP_PROGRESS, {}),
        (Kind.STEP_COMPLETED, {}),
        (Kind.BLOCKED_CONFIRMED, {}),
        (Kind.OWNER_REPLY_RECORDED, {"branch": "F"}),
        (Kind.EXTERNAL_OBSERVED, {"job": "film"}),
        (Kind.EXTERNAL_OBSERVED, {"job": "film", "status": "timeout"}),
        (Kind.EXTERNAL_OBSERVED, {"job": "film", "status": "pending", "evidence": {"word": "mine"}}),
        (Kind.EXTERNAL_OBSERVED, {"job": "film", "status": "pending", "evidence": "yes"}),
        (Kind.DOWNLOAD_OBSERVED, {"status": "pending"}),
    ],
)
def test_an_observation_without_what_it_needs_is_refused(kind: Kind, fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=kind):
        Observation(TASK, kind, "k", START, "owner", data=fields).checked()


def test_external_observations_say_who_saw_them() -> None:
    with pytest.raises(BadInput, match="source"):
        Observation(TASK, Kind.EXTERNAL_OBSERVED, "k", START, " ", data={"job": "f", "status": "pending"}).checked()


STEPS = ("a", "b", "c")
JOBS = ("film", "song")
FILES = ("x.mp3", "y.mp3")
a_step = st.sampled_from(
    [(Kind.STEP_PROGRESS, {}), (Kind.STEP_COMPLETED, {}), (Kind.BLOCKED_CONFIRMED, {"reason": "EXECUTION_ERROR"})]
)
a_job = st.builds(
    lambda status, proof: (Kind.EXTERNAL_OBSERVED, {"status": status, "evidence": {"job_id": proof}}),
    st.sampled_from(["pending", "completed", "failed"]),
    st.sampled_from(["", "7"]),
)
a_download = st.builds(
    lambda status, size: (Kind.DOWNLOAD_OBSERVED, {"status": status, "bytes": size}),
    st.sampled_from(list(Status)),
    st.integers(0, 3),
)
streams = st.fixed_dictionaries(
    {name: st.lists(a_step, max_size=4) for name in STEPS}
    | {name: st.lists(a_job, max_size=3) for name in JOBS}
    | {name: st.lists(a_download, max_size=3) for name in FILES}
)

mixers = st.randoms(use_true_random=False)


def interleaved(found: dict[str, list[tuple[Kind, dict[str, Any]]]], mixer: random.Random) -> Line:
    """The streams of steps and jobs, each in its own order, mixed with one another."""
    order = [name for name, stream in found.items() for _ in stream]
    mixer.shuffle(order)
    line, at = Line(*STEPS), dict.fromkeys(found, 0)
    for minute, name in enumerate(order, 1):
        kind, data = found[name][at[name]]
        at[name] += 1
        called = {"job": name} if name in JOBS else {"path": name} if name in FILES else {}
        line.see(minute, kind, None if called else name, **data | called)
    return line


@given(streams, mixers, mixers)
def test_the_order_of_unrelated_observations_does_not_matter(
    found: Any, one: random.Random, other: random.Random
) -> None:
    first, second = interleaved(found, one).derived, interleaved(found, other).derived
    assert first.step_states == second.step_states and first.current_step == second.current_step
    assert first.truth_state == second.truth_state and first.inconsistencies == second.inconsistencies
    assert [replace(block, at=START, summary="") for block in first.blocks] == [
        replace(block, at=START, summary="") for block in second.blocks
    ]
    assert [replace(job, at=START) for job in first.pending_external] == [
        replace(job, at=START) for job in second.pending_external
    ]


@given(streams, mixers, mixers)
def test_replay_gives_the_same(found: Any, mixer: random.Random, shuffler: random.Random) -> None:
    seen = interleaved(found, mixer).seen
    shuffled = list(seen)
    shuffler.shuffle(shuffled)
    assert project(shuffled) == project(seen) == project(iter(seen))


@given(streams, mixers)
def test_the_wire_form_is_json_that_says_it_all(found: Any, mixer: random.Random) -> None:
    derived = interleaved(found, mixer).derived
    wire = derived.wire()
    assert set(wire) >= {
        "workflow",
        "current_step",
        "step_states",
        "pending_external",
        "truth_state",
        "inconsistencies",
    }
    assert wire["step_states"] == {name: str(state) for name, state in derived.step_states.items()}
