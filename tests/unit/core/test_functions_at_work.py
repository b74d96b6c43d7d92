"""The six functions on the embedded engine: what follows from one event, step by step."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.loop import CRASHED
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.agent.people import commands
from app.agent.people.failed_command import FAILED_COMMAND
from app.channels.channel import Later
from app.engine.history import RunRow
from app.events import BeatDue, CommandReceived, Destination, SubagentSpawn
from app.sentences import FAILED, NOTHING_DONE, TRY_AGAIN, say
from app.sessions.deposit import deposit
from app.tables import deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, message, wishes


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template) as one:
        yield one


def command(name: str) -> CommandReceived:
    return CommandReceived(
        command=name,
        session_key=SESSION,
        channel="test",
        destination=Destination(chat_id="7"),
        message_key=f"test:{name}",
    )


async def test_a_message_is_acknowledged_answered_sent_and_settled(life: Embedded) -> None:
    await life.send(message())
    assert life.house.channel.sent == ["Hello."]
    assert [d.chat_id for d in life.house.channel.acknowledged] == ["7"]
    (turn,) = await life.runs("handle-message")
    assert await life.steps(turn) == ["receive", "think", "finish"] and turn.output["kind"] == "answered"
    (sent,) = await life.runs("send-reply")
    assert await life.steps(sent) == ["send"]
    (beat,) = await life.runs("heartbeat")
    assert beat.event_name == "agent.turn.ended" and await life.steps(beat) == ["look"]
    (row,) = life.house.rows(turn_rows.select())
    assert row.run_id == turn.id and row.settled_at is not None
    assert await life.runs("failure-handler") == []


async def test_acknowledge_looks_again_after_a_minute(life: Embedded) -> None:
    await life.send(message())
    (run,) = await life.runs("acknowledge")
    assert run.status == "Running" and await life.steps(run) == ["show", "wait"]
    await life.pass_time(62, 31)
    (run,) = await life.runs("acknowledge")
    assert run.status == "Completed" and await life.steps(run) == ["show", "wait", "look-again"]


# The sign at a message: retry-after is a durable sleep, and the end of it is neither lost nor before its beginning.
async def test_a_sign_that_has_to_wait_is_set_when_the_platform_allows(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 100.0), Completion("Hello.")]
    life.house.channel.signs = [Later(30.0, "too many reactions")]
    await life.send(message())
    (run,) = await life.runs("acknowledge")
    assert await life.steps(run) == ["show", "wait-to-show"] and len(life.house.channel.acknowledged) == 1
    await life.restart()
    await life.pass_time(29, 29)
    assert len(life.house.channel.acknowledged) == 1
    await life.pass_time(2)
    assert await life.steps(run) == ["show", "wait-to-show", "show", "wait"]
    assert len(life.house.channel.acknowledged) == 2 and life.house.channel.concluded == []


async def test_a_sign_goes_when_the_platform_allows(life: Embedded) -> None:
    life.house.channel.signs = [True, Later(30.0, "too many reactions")]
    await life.send(message())
    assert len(life.house.channel.concluded) == 1
    (beat,) = await life.runs("heartbeat")
    assert beat.status == "Running" and await life.steps(beat) == ["look", "wait-conclude"]
    await life.restart()
    await life.pass_time(32, 16)
    assert len(life.house.channel.concluded) == 2
    assert await life.steps(beat) == ["look", "wait-conclude", "conclude"]


async def test_the_sign_of_a_stopped_turn_goes_when_the_platform_allows(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 500.0)]
    life.house.channel.signs = [True, Later(30.0, "too many reactions")]
    await life.send(message())
    await life.send(command("stop"))
    assert len(life.house.channel.concluded) == 1
    await life.pass_time(32, 16)
    assert len(life.house.channel.concluded) == 2


async def test_a_command_that_fails_for_good_is_answered_with_a_notice(
    life: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a fault of the code")

    monkeypatch.setitem(commands.COMMANDS, "status", broken)
    await life.send(command("status"))
    await life.pass_time(200, 20)
    (run,) = await life.runs("acknowledge")
    assert run.status == "Failed"
    assert life.house.channel.sent == [say(FAILED_COMMAND, command="status", run_id=run.id)]


async def test_calls_are_steps(life: Embedded) -> None:
    life.house.model.answers = [wishes(("look", {}), ("push", {"what": "a"})), Completion("Done.")]
    await life.send(message())
    (turn,) = await life.runs("handle-message")
    assert await life.steps(turn) == ["receive", "think", "tool-look", "tool-push", "think", "finish"]
    assert life.house.log == ["look here", "push a"] and life.house.channel.sent == ["Done."]


async def test_an_event_of_another_sender_is_answered(life: Embedded) -> None:
    """Nobody stored it, it has no key of ours: acknowledge and the turn meet on one row."""
    data = {
        "message": "hello",
        "sessionKey": "test:utah",
        "channel": "test",
        "sender": {"id": 5, "name": "Ann"},
        "destination": {"chatId": 7, "messageId": 9},
        "channelMeta": {"chatType": "private"},
    }
    await life.link.send([{"name": "agent.message.received", "data": data}])
    await life.link.engine.idle()
    assert life.house.channel.sent == ["Hello."]
    (row,) = life.house.rows(messages.select().where(messages.c.role == "user"))
    assert row.message_key.startswith("event:") and row.state == "answered"


async def test_a_command_works_while_the_turn_waits(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 300.0), Completion("too late")]
    await life.send(message())
    (turn,) = await life.runs("handle-message")
    assert turn.status == "Running"
    await life.send(command("status"))
    assert "Now: waiting, step 1, for 0 s." in life.house.channel.sent[0]
    await life.send(command("stop"))
    assert life.house.channel.sent[1] == "Stopped."
    (turn,) = await life.runs("handle-message")
    assert turn.status == "Cancelled"
    await life.pass_time(400, 50)
    assert len(life.house.channel.sent) == 2


async def test_a_wait_is_as_long_as_asked_and_costs_no_attempt(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 90.0), Completion("Now.")]
    await life.send(message())
    await life.pass_time(88, 44)
    assert life.house.channel.sent == []
    await life.pass_time(3)
    assert life.house.channel.sent == ["Now."]
    (turn,) = await life.runs("handle-message")
    assert await life.steps(turn) == ["receive", "think", "wait", "think", "finish"]


async def test_a_newer_message_takes_the_turn_over(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 300.0), Completion("To both.")]
    await life.send(message("one", "k1"))
    await life.send(message("two", "k2"))
    assert life.house.channel.sent == ["To both."]
    assert [run.status for run in await life.runs("handle-message")] == ["Cancelled", "Completed"]
    shown = life.house.model.requests[-1][1]
    assert [m["content"] for m in shown[1:]] == ["one\n\ntwo"]
    assert {row.state for row in life.house.rows(messages.select()) if row.role == "user"} == {"answered"}


async def test_a_machine_does_not_interrupt_a_person(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 30.0), Completion("To both.")]
    await life.send(message("one", "k1"))
    await life.send(message("a file came", "k2", steers=False, origin="the watcher"))
    assert [run.output for run in await life.runs("handle-message") if run.ended] == [{"kind": "busy"}]
    await life.pass_time(31)
    assert life.house.channel.sent == ["To both."]
    assert "[From the watcher, not from a person]" in str(life.house.model.requests[-1][1])


async def test_a_task_is_delegated_and_its_answer_comes_back(life: Embedded) -> None:
    life.house.model.answers = [
        wishes(("delegate_task", {"task": "count"})),
        Completion("There are 12."),
        Completion("Twelve."),
    ]
    await life.send(message())
    assert life.house.channel.sent == ["Twelve."]
    (child,) = await life.runs("sub-agent")
    assert await life.steps(child) == ["receive", "think", "finish", "report"]
    assert child.output == {"text": "There are 12.", "ok": True}
    (turn,) = await life.runs("handle-message")
    assert await life.steps(turn) == [
        "receive",
        "think",
        "tool-delegate_task",
        "delegate",
        "observe",
        "think",
        "finish",
    ]
    assert life.house.model.requests[-1][1][-1]["content"] == "There are 12."


async def test_a_long_task_outlives_the_second_net(life: Embedded) -> None:
    """The child waits ten minutes for its model; sweep and beats leave the waiting parent alone."""
    life.house.model.answers = [
        wishes(("delegate_task", {"task": "count"})),
        ModelFailure(Trouble.OVERLOADED, "busy", 600.0),
        Completion("There are 12."),
        Completion("Twelve."),
    ]
    await life.send(message())
    await life.pass_time(660, 20)
    assert life.house.channel.sent == ["Twelve."]
    assert len(await life.runs("handle-message")) == 1 and len(await life.runs("sub-agent")) == 1


async def test_stop_ends_a_delegated_task(life: Embedded) -> None:
    life.house.model.answers = [
        wishes(("delegate_task", {"task": "count"})),
        ModelFailure(Trouble.OVERLOADED, "busy", 600.0),
        Completion("too late"),
    ]
    await life.send(message())
    await life.send(command("stop"))
    assert [run.status for run in await life.runs("sub-agent")] == ["Cancelled"]
    await life.pass_time(700, 50)
    assert life.house.channel.sent == ["Stopped. Cut off: delegate_task."]
    assert len(life.house.model.requests) == 2


async def test_a_task_in_the_background_is_started_by_its_event(life: Embedded) -> None:
    spawn = SubagentSpawn(task_id="t1", task="count", sub_session_key="task:t1", parent_session_key=SESSION)
    await life.link.send([spawn.to_wire("t1:spawn")])
    await life.link.engine.idle()
    (child,) = await life.runs("sub-agent")
    assert child.output == {"text": "Hello.", "ok": True}


async def test_a_fault_of_ours_is_told_after_three_attempts(life: Embedded) -> None:
    async def broken() -> Any:
        raise KeyError("a fault of ours")

    life.house.model.answers = [broken]
    await life.send(message())
    await life.pass_time(300, 10)
    (text,) = life.house.channel.sent
    assert text.startswith(CRASHED) and len(life.house.model.requests) == 3
    (turn,) = await life.runs("handle-message")
    assert turn.status == "Completed" and await life.runs("failure-handler") == []


async def test_a_run_that_fails_for_good_is_told_once(life: Embedded) -> None:
    """Between its attempts nobody owns the message: the second net wakes it, three times at most."""

    async def dead_disk() -> Any:
        raise OSError("the disk is gone")

    life.house.model.answers = [dead_disk]
    await life.send(message())
    for _ in range(60):
        await life.pass_time(3_600, 600)
    turns = await life.runs("handle-message")
    assert {turn.status for turn in turns} <= {"Failed", "Completed"} and len(turns) <= 4
    (text,) = life.house.channel.sent
    said = [f"{say(FAILED, run_id=turn.id)} {NOTHING_DONE} {TRY_AGAIN}" for turn in turns if turn.status == "Failed"]
    assert text in said
    assert {run.status for run in await life.runs("failure-handler")} == {"Completed"}
    assert life.house.rows(messages.select())[0].state == "failed"


async def test_an_event_that_does_not_fit_fails_at_once_and_tells_nobody(life: Embedded) -> None:
    await life.link.send([{"name": "agent.message.received", "data": {"message": "hello"}}])
    await life.link.engine.idle()
    (turn,) = await life.runs("handle-message")
    assert turn.status == "Failed" and "sessionKey" in str(turn.output)
    assert life.house.channel.sent == [] and {r.status for r in await life.runs("failure-handler")} == {"Completed"}


async def test_the_platforms_wish_to_wait_is_slept(life: Embedded) -> None:
    life.house.channel.results = [Later(37.0, "slow down")]
    await life.send(message())
    assert life.house.channel.sent == []
    await life.pass_time(38, 19)
    assert life.house.channel.sent == ["Hello."]
    (sent,) = await life.runs("send-reply")
    assert await life.steps(sent) == ["send", "wait", "send"]


async def test_parts_are_steps_of_their_own(life: Embedded) -> None:
    life.house.model.answers = ["one\n---\ntwo\n---\nthree"]
    await life.send(message())
    (sent,) = await life.runs("send-reply")
    assert await life.steps(sent) == ["send"] * 3 and life.house.channel.sent == ["one", "two", "three"]


async def test_a_reply_event_that_comes_again_sends_nothing_again(life: Embedded) -> None:
    await life.send(message())
    (event,) = [
        {"name": "agent.reply.ready", "id": "again", "data": (await life.link.engine.run(run.id)).event["data"]}
        for run in await life.runs("send-reply")
    ]
    await life.link.send([event])
    await life.link.engine.idle()
    assert life.house.channel.sent == ["Hello."] and len(await life.runs("send-reply")) == 2


async def test_the_beat_distils_what_is_due_and_sweeps(life: Embedded) -> None:
    folder = life.house.harness.daily_log.folder
    (folder / "2020-01-01.md").write_text("- 12:00 likes tea\n")
    life.house.model.answers = ["Likes tea."]
    await life.pass_time(31 * 60, 60)
    assert await life.steps((await beats_due(life))[0]) == ["look", "distil"]
    assert (life.house.harness.workspace.root / "MEMORY.md").read_text() == "Likes tea.\n"
    await life.pass_time(31 * 60, 60)
    assert await life.steps((await beats_due(life))[1]) == ["look", "prune"]
    assert not (folder / "2020-01-01.md").exists()


async def beats_due(life: Embedded) -> list[RunRow]:
    """Beats that the clock's found to be needed, the oldest first."""
    return [run for run in await life.runs("heartbeat") if run.event_name == BeatDue.name]


async def test_what_follows_a_turn_settles_it_at_its_end(life: Embedded) -> None:
    folder = life.house.harness.daily_log.folder
    (folder / "2020-01-01.md").write_text("- 12:00 likes tea\n")
    life.house.model.answers = ["Hi.", "Likes tea."]
    await life.send(message())
    (beat,) = await life.runs("heartbeat")
    assert await life.steps(beat) == ["look", "distil", "settle"]
    assert life.house.rows(turn_rows.select())[0].settled_at is not None


async def test_a_lost_start_is_made_good_by_the_second_net(life: Embedded) -> None:
    """The engine took the event and lost it, as a singleton may: the message is woken and answered."""
    harness = life.house.harness
    await harness.db.write(deposit, message(), "test:1", new_session_id="S", now=harness.clock.now())
    await life.pass_time(31 * 60, 60)
    assert life.house.channel.sent == ["Hello."]
    (turn,) = await life.runs("handle-message")
    assert (await life.link.engine.run(turn.id)).event["data"]["steers"] is False
    assert [row.state for row in life.house.rows(deliveries.select())] == ["sent"]
