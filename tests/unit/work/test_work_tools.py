"""The tools for tracked tasks: written once for a step, only by the owner, only while the task is open."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.act import act
from app.agent.context.state_block import open_work
from app.agent.delegation.tracked import MACHINE, MAX_OPEN
from app.agent.flow import Flow
from app.agent.think import think
from app.agent.tool import Toolbox
from app.tables import calls as call_rows
from app.tables import observations
from app.work import ledger, supervision
from app.work.observation import Kind
from app.work.projection import Derived, Truth
from tests.unit.house import RUN, SESSION, House, ask, begin, make_house, run_id, wishes
from tools.tracked import external_job, task_block, task_complete, task_progress, task_reply, task_start

TOOLS = Toolbox.of(task_start, task_progress, task_complete, task_block, external_job, task_reply)


@pytest.fixture
async def home(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "home", template)
    built = replace(built, harness=replace(built.harness, toolbox=TOOLS))
    yield built
    await built.db.close()


class Turn:
    """A turn that calls tools one after the other."""

    def __init__(self, house: House, flow: Flow) -> None:
        self.house, self.flow, self.number = house, flow, 0

    async def call(self, tool: str, **given: Any) -> str:
        self.house.model.answers = [wishes((tool, given))]
        await think(self.house.harness, self.flow, ask(self.number))
        await self.again(tool)
        self.number += 1
        row = self.house.rows(call_rows.select().order_by(call_rows.c.id.desc()))[0]
        return str(row.result)

    async def again(self, tool: str) -> None:
        await act(self.house.harness, self.flow, {"key": f"tool#{self.number}.0", "name": tool})


@pytest.fixture
async def turn(home: House) -> Turn:
    return Turn(home, await begin(home))


def task_id(house: House) -> str:
    return str(house.rows(observations.select())[0].task_id)


async def derived(house: House) -> Derived:
    return await house.db.read(ledger.derived, task_id(house))


async def test_from_start_to_completion(home: House, turn: Turn) -> None:
    said = await turn.call("task_start", goal="count the ships", steps=["a", "b"])
    found = task_id(home)
    assert said == f"Task {found} is RUNNING; current step: a; steps: a PENDING, b PENDING."
    await turn.call("task_progress", task_id=found, step="a", summary="half of them")
    await turn.call("task_progress", task_id=found, step="a", summary="12", completed=True)
    await turn.call("task_progress", task_id=found, step="b", summary="written", completed=True)
    assert "is COMPLETED" in await turn.call("task_complete", task_id=found, summary="12 ships")
    seen = await home.db.read(ledger.of_task, found)
    assert [one.kind for one in seen] == [
        Kind.STARTED,
        Kind.STEP_PROGRESS,
        Kind.STEP_COMPLETED,
        Kind.STEP_COMPLETED,
        Kind.TASK_COMPLETED,
    ]
    assert {one.source for one in seen} == {"owner"} and seen[0].data["owner"] == SESSION
    watch = await home.db.read(supervision.find, found)
    assert watch is not None and (watch.owner_key, watch.executor) == (SESSION, "owner")


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("task_start", {"goal": "g", "steps": ["a"]}),
        ("task_progress", {"step": "a", "summary": "s"}),
        ("task_progress", {"step": "a", "summary": "s", "completed": True}),
        ("task_complete", {"summary": "s"}),
        ("task_block", {"reason": "EXECUTION_ERROR", "summary": "s"}),
        ("external_job", {"job": "film", "source": "render.example", "status": "pending", "evidence": {"job_id": "7"}}),
        ("task_reply", {"branch": "B", "summary": "s"}),
    ],
)
async def test_attempted_again_after_a_crash_it_is_recorded_once(
    home: House, turn: Turn, tool: str, given: dict[str, Any]
) -> None:
    if tool != "task_start":
        await turn.call("task_start", goal="g", steps=["a"])
        given = given | {"task_id": task_id(home)}
    await turn.call(tool, **given)
    before = home.rows(observations.select())
    with home.tx() as tx:  # the process died between the observation and the end of its call
        tx.execute(call_rows.update().where(call_rows.c.name == tool).values(state="planned", result=None, ok=None))
    turn.number -= 1
    await turn.again(tool)
    assert home.rows(observations.select()) == before
    assert home.rows(call_rows.select().order_by(call_rows.c.id.desc()))[0].ok


async def test_a_completion_with_unfinished_steps_is_said_to_be_inconsistent_and_heals(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="g", steps=["a"])
    said = await turn.call("task_complete", task_id=task_id(home), summary="done")
    assert "is INCONSISTENT" in said and "not its steps: a" in said
    await turn.call("task_progress", task_id=task_id(home), step="a", summary="it was", completed=True)
    assert (await derived(home)).truth_state is Truth.COMPLETED


async def test_a_job_without_evidence_is_called_what_it_is(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="g")
    job = {"task_id": task_id(home), "job": "film", "source": "render.example", "status": "pending"}
    assert "without evidence" in await turn.call("external_job", **job)
    assert "waits outside for film" in await turn.call("external_job", **job, evidence={"receipt": "42"})
    assert (await derived(home)).pending_external[0].source == "render.example"
    assert "evidence word is not accepted" in await turn.call("external_job", **job, evidence={"word": "mine"})


async def test_a_block_belongs_to_the_step_that_is_worked_on(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="g", steps=["a", "b"])
    await turn.call("task_progress", task_id=task_id(home), step="b", summary="begun")
    await turn.call("task_block", task_id=task_id(home), reason="TRANSIENT_NETWORK", summary="no route")
    assert [(one.step, one.reason) for one in (await derived(home)).blocks] == [("b", "TRANSIENT_NETWORK")]


async def test_what_has_ended_is_not_written_to_any_more(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="g", steps=["a"])
    await turn.call("task_block", task_id=task_id(home), reason="NO_WAY", summary="s", final=True)
    said = await turn.call("task_progress", task_id=task_id(home), step="a", summary="s")
    assert "has ended (FAILED)" in said and (await derived(home)).truth_state is Truth.FAILED


async def test_a_task_of_another_conversation_is_none(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="g", steps=["a"])
    elsewhere = await begin(home, key="test:2", run=run_id(2), session_key="test:other")
    other = Turn(home, elsewhere)
    said = await other.call("task_progress", task_id=task_id(home), step="a", summary="mine now")
    assert "has no task" in said and "open: none" in said
    assert "has no task" in await other.call("task_reply", task_id=task_id(home), branch="E", summary="s")
    assert len(home.rows(observations.select())) == 1


async def test_an_unknown_step_or_task_is_refused_with_those_that_there_are(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="g", steps=["a", "b"])
    assert "accepted: a, b" in await turn.call("task_progress", task_id=task_id(home), step="c", summary="s")
    said = await turn.call("task_complete", task_id="k0", summary="s")
    assert f"no task 'k0'; open: {task_id(home)}" in said


@pytest.mark.parametrize(
    ("answer", "truth", "kinds"),
    [
        ({"branch": "A"}, Truth.RUNNING, []),
        ({"branch": "A", "step": "a"}, Truth.RUNNING, [Kind.STEP_PROGRESS]),
        ({"branch": "B"}, Truth.COMPLETED, [Kind.STEP_COMPLETED, Kind.STEP_COMPLETED, Kind.TASK_COMPLETED]),
        ({"branch": "C", "reason": "NEEDS_A_PERSON"}, Truth.BLOCKED, [Kind.BLOCKED_CONFIRMED]),
        (
            {"branch": "D", "job": "film", "evidence": {"poll_token": "p"}},
            Truth.WAITING_EXTERNAL,
            [Kind.EXTERNAL_OBSERVED],
        ),
        ({"branch": "E"}, Truth.ABANDONED, []),
    ],
)
async def test_each_branch_records_the_reply_and_what_was_observed(
    home: House, turn: Turn, answer: dict[str, Any], truth: Truth, kinds: list[Kind]
) -> None:
    await turn.call("task_start", goal="g", steps=["a", "b"])
    await turn.call("task_complete", task_id=task_id(home), summary="a contradiction")
    await turn.call("task_reply", task_id=task_id(home), summary="looked", **answer)
    seen = await home.db.read(ledger.of_task, task_id(home))
    assert [one.kind for one in seen[2:]] == [Kind.OWNER_REPLY_RECORDED, *kinds]
    assert (await derived(home)).truth_state is truth and seen[2].key.startswith(RUN)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"branch": "C"}, "needs a reason"),
        ({"branch": "D", "job": "film"}, "evidence: one of job_id"),
        ({"branch": "D", "evidence": {"job_id": "7"}}, "needs the job"),
        ({"branch": "F"}, "branch"),
    ],
)
async def test_a_reply_that_lacks_something_is_not_recorded(
    home: House, turn: Turn, answer: dict[str, Any], sentence: str
) -> None:
    await turn.call("task_start", goal="g")
    assert sentence in await turn.call("task_reply", task_id=task_id(home), summary="looked", **answer)
    assert len(home.rows(observations.select())) == 1


async def test_a_turn_that_no_person_started_tracks_no_new_tasks(home: House) -> None:
    """TRAPS, "Life and death": what a machine asks must not multiply."""
    turn = Turn(home, await begin(home, "How does it stand?", origin="the monitor", steers=False))
    assert await turn.call("task_start", goal="g") == MACHINE
    assert home.rows(observations.select()) == []


async def test_there_is_an_end_to_open_tasks(home: House, turn: Turn) -> None:
    for _ in range(MAX_OPEN):
        await turn.call("task_start", goal="g")
    assert f"There are {MAX_OPEN} open tasks already" in await turn.call("task_start", goal="g")


async def test_open_tasks_are_pinned_to_every_thought(home: House, turn: Turn) -> None:
    await turn.call("task_start", goal="count  the\nships", steps=["a"])
    with home.tx() as tx:
        assert open_work(tx, turn.flow.session_id) == {
            task_id(home): f"- tracked task {task_id(home)} is RUNNING, step a: count the ships"
        }
