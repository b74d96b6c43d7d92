"""Delegated tasks write to the same ledger: they begin, get on, end and are cancelled there, once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from app.agent import attend as attend_module
from app.agent.act import act, observe
from app.agent.delegation.answered import answer, observed
from app.agent.delegation.delegated import follow
from app.agent.delegation.pulse import Pulse, note_pulse, note_tool
from app.agent.delegation.report import report
from app.agent.delegation.supervise import run_monitor
from app.agent.delegation.task_list import OpenTasks
from app.agent.delegation.tasks import receive_task
from app.agent.flow import Flow
from app.agent.goals import step as goal_step
from app.agent.goals.step import Task
from app.agent.harness import Harness
from app.agent.think import think
from app.agent.tool import Effect, Toolbox, ToolContext, tool
from app.db import Tx
from app.events import SubagentSpawn
from app.sessions.tasks import OPEN
from app.tables import observations, supervision
from app.tables import tasks as task_rows
from app.web.state import state
from app.work import ledger
from app.work.observation import Branch, Kind, Observation
from app.work.projection import Truth
from app.work.watching import Watching
from tests.unit.agent.test_agent_commands import say
from tests.unit.agent.test_agent_tasks import child, delegate, row, spawned
from tests.unit.house import SESSION, House, ask, begin, run_id, wishes
from tests.unit.work.goal_house import make, put_pipeline


async def waited_for(house: House) -> tuple[Flow, SubagentSpawn]:
    """A turn that waits for its sub-agent, and the task that it gave."""
    flow = await begin(house)
    house.model.answers = [wishes(("delegate_task", {"task": "count"}))]
    await think(house.harness, flow, ask())
    handed = await act(house.harness, flow, {"key": "tool#0.0", "name": "delegate_task", "durable": True})
    spawn = SubagentSpawn.from_data(handed["invoke"])
    await receive_task(house.harness, run_id(7), spawn)
    return flow, spawn


async def seen(house: House) -> list[Kind]:
    ids = {one.task_id for one in house.rows(observations.select())}
    return [one.kind for task_id in ids for one in await house.db.read(ledger.of_task, task_id)]


async def works(house: House, flow: Flow, tool: str, **given: Any) -> None:
    house.model.answers = [wishes((tool, given))]
    await think(house.harness, flow, ask())
    for _ in range(2):  # a step that is attempted again
        await act(house.harness, flow, {"key": "tool#0.0", "name": tool})


async def test_in_the_background_it_begins_gets_on_and_ends(house: House) -> None:
    await delegate(house)
    assert await seen(house) == [], "it has not begun"
    flow = await child(house)
    await child(house)  # a step that is attempted again
    await works(house, flow, "look", at="sea")
    for _ in range(2):
        await report(house.harness, spawned(house), "There are 12.", True)
    assert await seen(house) == [Kind.STARTED, Kind.HEARTBEAT, Kind.TASK_COMPLETED]
    derived = await house.db.read(ledger.derived, row(house).id)
    assert (derived.truth_state, derived.goal) == (Truth.COMPLETED, "count the ships")


async def test_its_chat_watches_over_it_until_it_ends(house: House) -> None:
    await delegate(house)
    await child(house)
    (watch,) = house.rows(supervision.select())
    assert (watch.task_id, watch.owner_key, watch.executor) == (row(house).id, SESSION, "sub_agent")
    await report(house.harness, spawned(house), "There are 12.", True)
    await run_monitor(house.harness)
    assert house.rows(supervision.select()) == []


async def test_the_whole_state_has_it_once(house: House) -> None:
    await delegate(house)
    await child(house)
    with house.tx() as tx:
        assert [(one["id"], one["kind"]) for one in state(tx, house.harness, Watching())["tasks"]] == [
            (row(house).id, "background")
        ]


async def test_a_tool_that_fails_is_no_progress(house: House) -> None:
    await delegate(house)
    await works(house, await child(house), "push", what="wall")
    assert await seen(house) == [Kind.STARTED]


async def test_one_that_failed_has_failed_for_good(house: House) -> None:
    await delegate(house)
    await child(house)
    await report(house.harness, spawned(house), "I could not.", False)
    derived = await house.db.read(ledger.derived, row(house).id)
    assert derived.truth_state is Truth.FAILED and derived.blocks[0].summary == "I could not."


async def test_one_that_is_cancelled_is_given_up(house: House) -> None:
    await delegate(house)
    await child(house)
    await OpenTasks(house.harness, SESSION).cancel(row(house).id)
    await report(house.harness, spawned(house), "too late", True)
    assert await seen(house) == [Kind.STARTED, Kind.OWNER_REPLY_RECORDED]
    assert (await house.db.read(ledger.derived, row(house).id)).truth_state is Truth.ABANDONED


async def _begins(house: House) -> None:
    await child(house)


async def _gets_on(house: House) -> None:
    await works(house, await child(house), "look", at="sea")


async def _ends(house: House) -> None:
    await report(house.harness, spawned(house), "There are 12.", True)


async def _fails(house: House) -> None:
    await report(house.harness, spawned(house), "I could not.", False)


async def _is_cancelled(house: House) -> None:
    await OpenTasks(house.harness, SESSION).cancel(row(house).id)


async def _is_said_to_be_done(house: House) -> None:
    await reply(house, Branch.DONE)


async def _is_given_up(house: House) -> None:
    await reply(house, Branch.GIVEN_UP)


async def reply(house: House, branch: Branch) -> None:
    seen = Observation(
        row(house).id, Kind.OWNER_REPLY_RECORDED, "r", house.clock.now(), "owner", data={"branch": branch}
    )
    with house.tx() as tx:
        answer(tx, house.harness, seen)


Deed = Callable[[House], Awaitable[None]]


@pytest.mark.parametrize(
    ("story", "state"),
    [
        ([], "waiting"),
        ([_begins], "running"),
        ([_begins, _gets_on], "running"),
        ([_begins, _ends], "done"),
        ([_begins, _fails], "failed"),
        ([_begins, _is_cancelled, _ends], "cancelled"),
        ([_is_cancelled], "cancelled"),
        ([_is_cancelled, _begins], "cancelled"),
        ([_fails], "failed"),
        ([_begins, _is_said_to_be_done, _ends], "done"),
        ([_begins, _is_given_up, _ends], "cancelled"),
    ],
    ids=lambda one: "-".join(deed.__name__.strip("_") for deed in one) if isinstance(one, list) else one,
)
async def test_the_row_of_an_order_can_be_made_again_from_the_ledger(
    house: House, story: list[Deed], state: str
) -> None:
    await delegate(house)
    for deed in story:
        await deed(house)
    before = row(house)
    assert before.state == state and (before.ended_at is None) == (state in OPEN)
    with house.tx() as tx:
        tx.execute(task_rows.update().values(state="waiting", ended_at=None))
        follow(tx, house.harness, before.id)
    assert row(house).state == state and (row(house).ended_at is None) == (before.ended_at is None)


async def test_one_that_a_turn_waits_for_is_in_the_ledger_and_nobody_is_asked(house: House) -> None:
    flow, spawn = await waited_for(house)
    await report(house.harness, spawn, "12", True)
    await observe(
        house.harness, flow, {"key": "tool#0.0", "name": "delegate_task"}, {"ok": True, "value": {"text": "12"}}
    )
    assert await seen(house) == [Kind.STARTED, Kind.TASK_COMPLETED]
    assert house.rows(supervision.select()) == []


async def test_the_end_that_only_its_parent_saw_is_an_end(house: House) -> None:
    flow, _ = await waited_for(house)
    await observe(house.harness, flow, {"key": "tool#0.0", "name": "delegate_task"}, {"ok": False, "error": "it died"})
    assert await seen(house) == [Kind.STARTED, Kind.BLOCKED_CONFIRMED]


async def test_stop_gives_up_what_the_turn_waited_for(house: House) -> None:
    await waited_for(house)
    await say(house, "stop", "c1")
    assert await seen(house) == [Kind.STARTED, Kind.OWNER_REPLY_RECORDED]


@pytest.mark.parametrize("minutes", [29, 30])
async def test_one_that_does_not_get_on_is_asked_about_in_the_chat_that_gave_it(house: House, minutes: int) -> None:
    await delegate(house)
    await child(house)
    house.clock.advance(minutes * 60)
    found = await run_monitor(house.harness)
    assert found["kinds"] == ({"NUDGE_MAIN_AGENT": 1} if minutes == 30 else {"STALE_PROGRESS": 1})
    sent = [e for e in house.sender.of("agent.message.received") if e["data"]["origin"] == "the monitor"]
    assert [e["data"]["sessionKey"] for e in sent] == ([SESSION] if minutes == 30 else [])
    assert all("cancel_task" in e["data"]["message"] for e in sent)


async def test_a_tool_that_takes_long_and_gets_on_is_progress_once_a_minute(house: House) -> None:
    await delegate(house)
    flow = await child(house)
    for _ in range(2 * 45):
        house.clock.advance(30)
        await house.db.write(note_pulse, house.harness, flow)
    found = await seen(house)
    assert found[0] is Kind.STARTED and found[1:] == [Kind.HEARTBEAT] * 46
    assert dict((await run_monitor(house.harness))["kinds"]) == {"OK": 1}


async def test_the_act_step_passes_on_that_a_tool_gets_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(tx: Tx, harness: Harness, flow: Flow) -> None:
        note_pulse(tx, harness, flow)
        loop.call_soon_threadsafe(noted.set)

    @tool(Effect.READ)
    async def listen(context: ToolContext) -> str:
        """Listens until somebody has heard of it."""
        context.progress()
        await noted.wait()
        return "It is about the sea."

    monkeypatch.setattr(attend_module, "note_pulse", note)
    monkeypatch.setattr(attend_module, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(attend_module, "SEEN_EVERY_LOOKS", 1)
    await delegate(house)
    flow = await child(house)
    object.__setattr__(house.harness, "toolbox", Toolbox.of(listen))
    await works(house, flow, "listen")
    assert await seen(house) == [Kind.STARTED, Kind.HEARTBEAT, Kind.HEARTBEAT], "it got on, and it is done"


async def test_a_tool_that_only_lives_is_no_progress(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend_module, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(attend_module, "SEEN_EVERY_LOOKS", 1)
    await delegate(house)
    await attend_module.attend(house.harness, await child(house), asyncio.sleep(0.05), pulse=Pulse())
    assert await seen(house) == [Kind.STARTED]


async def test_in_a_step_of_a_goal_each_tool_is_progress_of_the_step(goal_house: House) -> None:
    put_pipeline(goal_house, "demo", 'steps:\n  - {id: a, action: agent, content: "count the ships"}\n')
    goal = (await make(goal_house, "demo")).goal
    start = SubagentSpawn.from_data(goal_house.sender.of("agent.subagent.spawn")[0]["data"])
    task = Task.model_validate(await goal_step.begin(goal_house.harness, run_id(3), start))
    for key in ("tool#0.0", "tool#0.0", "tool#1.0"):
        goal_house.clock.advance(60)
        await goal_house.db.write(note_tool, goal_house.harness, task.flow, key, "look")
    found = await goal_house.db.read(ledger.of_task, goal.id)
    assert [(one.kind, one.step, one.summary) for one in found[2:]] == [
        (Kind.STEP_PROGRESS, "a", "look is done"),
    ] * 3  # fmt: skip


@pytest.mark.parametrize(("branch", "state"), [("B", "done"), ("E", "cancelled")])
async def test_the_owners_word_ends_the_sub_agent_too(house: House, branch: str, state: str) -> None:
    """The row of the task and the ledger tell the same story, whoever ends it."""
    await delegate(house)
    await child(house)
    word = Observation(
        row(house).id, Kind.OWNER_REPLY_RECORDED, "w", house.clock.now(), "owner", data={"branch": branch}
    )
    derived, events = await house.db.write(answer, house.harness, word)
    assert derived.is_terminal and row(house).state == state
    assert [event["name"] for event in events] == ["agent.task.cancelled"]
    await report(house.harness, spawned(house), "too late", True)
    assert await house.db.read(ledger.derived, row(house).id) == derived
    assert (await house.db.write(answer, house.harness, replace(word, key="again")))[1] == []


@pytest.mark.parametrize(("kind", "state"), [(Kind.TASK_COMPLETED, "done"), (Kind.BLOCKED_CONFIRMED, "failed")])
async def test_what_an_operator_observes_ends_the_sub_agent_too(house: House, kind: Kind, state: str) -> None:
    await delegate(house)
    await child(house)
    data = {"reason": "NO_WAY", "final": True} if kind is Kind.BLOCKED_CONFIRMED else {}
    seen = Observation(row(house).id, kind, "o", house.clock.now(), "operator", data=data)
    events = await house.db.write(observed, house.harness, seen)
    assert [event["name"] for event in events] == ["agent.task.cancelled"] and row(house).state == state
    await report(house.harness, spawned(house), "too late", True)
    assert row(house).state == state and house.sender.of("agent.message.received") == []


async def test_another_branch_leaves_the_sub_agent_at_work(house: House) -> None:
    await delegate(house)
    await child(house)
    word = Observation(row(house).id, Kind.OWNER_REPLY_RECORDED, "w", house.clock.now(), "owner", data={"branch": "A"})
    assert (await house.db.write(answer, house.harness, word))[1] == [] and row(house).state == "running"
