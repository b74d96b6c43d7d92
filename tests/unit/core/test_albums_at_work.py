"""An album of a group in which one picture calls the bot: all of it is one message, in whatever order it comes."""

import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.agent.heartbeat.housekeeping import tidy
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.events import MessageReceived
from app.sessions.albums import KEPT_FOR
from app.tables import album_parts, messages, sessions
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message
from webhooks.telegram import to_event
from webhooks.telegram_said import Bot

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telegram"
NAMES = ("group_album_mention", "group_album_part", "group_album_part_with_words")
PICTURES = {"AgAC91-large": b"one", "AgAC92-large": b"two", "AgAC93-large": b"three"}


def picture(name: str) -> MessageReceived:
    """What the fixture becomes, by the channel that the tests have."""
    update = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["update"]
    event = to_event(update, bot=Bot("123456", "moab_bot"))
    assert isinstance(event, MessageReceived)
    attachments = tuple(one.model_copy(update={"size": None}) for one in event.attachments)
    return event.model_copy(update={"channel": "test", "sent_at": None, "attachments": attachments})


CALLS, SILENT, WORDS = (picture(name) for name in NAMES)


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template) as one:
        one.house.channel.files |= PICTURES
        yield one


def brought(life: Embedded) -> list[bytes]:
    return sorted(path.read_bytes() for path in life.house.harness.workspace.root.rglob("inbox/**/*.jpg"))


@pytest.mark.parametrize("order", list(itertools.permutations((CALLS, SILENT, WORDS))))
async def test_in_whatever_order_they_come_they_are_one_message(
    life: Embedded, order: tuple[MessageReceived, ...]
) -> None:
    for event in order:
        await life.send(event)
        await life.pass_time(0.2)
    assert life.house.model.requests == []
    await life.pass_time(3)
    assert life.house.channel.sent == ["Hello."]
    assert brought(life) == sorted(PICTURES.values())
    [request] = life.house.model.requests
    assert "which one is yours?" in str(request[1]) and "The old one" in str(request[1])
    rows = life.house.rows(messages.select().where(messages.c.role == "user").order_by(messages.c.id))
    assert {row.state for row in rows} == {"answered"}
    waited = order[: order.index(CALLS)]
    assert [row.message_key for row in rows][: len(waited) + 1] == [e.message_key for e in (*waited, CALLS)]
    assert life.house.rows(album_parts.select()) == []


async def test_where_nobody_calls_the_bot_nothing_is_kept_or_shown(life: Embedded) -> None:
    await life.send(SILENT)
    await life.send(WORDS)
    await life.send(WORDS)
    await life.pass_time(5)
    assert life.house.rows(messages.select()) == [] and life.house.rows(sessions.select()) == []
    assert await life.runs("handle-message") == [] and life.house.channel.acknowledged == []
    assert len(life.house.rows(album_parts.select())) == 2
    life.clock.advance(KEPT_FOR.total_seconds() + 1)
    await tidy(life.house.harness, "run", "")
    assert life.house.rows(album_parts.select()) == []


async def test_a_new_picture_throws_away_what_is_old(life: Embedded) -> None:
    await life.send(SILENT)
    life.clock.advance(KEPT_FOR.total_seconds() + 1)
    await life.send(WORDS)
    assert [row.message_key for row in life.house.rows(album_parts.select())] == [WORDS.message_key]


async def test_pictures_of_another_album_stay_where_they_are(life: Embedded) -> None:
    other = WORDS.model_copy(update={"channel_meta": WORDS.channel_meta | {"mediaGroupId": "another"}})
    await life.send(other)
    await life.send(CALLS)
    await life.pass_time(3)
    assert brought(life) == [b"one"]
    assert [row.message_key for row in life.house.rows(album_parts.select())] == [other.message_key]


async def test_a_late_picture_is_taken_up_as_well(life: Embedded) -> None:
    await life.send(CALLS)
    await life.pass_time(3)
    assert life.house.channel.sent == ["Hello."]
    await life.send(SILENT)
    await life.pass_time(3)
    assert brought(life) == [b"one", b"two"] and life.house.channel.sent == ["Hello.", "Hello."]


async def test_a_picture_that_comes_while_the_model_thinks_is_seen_before_the_answer(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 30.0), Completion("Both.")]
    await life.send(CALLS)
    await life.pass_time(3)
    await life.send(SILENT)
    await life.pass_time(90)
    assert life.house.channel.sent[-1] == "Both." and brought(life) == [b"one", b"two"]
    assert {row.state for row in life.house.rows(messages.select()) if row.role == "user"} == {"answered"}


async def test_what_waits_outlives_a_restart(life: Embedded) -> None:
    await life.send(SILENT)
    await life.restart()
    await life.send(CALLS)
    await life.restart()
    await life.pass_time(3)
    assert life.house.channel.sent == ["Hello."] and brought(life) == [b"one", b"two"]


async def test_what_another_process_set_aside_at_the_same_moment_is_called_in(life: Embedded) -> None:
    await life.send(CALLS)
    with life.house.tx() as tx:
        row = {"message_key": SILENT.message_key, "session_key": SILENT.session_key, "album": "13888000002"}
        event = SILENT.model_dump(by_alias=True, mode="json")
        tx.execute(album_parts.insert().values(row | {"event": event, "created_at": life.clock.now()}))
    await life.pass_time(5)
    assert life.house.channel.sent == ["Hello."] and brought(life) == [b"one", b"two"]


async def test_past_the_way_in_a_picture_disturbs_nobody(life: Embedded) -> None:
    """As a transform of Inngest Cloud sends it: it starts runs, which end at once and cancel none."""
    life.house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 20.0), Completion("Hello.")]
    await life.send(message("hello", "k1", session_key=CALLS.session_key))
    signs = len(life.house.channel.acknowledged)
    await life.link.send([SILENT.to_wire("e1")])
    await life.link.engine.idle()
    turn, picture_run = await life.runs("handle-message")
    assert turn.status == "Running" and picture_run.output == {"kind": "nothing"}
    assert len(life.house.channel.acknowledged) == signs
    await life.link.send([CALLS.to_wire("e2")])
    await life.pass_time(120)
    assert brought(life) == [b"one", b"two"]
