"""Sub-agents: started once, waited for however long, adopted by the next turn, ended by /stop alone."""

from datetime import timedelta
from typing import Any

import pytest

from app.agent.act import act, observe
from app.agent.context.build import NOT_RUN
from app.agent.delegation.report import NO_ANSWER, report
from app.agent.delegation.tasks import task_message
from app.agent.failure import TASK_FAILED, tell_failure
from app.agent.flow import Flow, Observation
from app.agent.heartbeat.sweep import sweep
from app.agent.people.commands import STOPPED_TASK, run_command
from app.agent.receive import receive
from app.agent.think import think
from app.events import CommandReceived, Destination, SubagentSpawn
from app.sessions import session
from app.tables import calls as call_rows
from app.tables import messages
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, ask, begin, run_id, wishes

CHILD = f"task:{RUN}:tool#0.0"
CALL = {"key": "tool#0.0", "name": "delegate_task", "durable": True}


@pytest.fixture
async def parent(house: House) -> Flow:
    """A turn that has delegated a task and waits for it."""
    house.model.answers = [wishes(("delegate_task", {"task": "count", "model": "a/b"}))]
    flow = await begin(house)
    await think(house.harness, flow, ask())
    await delegate(house, flow)
    return flow


async def delegate(house: House, flow: Flow) -> Observation:
    return Observation.model_validate(await act(house.harness, flow, CALL))


def spawned(observation: Observation) -> SubagentSpawn:
    return SubagentSpawn.from_data(observation.invoke or {})


async def child_begins(house: House, flow: Flow, run: str = run_id(7)) -> Flow:
    event = task_message(spawned(await delegate(house, flow)), "count")
    return await begin(
        house,
        event.message,
        str(event.message_key),
        run,
        session_key=event.session_key,
        channel="task",
        origin="task",
        destination=event.destination,
    )


def call_row(house: House) -> Any:
    (row,) = house.rows(call_rows.select())
    return row


async def test_the_task_is_handed_over(house: House, parent: Flow) -> None:
    observation = await delegate(house, parent)
    assert observation.kind == "invoke"
    assert spawned(observation) == SubagentSpawn(
        task_id=CHILD,
        task="count",
        sub_session_key=CHILD,
        parent_session_key=SESSION,
        model="a/b",
        parent_run_id=RUN,
        parent_step_key="tool#0.0",
    )
    assert (call_row(house).state, call_row(house).child_key) == ("started", CHILD)


async def test_attempted_again_it_is_the_same_task(house: House, parent: Flow) -> None:
    first = await delegate(house, parent)
    assert await delegate(house.rebooted(), parent) == first


async def test_the_child_has_a_session_of_its_own_and_does_not_delegate(house: House, parent: Flow) -> None:
    child = await child_begins(house, parent)
    assert (child.session_key, child.delegates) == (CHILD, False) and child.session_id != parent.session_id
    house.model.answers = ["counted"]
    await think(house.harness, child, ask())
    _, shown, tools = house.model.requests[-1]
    assert [m["content"] for m in shown[1:]] == ["count"]
    assert "delegate_task" not in [t["function"]["name"] for t in tools]


async def test_the_answer_lands_on_the_call_and_in_the_memo(house: House, parent: Flow) -> None:
    spawn = spawned(await delegate(house, parent))
    answer = await report(house.harness, spawn, "There are 12.", True)
    assert answer == {"text": "There are 12.", "ok": True}
    assert (call_row(house).state, call_row(house).ok, call_row(house).result) == ("finished", True, "There are 12.")
    seen = await observe(house.harness, parent, CALL, {"ok": True, "value": answer})
    assert seen["kind"] == "done" and call_row(house).result == "There are 12."
    assert house.sender.events == []


@pytest.mark.parametrize(
    ("outcome", "ok", "text"),
    [
        ({"ok": True, "value": {"text": "late news"}}, True, "late news"),
        ({"ok": False, "error": "the run was cancelled"}, False, "the run was cancelled"),
        ({"ok": True, "value": None}, True, "The task gave no answer."),
        ({"ok": False}, False, "The task gave no answer."),
    ],
)
async def test_an_outcome_nobody_recorded_is_recorded(
    house: House, parent: Flow, outcome: dict[str, Any], ok: bool, text: str
) -> None:
    await observe(house.harness, parent, CALL, outcome)
    assert (call_row(house).state, call_row(house).ok, call_row(house).result) == ("finished", ok, text)


async def test_without_words_the_last_ones_of_the_child_are_its_answer(house: House, parent: Flow) -> None:
    spawn = spawned(await delegate(house, parent))
    child = await child_begins(house, parent)
    assert (await report(house.harness, spawn, "", False))["text"] == NO_ANSWER
    house.model.answers = ["half of it"]
    await think(house.harness, child, ask())
    assert (await report(house.harness, spawn, "", False))["text"] == "half of it"


async def test_a_parent_that_waits_for_long_work_is_not_taken_over(house: House, parent: Flow) -> None:
    """The sweep, and every machine's run, leave a turn alone while its sub-agent works."""
    child = await child_begins(house, parent)
    for _ in range(5):
        house.clock.advance(50)
        with house.tx() as tx:
            session.claim(tx, child.session_id, child.run_id, boot_id="home:boot1", now=house.clock.now())
        assert (await sweep(house.harness))["woken"] == 0
    machine = await begin(house, "news", "k2", run_id(8), steers=False, origin="the watcher")
    assert machine.stop == "busy"


async def test_a_parent_whose_child_nobody_looks_after_is_woken(house: House, parent: Flow) -> None:
    await child_begins(house, parent)
    house.clock.advance(61)
    woken = await sweep(house.harness, SESSION)
    assert woken["woken"] == 1


async def test_the_parent_goes_on_after_a_restart_in_the_middle_of_a_long_task(house: House, parent: Flow) -> None:
    spawn = spawned(await delegate(house, parent))
    house.clock.advance(timedelta(hours=2).total_seconds())
    house = house.rebooted()
    await report(house.harness, spawn, "There are 12.", True)
    await observe(house.harness, parent, CALL, {"ok": True, "value": {"text": "There are 12."}})
    house.model.answers = ["Twelve."]
    assert (await think(house.harness, parent, ask(1)))["kind"] == "say"


async def test_the_next_turn_adopts_the_running_child(house: House, parent: Flow) -> None:
    """Row 11: it is told that the task runs, and gets its result as a message when it ends."""
    spawn = spawned(await delegate(house, parent))
    await child_begins(house, parent)
    newer = await begin(house, "how far?", "k2", run_id(8))
    house.model.answers = ["Still counting."]
    await think(house.harness, newer, ask())
    assert f"Still running as {CHILD}" in str(house.model.requests[-1][1])
    await report(house.harness, spawn, "There are 12.", True)
    (late,) = house.sender.events
    assert (late["id"], late["data"]["steers"], late["data"]["origin"]) == (f"{CHILD}:late:first", False, "a sub-agent")
    assert late["data"]["destination"]["chatId"] == "7"
    await think(house.harness, newer, ask(1))
    shown = str(house.model.requests[-1][1])
    assert "There are 12." in shown and "[From a sub-agent, not from a person]" in shown


async def test_a_child_that_never_began_is_not_waited_for(house: House, parent: Flow) -> None:
    """The parent was cancelled between its call's start and the invocation; should a child come, it goes again."""
    spawn = spawned(await delegate(house, parent))
    newer = await begin(house, "how far?", "k2", run_id(8))
    house.model.answers = ["I did not begin."]
    await think(house.harness, newer, ask())
    assert NOT_RUN in str(house.model.requests[-1][1])
    event = task_message(spawn, "count")
    late = await receive(house.harness, run_id(9), event, CHILD, False)
    assert (late["stop"], late["session_id"]) == ("superseded", "")
    await report(house.harness, spawn, "", False)
    assert (call_row(house).state, call_row(house).result) == ("planned", None) and house.sender.events == []
    assert [row.origin for row in house.rows(messages.select()) if row.role == "user"] == ["person", "person"]


async def test_what_stop_ended_is_not_told_as_news(house: House, parent: Flow) -> None:
    spawn = spawned(await delegate(house, parent))
    await child_begins(house, parent)
    await begin(house, "newer", "k2", run_id(8))
    stop = CommandReceived(
        command="stop", session_key=SESSION, channel="test", destination=Destination(chat_id="7"), message_key="k9"
    )
    await run_command(house.harness, stop, "k9")
    await report(house.harness, spawn, "too late", True)
    assert house.sender.names() == ["agent.turn.stopped", "agent.task.cancelled", "agent.reply.ready"]


async def test_a_late_result_is_deposited_once(house: House, parent: Flow) -> None:
    spawn = spawned(await delegate(house, parent))
    await child_begins(house, parent)
    await begin(house, "how far?", "k2", run_id(8))
    for _ in range(2):
        await report(house.harness, spawn, "There are 12.", True)
    keys = [row.message_key for row in house.rows(messages.select()) if row.role == "user"]
    assert keys.count(f"{CHILD}:late") == 1


async def test_stop_ends_the_child_too(house: House, parent: Flow) -> None:
    spawn = spawned(await delegate(house, parent))
    child = await child_begins(house, parent)
    stop = CommandReceived(
        command="stop", session_key=SESSION, channel="test", destination=Destination(chat_id="7"), message_key="k9"
    )
    await run_command(house.harness, stop, "k9")
    assert house.sender.names() == ["agent.turn.stopped", "agent.task.cancelled", "agent.reply.ready"]
    assert house.sender.of("agent.task.cancelled")[0]["data"] == {"taskId": CHILD, "sessionKey": SESSION}
    assert (call_row(house).state, call_row(house).result) == ("finished", STOPPED_TASK)
    states = {row.run_id: row.state for row in house.rows(turn_rows.select())}
    assert states == {RUN: "stopped", child.run_id: "stopped"}
    await report(house.harness, spawn, "too late", True)
    assert call_row(house).result == STOPPED_TASK and len(house.sender.events) == 3


async def test_stop_ends_also_a_child_that_an_older_turn_left(house: House, parent: Flow) -> None:
    await child_begins(house, parent)
    await begin(house, "newer", "k2", run_id(8))
    stop = CommandReceived(
        command="stop", session_key=SESSION, channel="test", destination=Destination(chat_id="7"), message_key="k9"
    )
    await run_command(house.harness, stop, "k9")
    assert call_row(house).result == STOPPED_TASK


async def test_a_child_that_fails_for_good_closes_its_call(house: House, parent: Flow) -> None:
    child = await child_begins(house, parent)
    told = await tell_failure(house.harness, {"run_id": child.run_id, "error": {"message": "boom"}})
    assert told == {"told": False}
    assert (call_row(house).state, call_row(house).ok, call_row(house).result) == ("finished", False, TASK_FAILED)


async def test_a_task_nobody_asked_for_is_reported_to_nobody(house: House) -> None:
    spawn = SubagentSpawn(task_id="t", task="count", sub_session_key="t", parent_session_key=SESSION)
    assert await report(house.harness, spawn, "12", True) == {"text": "12", "ok": True}
    lost = spawn.model_copy(update={"parent_run_id": RUN, "parent_step_key": "tool#5.5"})
    assert await report(house.harness, lost, "12", True) == {"text": "12", "ok": True}
