"""Delegation beside the conversation: begun once, reported once, listed, cancellable, at the time that was said."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.agent.act import act
from app.agent.delegation.report import report
from app.agent.delegation.task_list import OpenTasks
from app.agent.delegation.tasks import MACHINE, MAX_OPEN, parse_moment, receive_task, start_event
from app.agent.failure import TASK_FAILED, tell_failure
from app.agent.flow import Flow
from app.agent.heartbeat.sweep import sweep
from app.agent.models.llm import Completion
from app.agent.think import think
from app.errors import NotFound
from app.events import SubagentSpawn
from app.sessions import session
from app.sessions import tasks as task_records
from app.tables import calls as call_rows
from app.tables import deliveries, messages
from app.tables import tasks as task_rows
from app.work import ledger
from app.work.observation import Kind
from tests.unit.agent.test_agent_commands import say
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import RUN, SESSION, House, ask, begin, make_house, message, run_id, wishes


async def delegate(house: House, flow: Flow | None = None, number: int = 0, **arguments: Any) -> Flow:
    """A turn that has delegated a task apart."""
    given = {"task": "count the ships", "mode": "background"} | arguments
    house.model.answers = [wishes(("delegate_task", given))]
    flow = flow or await begin(house)
    await think(house.harness, flow, ask(number))
    await act(house.harness, flow, {"key": f"tool#{number}.0", "name": "delegate_task", "durable": True})
    return flow


def row(house: House) -> Any:
    (found,) = house.rows(task_rows.select())
    return found


def result(house: House) -> str:
    return str(house.rows(call_rows.select().order_by(call_rows.c.id.desc()))[0].result)


def spawned(house: House) -> SubagentSpawn:
    return SubagentSpawn.from_data(house.sender.of("agent.subagent.spawn")[-1]["data"])


async def child(house: House, run: str = run_id(7)) -> Flow:
    return Flow.model_validate(await receive_task(house.harness, run, spawned(house)))


async def test_it_is_started_by_an_event_and_the_call_ends_at_once(house: House) -> None:
    await delegate(house, model="a/b")
    (event,) = house.sender.of("agent.subagent.spawn")
    assert event["id"] == f"{RUN}:tool#0.0:spawn"
    assert (row(house).state, row(house).mode, row(house).due_at) == ("waiting", "background", None)
    assert spawned(house) == SubagentSpawn(
        task_id=row(house).id,
        task="count the ships",
        sub_session_key=f"task:{row(house).id}",
        parent_session_key=SESSION,
        mode="background",
        model="a/b",
        parent_run_id=RUN,
        parent_step_key="tool#0.0",
    )
    assert f"Task {row(house).id} is set. It works in the background." in result(house)


async def test_attempted_again_it_is_the_same_task_under_the_same_event(house: House) -> None:
    flow = await delegate(house)
    call = {"key": "tool#0.0", "name": "delegate_task", "durable": True}
    assert (await act(house.rebooted().harness, flow, call)) == {"kind": "done", "ok": True}
    assert len(house.rows(task_rows.select())) == 1 and len(set(house.sender.ids())) == 1


async def test_its_end_is_a_deposit_that_steers_nobody(house: House) -> None:
    """Row 12."""
    await delegate(house)
    flow = await child(house)
    assert (flow.delegates, flow.session_key, row(house).state) == (False, f"task:{row(house).id}", "running")
    await report(house.harness, spawned(house), "There are 12.", True)
    (news,) = house.sender.of("agent.message.received")
    assert (news["data"]["steers"], news["data"]["origin"]) == (False, "a background task")
    assert news["data"]["destination"]["chatId"] == "7"
    (stored,) = house.rows(messages.select().where(messages.c.message_key == f"{row(house).id}:ended"))
    assert "There are 12." in stored.text and stored.state == "open"
    assert row(house).state == "done"


async def test_it_reports_once(house: House) -> None:
    await delegate(house)
    await child(house)
    for _ in range(2):
        await report(house.harness, spawned(house), "There are 12.", True)
    assert len(house.sender.of("agent.message.received")) == 1


async def test_a_second_run_of_the_same_task_is_none(house: House) -> None:
    await delegate(house)
    assert (await child(house)).stop is None
    assert (await child(house, run_id(8))).stop == "superseded"
    assert (await child(house)).stop is None, "the first one may go on after a crash"


async def test_cancelled_before_it_began_it_never_begins(house: House) -> None:
    await delegate(house)
    await OpenTasks(house.harness, SESSION).cancel(row(house).id)
    assert (await child(house)).stop == "superseded" and row(house).state == "cancelled"
    (event,) = house.sender.of("agent.task.cancelled")
    assert event["data"] == {"taskId": row(house).id, "sessionKey": SESSION}


async def test_a_cancelled_task_never_reports(house: House) -> None:
    await delegate(house)
    flow = await child(house)
    await OpenTasks(house.harness, SESSION).cancel(row(house).id)
    with house.tx() as tx:
        held = session.claim(tx, flow.session_id, flow.run_id, boot_id="b", now=house.clock.now())
    assert held is session.Claim.STOPPED
    await report(house.harness, spawned(house), "too late", True)
    await tell_failure(house.harness, {"run_id": flow.run_id, "event": {"data": {"taskId": row(house).id}}})
    assert row(house).state == "cancelled" and house.sender.of("agent.message.received") == []


async def test_only_open_tasks_of_the_same_chat_can_be_cancelled(house: House) -> None:
    await delegate(house)
    with pytest.raises(NotFound, match="There is no open task"):
        await OpenTasks(house.harness, "test:other").cancel(row(house).id)
    with pytest.raises(NotFound, match="There is no open task"):
        await OpenTasks(house.harness, SESSION).cancel("t0")
    await child(house)
    await report(house.harness, spawned(house), "12", True)
    with pytest.raises(NotFound, match="has ended already"):
        await OpenTasks(house.harness, SESSION).cancel(row(house).id)


# TRAPS, Life and death: "no way to ask for status -> children ... can be listed, inspected, cancelled".
async def test_open_tasks_are_listed(house: House) -> None:
    assert await OpenTasks(house.harness, SESSION).listed() == []
    flow = await delegate(house)
    await delegate(house, flow, 1, mode="at", at="2026-01-06T09:30", task="wake me")
    first, second = house.rows(task_rows.select().order_by(task_rows.c.mode))
    assert await OpenTasks(house.harness, SESSION).listed() == [
        f"{first.id} is about to begin: count the ships",
        f"{second.id} begins at 2026-01-06 09:30: wake me",
    ]
    assert f"Task {second.id} begins at 2026-01-06 09:30: wake me" in await say(house, "status", "c1")
    assert (await say(house, "tasks", "c2")).splitlines()[0] == f"- {first.id} is about to begin: count the ships"


async def test_people_cancel_by_the_id_or_all(house: House) -> None:
    flow = await delegate(house)
    await delegate(house, flow, 1)
    first, second = (one.id for one in house.rows(task_rows.select()))
    assert await say(house, "stop", "c1", args=first) == f"Cancelled: {first}."
    assert f"Still open: {second}; /stop all ends them too." in await say(house, "stop", "c2")
    assert f"Cancelled: {second}." in await say(house, "stop", "c3", args="all")
    assert {one.state for one in house.rows(task_rows.select())} == {"cancelled"}
    assert [e["data"]["taskId"] for e in house.sender.of("agent.task.cancelled")] == [first, second]
    assert await say(house, "tasks", "c4") == "There are no open tasks in this conversation."


async def test_a_start_that_was_lost_is_made_good_once_a_minute_has_passed(house: House) -> None:
    house.sender.broken = True
    await delegate(house)
    house.sender.broken = False
    await sweep(house.harness, SESSION)
    assert house.sender.of("agent.subagent.spawn") == []
    house.clock.advance(61)
    await sweep(house.harness, SESSION)
    await sweep(house.harness)
    assert len({e["id"] for e in house.sender.of("agent.subagent.spawn")}) == 2
    await child(house)
    await sweep(house.harness)
    assert len(house.sender.of("agent.subagent.spawn")) == 2


async def test_a_failed_run_is_told_as_the_tasks_end(house: House) -> None:
    await delegate(house)
    flow = await child(house)
    await tell_failure(house.harness, {"run_id": run_id(8), "event": {"data": {"taskId": row(house).id}}})
    assert row(house).state == "running", "that was another run's failure"
    await tell_failure(house.harness, {"run_id": flow.run_id, "event": {"data": {"taskId": row(house).id}}})
    assert row(house).state == "failed"
    (end,) = [one for one in await house.db.read(ledger.of_task, row(house).id) if one.kind is Kind.BLOCKED_CONFIRMED]
    assert end.summary == TASK_FAILED
    assert "has failed" in house.sender.of("agent.message.received")[0]["data"]["message"]


async def test_after_new_the_result_stays_with_the_old_conversation_and_the_person_is_told(house: House) -> None:
    """Row 17, for a task."""
    flow = await delegate(house)
    await child(house)
    await say(house, "new", "c1")
    await report(house.harness, spawned(house), "There are 12.", True)
    assert house.sender.of("agent.message.received") == []
    (notice,) = house.rows(deliveries.select().where(deliveries.c.kind == "notice"))
    assert notice.session_id == flow.session_id and "There are 12." in notice.text


async def test_a_turn_that_no_person_started_sets_no_tasks(house: House) -> None:
    """TRAPS, "Life and death": a reminder is no message of a person, and schedules no more reminders."""
    flow = await begin(house, "Wake up.", origin="a scheduled task", steers=False)
    await delegate(house, flow)
    assert result(house) == MACHINE and house.rows(task_rows.select()) == [] and house.sender.events == []
    await delegate(house, flow, 1, mode="at", at="+10m")
    assert result(house) == MACHINE


async def test_there_is_an_end_to_open_tasks(house: House) -> None:
    flow = await begin(house)
    for number in range(MAX_OPEN + 1):
        await delegate(house, flow, number)
    assert len(house.rows(task_rows.select())) == MAX_OPEN and "open tasks already" in result(house)


ZONE = "America/New_York"


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-06T09:30", datetime(2026, 1, 6, 14, 30, tzinfo=UTC)),
        ("2026-07-06 09:30:15", datetime(2026, 7, 6, 13, 30, 15, tzinfo=UTC)),
        ("2026-01-06T09:30Z", datetime(2026, 1, 6, 9, 30, tzinfo=UTC)),
        ("2026-01-06T09:30+02:00", datetime(2026, 1, 6, 7, 30, tzinfo=UTC)),
        ("2026-03-08T02:30", datetime(2026, 3, 8, 7, 30, tzinfo=UTC)),  # an hour that does not exist
        ("+90m", datetime(2026, 1, 5, 13, 30, tzinfo=UTC)),
        ("+2 d", datetime(2026, 1, 7, 12, 0, tzinfo=UTC)),
        ("soon", None),
        ("", None),
    ],
)
def test_times_are_those_of_the_user(text: str, utc: datetime | None) -> None:
    assert parse_moment(text, datetime(2026, 1, 5, 12, 0, tzinfo=UTC), ZoneInfo(ZONE)) == utc


async def test_a_time_that_is_none_is_explained_with_the_time_it_is(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    house = make_house(tmp_path / "h", template, timezone=ZONE)
    flow = await delegate(house, mode="at", at="2026-01-05T06:58")
    assert "in the past" in result(house) and "it is now 2026-01-05 07:00" in result(house)
    await delegate(house, flow, 1, mode="at")
    assert "is not a time; accepted: a time such as 2026-12-24T18:00 (America/New_York), or +90m" in result(house)
    await delegate(house, flow, 2, mode="at", at="2026-01-05T07:30")
    assert "It begins at 2026-01-05 07:30." in result(house)
    assert row(house).due_at == datetime(2026, 1, 5, 12, 30)
    assert spawned(house).due_at == "2026-01-05T12:30:00+00:00"
    await house.db.close()


async def test_a_time_that_has_come_without_a_start_is_made_good(house: House) -> None:
    await delegate(house, mode="at", at="+1h")
    house.clock.advance(3_600 + 59)
    await sweep(house.harness)
    assert len(house.sender.of("agent.subagent.spawn")) == 1
    house.clock.advance(2)
    await sweep(house.harness)
    assert len(house.sender.of("agent.subagent.spawn")) == 2


@pytest.mark.parametrize(
    ("handed_over", "told"),
    [
        ("none", "count the ships"),
        ("summary", "User: the harbour is full\n\nUser: hello"),
        ("all", "User: the harbour is full\n\nUser: hello"),
    ],
)
async def test_the_conversation_is_handed_over_as_asked(house: House, handed_over: str, told: str) -> None:
    flow = await begin(house, "the harbour is full", "k0")
    await begin(house, "hello", "k1", run_id(2))
    flow = flow.model_copy(update={"run_id": run_id(2)})
    await delegate(house, flow, handed_over=handed_over)
    await child(house)
    (text,) = [one.text for one in house.rows(messages.select()) if one.origin == "task"]
    assert told in text and text.endswith("count the ships")
    assert (text == "count the ships") is (handed_over == "none")


async def test_also_to_a_task_that_is_waited_for(house: House) -> None:
    flow = await begin(house, "the harbour is full")
    house.model.answers = [wishes(("look", {"at": "sea"}))]
    await think(house.harness, flow, ask())
    await act(house.harness, flow, {"key": "tool#0.0", "name": "look"})
    house.model.answers = [wishes(("delegate_task", {"task": "count", "handed_over": "all"}))]
    await think(house.harness, flow, ask(1))
    call = {"key": "tool#1.0", "name": "delegate_task", "durable": True}
    handed = await act(house.harness, flow, call)
    spawn = SubagentSpawn.from_data(handed["invoke"])
    await receive_task(house.harness, run_id(7), spawn)
    (text,) = [one.text for one in house.rows(messages.select()) if one.origin == "task"]
    assert 'User: the harbour is full\n\n[Tool look {"at": "sea"}]\nsaw sea\n\n[Your task]\ncount' in text


# on the engine


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template) as one:
        yield one


def in_background(**arguments: Any) -> Completion:
    return wishes(("delegate_task", {"task": "count", "mode": "background"} | arguments))


async def test_the_person_is_answered_at_once_and_told_of_the_end(life: Embedded) -> None:
    life.house.model.answers = [in_background(), "I am at it.", "There are 12.", "It is done: twelve."]
    await life.send(message())
    assert sorted(life.house.channel.sent) == ["I am at it.", "It is done: twelve."]
    assert [run.output for run in await life.runs("sub-agent")] == [{"text": "There are 12.", "ok": True}]
    assert "[From a background task, not from a person]" in str(life.house.model.requests[-1][1])


async def test_a_task_for_later_begins_when_it_is_due(life: Embedded) -> None:
    life.house.model.answers = [in_background(mode="at", at="+2h"), "Set.", "Wake up!", "You wanted to be woken."]
    await life.send(message())
    await life.pass_time(7_000, 500)
    assert life.house.channel.sent == ["Set."] and len(life.house.model.requests) == 2
    await life.pass_time(400, 50)
    assert life.house.channel.sent == ["Set.", "You wanted to be woken."]
    assert len(await life.runs("sub-agent")) == 1, "its start slept; nobody had to make it good"


async def test_a_task_for_later_that_is_cancelled_sleeps_no_more(life: Embedded) -> None:
    life.house.model.answers = [in_background(mode="at", at="+2h"), "Set.", "too late"]
    await life.send(message())
    (task,) = life.house.rows(task_rows.select())
    await OpenTasks(life.house.harness, SESSION).cancel(task.id)
    await life.link.engine.idle()
    assert [run.status for run in await life.runs("sub-agent")] == ["Cancelled"]
    await life.pass_time(8_000, 500)
    assert life.house.channel.sent == ["Set."]


async def test_two_starts_of_one_task_are_one(life: Embedded) -> None:
    life.house.model.answers = [in_background(mode="at", at="+1h"), "Set.", "Wake up!", "Woken."]
    await life.send(message())
    (task,) = life.house.rows(task_rows.select())
    with life.house.tx() as tx:
        found = task_records.find(tx, task.id)
    await life.link.send([start_event(found, "another")])
    await life.pass_time(3_700, 100)
    assert life.house.channel.sent == ["Set.", "Woken."]
    kinds = [run.output.get("kind") for run in await life.runs("sub-agent")]
    assert sorted(map(str, kinds)) == ["None", "superseded"]


async def test_a_task_that_ends_while_the_person_is_talked_to_disturbs_nobody(life: Embedded) -> None:
    """Row 12, on the engine: the live turn is not cancelled, and reads the result before it ends."""

    async def slow() -> Completion:
        (task,) = life.house.rows(task_rows.select())
        await report(life.house.harness, spawned_of(task), "There are 12.", True)
        return Completion("I am at it.")

    life.house.model.answers = [in_background(mode="at", at="+1h"), slow, "It is done already: twelve."]
    await life.send(message())
    assert life.house.channel.sent == ["It is done already: twelve."]
    assert {run.status for run in await life.runs("handle-message")} == {"Completed"}


def spawned_of(task: Any) -> SubagentSpawn:
    return SubagentSpawn(
        task_id=task.id, task="", sub_session_key=f"task:{task.id}", parent_session_key=SESSION, mode="scheduled"
    )
