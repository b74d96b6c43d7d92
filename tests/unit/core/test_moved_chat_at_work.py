"""A group that became a supergroup: all that is kept of it follows to its new number, and nothing is lost."""

import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.accept import accept
from app.agent.loop import CRASHED
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.agent.people.gate import admit
from app.channels import outbox
from app.channels.channel import Later, Part, SendResult, Sent
from app.events import CommandReceived, Destination, MessageReceived, Sender
from app.sessions.people import Newcomer, State, folder_of, note, pair, revoke
from app.tables import (
    album_parts,
    deliveries,
    distillations,
    messages,
    metadata,
    notices,
    people,
    sessions,
    supervision,
    wakes,
)
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import RecordingChannel, message
from webhooks.telegram import to_event
from webhooks.telegram_said import Bot

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telegram"
OLD, NEW = "-700001", "-1001000000009"
OLD_KEY, NEW_KEY = f"telegram:123456:{OLD}", f"telegram:123456:{NEW}"


def moved(name: str = "group_moved") -> CommandReceived:
    update = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["update"]
    event = to_event(update, bot=Bot("123456", "moab_bot"))
    assert isinstance(event, CommandReceived)
    return event


def said(text: str, number: int, chat: str = OLD, thread: str | None = None, **changes: Any) -> MessageReceived:
    key = f"telegram:123456:{chat}" + (f":{thread}" if thread else "")
    fields: dict[str, Any] = {
        "key": f"telegram:123456:{chat}:{number}",
        "session_key": key,
        "channel": "telegram",
        "sender": Sender(id="5", name="Ada"),
        "destination": Destination(chat_id=chat, message_id=str(number), thread_id=thread),
        "channel_meta": {"group": True, "chatType": "group"},
    }
    return message(text, **fields | changes)


class Telegram(RecordingChannel):
    """Says of what is sent to the old chat that it lies in the new one, as the way out to Telegram does."""

    def __init__(self) -> None:
        super().__init__("telegram")
        self.to: list[str] = []
        self.has_moved = False

    async def send(self, destination: Destination, part: Part) -> SendResult:
        result = await super().send(destination, part)
        if not isinstance(result, Sent):
            return result
        followed = self.has_moved and destination.chat_id == OLD
        self.to.append(NEW if followed else destination.chat_id)
        return Sent(result.receipt, NEW if followed else None)


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, telegram_bot_token="123456:x", telegram_allowed_chats=OLD) as one:
        one.house.harness.channels["telegram"] = Telegram()  # type: ignore[index]  # a dictionary in tests
        yield one


def telegram(life: Embedded) -> Telegram:
    found = life.house.harness.channels["telegram"]
    assert isinstance(found, Telegram)
    return found


def rows_of_all(life: Embedded) -> str:
    """All rows of all tables but the keys of messages, which stay: by them a repeat is known."""
    rows = [dict(row._mapping) for table in metadata.sorted_tables for row in life.house.rows(table.select())]
    return re.sub(rf"telegram:123456:{OLD}:[1-3]\b", "a message", json.dumps(rows, default=str))


@pytest.mark.parametrize("name", ["group_moved", "group_moved_from"])
async def test_the_conversation_goes_on_under_the_new_number(life: Embedded, name: str) -> None:
    folder = life.house.harness.workspace.of(folder_of(f"telegram:{OLD}")).root
    await life.send(said("remember the key", 1))
    (folder / "MEMORY.md").write_text("The key is under the stone.")
    (session,) = life.house.rows(sessions.select().where(sessions.c.key == OLD_KEY))
    await life.send(moved(name))
    await life.send(moved("group_moved_from"))
    await life.send(said("where is it?", 2, NEW))
    assert telegram(life).to == [OLD, NEW]
    (now,) = life.house.rows(sessions.select().where(sessions.c.key == NEW_KEY))
    assert now.id == session.id and life.house.rows(sessions.select().where(sessions.c.key == OLD_KEY)) == []
    shown = str(life.house.model.requests[-1][1])
    assert "remember the key" in shown and "The key is under the stone." in shown
    assert not folder.exists()
    assert life.house.harness.workspace.principals() == [folder_of(f"telegram:{NEW}")]


async def test_a_turn_at_work_is_taken_over_and_answered_there(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 300.0), Completion("Here.")]
    await life.send(said("hello", 1))
    await life.send(moved())
    await life.pass_time(2)
    assert (telegram(life).to, telegram(life).sent) == ([NEW], ["Here."])
    await life.pass_time(400, 50)
    assert telegram(life).sent == ["Here."]
    assert [run.output for run in await life.runs("failure-handler")] == []
    assert {row.state for row in life.house.rows(messages.select()) if row.role == "user"} == {"answered"}


async def test_what_waits_to_be_sent_goes_to_the_new_number_in_its_order(life: Embedded) -> None:
    telegram(life).results = [Later(60.0, "slow down")]
    life.house.model.answers = ["one\n---\ntwo"]
    await life.send(said("hello", 1))
    assert telegram(life).sent == []
    await life.send(moved())
    await life.pass_time(65, 5)
    assert (telegram(life).to, telegram(life).sent) == ([NEW, NEW], ["one", "two"])


async def test_the_platform_says_so_when_something_is_sent(life: Embedded) -> None:
    """The only sign where nobody was there to hear it: what is sent to the old number lies in the new one."""
    await life.send(said("hello", 1))
    telegram(life).has_moved = True
    life.house.model.answers = ["one\n---\ntwo\n---\nthree"]
    await life.send(said("again", 2))
    assert telegram(life).sent == ["Hello.", "one", "two", "three"] and telegram(life).to[1:] == [NEW] * 3
    (row,) = life.house.rows(sessions.select().where(sessions.c.key == NEW_KEY))
    assert {row.chat_key for row in life.house.rows(deliveries.select())} == {f"telegram:{NEW}"}
    assert row.closed_at is None and await life.runs("failure-handler") == []


async def test_every_table_follows(life: Embedded) -> None:
    await life.send(said("hello", 1))
    await life.send(said("in a topic", 2, thread="99"))
    await life.send(said("", 3, channel_meta={"group": True, "mediaGroupId": "a", "unaddressed": True}))
    now = life.clock.now()
    place = {"channel": "telegram", "destination": {"chatId": OLD, "messageId": "1"}, "created_at": now}
    (session,) = life.house.rows(sessions.select().where(sessions.c.key == OLD_KEY))
    with life.house.tx() as tx:
        note(tx, Newcomer(f"telegram:{OLD}", "chat", OLD_KEY, "Garden"), State.LISTED, now)
        wake = {"id": "W1", "session_id": session.id, "session_key": OLD_KEY, "run_id": "R", "step_key": "s"}
        wake |= {"reason": "look", "zone": "UTC", "state": "open", "due_at": now}
        tx.execute(wakes.insert().values(wake | place))
        tx.execute(notices.insert().values({"key": "n", "session_id": session.id, "text": "x"} | place))
        watch = {"task_id": "T1", "owner_key": OLD_KEY, "executor": "e", "limits": {}, "retries": {}}
        tx.execute(supervision.insert().values(watch | {"next_check_at": now, "created_at": now}))
        log = f"{folder_of(f'telegram:{OLD}')}/2026-01-04.md"
        tx.execute(distillations.insert().values({"log": log, "digest": "d", "at": now}))
    await life.send(moved())
    assert OLD not in rows_of_all(life)
    assert life.house.rows(wakes.select())[0].session_key == NEW_KEY
    assert life.house.rows(wakes.select())[0].destination == {"chatId": NEW}
    assert life.house.rows(album_parts.select())[0].session_key == NEW_KEY
    assert [row.id for row in life.house.rows(people.select())] == [f"telegram:{NEW}"]
    assert f"{NEW_KEY}:99" in [row.key for row in life.house.rows(sessions.select())]


async def test_who_was_let_in_stays_so(life: Embedded, caplog: pytest.LogCaptureFixture) -> None:
    """By the settings or by pairing; and who was shut out stays outside."""
    caplog.set_level(logging.WARNING)
    await accept(life.house.harness, moved())
    assert await admit(life.house.harness, said("hello", 1, NEW))
    assert f"telegram:{NEW}" in caplog.text
    for number, let_in in (("-31", True), ("-32", False)):
        chat = said("x", 1, number)
        with life.house.tx() as tx:
            pair(tx, Newcomer.chat(chat), "member", "somebody", life.clock.now())
            if not let_in:
                revoke(tx, f"telegram:{number}", life.clock.now())
        await accept(
            life.house.harness,
            moved().model_copy(update={"destination": Destination(chat_id=number), "args": f"{number}99"}),
        )
        assert await admit(life.house.harness, said("hello", 2, f"{number}99")) is let_in


async def test_a_stranger_gains_nothing_by_moving(life: Embedded) -> None:
    event = moved().model_copy(update={"destination": Destination(chat_id="-44"), "args": "-45"})
    await accept(life.house.harness, event)
    assert not await admit(life.house.harness, said("hello", 1, "-45"))
    assert life.house.rows(people.select()) == []


async def test_where_the_new_chat_was_faster_both_are_kept(life: Embedded) -> None:
    await life.send(said("old words", 1))
    with life.house.tx() as tx:
        pair(tx, Newcomer.chat(said("x", 1, NEW)), "member", "somebody", life.clock.now())
    await life.send(said("new words", 2, NEW))
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 300.0), Completion("To the open one.")]
    await life.send(said("still open", 3))
    await life.send(moved())
    await life.pass_time(3)
    rows = life.house.rows(sessions.select().where(sessions.c.key == NEW_KEY))
    assert sorted(row.closed_at is None for row in rows) == [False, True]
    assert telegram(life).sent[-1] == "To the open one." and telegram(life).to[-1] == NEW
    shown = str(life.house.model.requests[-1][1])
    assert "new words" in shown and "still open" in shown


async def test_killed_between_files_and_rows_it_is_done_by_the_second_delivery(
    life: Embedded,
) -> None:
    await life.send(said("hello", 1))
    folder = life.house.harness.workspace.of(folder_of(f"telegram:{OLD}"))
    (folder.root / "MEMORY.md").write_text("old")
    after = folder_of(f"telegram:{NEW}")
    life.house.harness.workspace.move_principal(folder_of(f"telegram:{OLD}"), after)  # and then nothing more
    await life.send(said("in between", 2))
    (folder.root / "USER.md").write_text("written in between")
    await life.send(moved())
    root = life.house.harness.workspace.of(after).root
    assert (root / "MEMORY.md").read_text() == "old" and (root / "USER.md").read_text() == "written in between"
    assert not folder.root.exists()


async def test_past_the_way_in_it_is_followed_as_well(life: Embedded) -> None:
    await life.send(said("hello", 1))
    await life.link.send([moved().to_wire("e1")])
    await life.link.engine.idle()
    assert life.house.rows(sessions.select().where(sessions.c.key == OLD_KEY)) == []
    assert CRASHED not in str(await life.runs("acknowledge"))
    assert outbox.chat_key("telegram", Destination(chat_id=NEW)) in rows_of_all(life)
