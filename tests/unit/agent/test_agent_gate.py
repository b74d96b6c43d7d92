"""Who is let in, what strangers hear, and how a code makes somebody known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.accept import accept
from app.agent.people.gate import invite_first, make_code
from app.events import CommandReceived, Destination, MessageReceived, Sender
from app.ids import new_code, read_code
from app.sentences import GROUP_PAIRED, STRANGER, WRONG_CODE, say
from app.sessions import people
from app.sessions.people import Newcomer
from app.tables import deliveries, messages
from app.tables import people as rows
from tests.unit.house import House, RecordingChannel, make_house, run_command_of


@pytest.fixture
def house(tmp_path: Path, template: Path, clean_environment: None) -> House:
    return gated_house(tmp_path, template)


def gated_house(folder: Path, template: Path, **settings: Any) -> House:
    built = make_house(folder / "gated", template, **settings)
    channels = dict(built.harness.channels) | {"telegram": RecordingChannel("telegram")}
    return replace(built, harness=replace(built.harness, channels=channels))


def said(text: str, number: int = 1, user: str = "5", **changes: Any) -> MessageReceived:
    fields: dict[str, Any] = {
        "message": text,
        "message_key": f"telegram:1:{user}:{number}",
        "session_key": f"telegram:1:{user}",
        "channel": "telegram",
        "sender": Sender(id=user, name="Ada", username="ada"),
        "destination": Destination(chat_id=user, message_id=str(number)),
        "channel_meta": {"chatType": "private", "languageCode": "en"},
    }
    return MessageReceived(**fields | changes)


def in_group(text: str, number: int = 1, user: str = "5") -> MessageReceived:
    meta = {"chatType": "group", "group": True, "chatTitle": "Garden"}
    place = {"session_key": "telegram:1:-7", "destination": Destination(chat_id="-7"), "channel_meta": meta}
    return said(text, number, user, message_key=f"telegram:1:-7:{number}", **place)


def command(name: str, args: str = "", number: int = 1, **changes: Any) -> CommandReceived:
    own = {"message", "attachments", "marks", "steers", "edited"}
    return CommandReceived(command=name, args=args, **said("", number, **changes).model_dump(exclude=own))


def lines(house: House) -> list[str]:
    return [row.text for row in house.rows(deliveries.select().order_by(deliveries.c.id))]


def let_in(house: House) -> list[str]:
    return [row.text for row in house.rows(messages.select().order_by(messages.c.id))]


async def code_of(house: House, role: str = "member") -> str:
    return (await house.db.write(make_code, house.harness, role, "the operator"))[0]


async def test_nobody_is_let_in_by_default_and_hears_one_polite_line_a_day(house: House) -> None:
    for number in range(3):
        await accept(house.harness, said("let me in", number))
    assert let_in(house) == [] and lines(house) == [STRANGER]
    assert not [event for event in house.sender.events if event["name"] == "agent.message.received"]
    house.clock.advance(24 * 3600)
    await accept(house.harness, said("and today?", 9))
    await accept(house.harness, said("hello?", 10))
    assert lines(house) == [STRANGER, STRANGER]


async def test_the_line_is_said_in_the_language_of_the_stranger(house: House) -> None:
    await accept(house.harness, said("hallo", channel_meta={"languageCode": "de-AT"}))
    assert lines(house) == [say(STRANGER, "de")] and "Kopplungscode" in lines(house)[0]


async def test_where_others_listen_a_stranger_hears_nothing(house: House) -> None:
    assert await accept(house.harness, in_group("@moab_bot hello")) is False
    assert lines(house) == let_in(house) == [] and house.rows(rows.select()) == []


@pytest.mark.parametrize(("allowed", "comes_in"), [("5", True), ("6", False), ("*", True), ("-7", False)])
async def test_the_settings_let_in_people_and_chats(
    tmp_path: Path, template: Path, clean_environment: None, allowed: str, comes_in: bool
) -> None:
    house = gated_house(tmp_path, template, telegram_allowed_chats=allowed)
    await accept(house.harness, said("hello"))
    assert let_in(house) == (["hello"] if comes_in else [])
    await accept(house.harness, in_group("hello all", user="9"))
    assert ("hello all" in let_in(house)) == (allowed in ("*", "-7"))


@pytest.mark.parametrize("form", ["{code}", " {lower} ", "{dashed}"])
async def test_a_code_pairs_once(house: House, form: str) -> None:
    code = await code_of(house)
    given = form.format(code=code, lower=code.lower(), dashed=f"{code[:4]}-{code[4:]}")
    await accept(house.harness, said(given))
    await accept(house.harness, said("hello", 2))
    assert let_in(house) == ["hello"]
    [hello] = lines(house)
    assert hello.startswith("Hello Ada! You are paired") and "/timezone" in hello
    [row] = house.rows(rows.select())
    assert (row.id, row.state, row.role, row.paired_by) == ("telegram:5", "paired", "member", "the operator")
    await accept(house.harness, said(code, user="6"))
    assert lines(house)[-1] == WRONG_CODE


async def test_the_code_delivered_twice_is_no_message_of_the_paired(house: House) -> None:
    code = await code_of(house)
    for _ in range(2):
        await accept(house.harness, said(code))
    assert let_in(house) == [] and len(lines(house)) == 1


async def test_a_link_brings_the_code_with_start(house: House) -> None:
    await accept(house.harness, command("start", await code_of(house)))
    assert lines(house)[0].startswith("Hello Ada!")


async def test_a_code_is_good_for_an_hour(house: House) -> None:
    code = await code_of(house)
    house.clock.advance(3600)
    await accept(house.harness, said(code))
    assert lines(house) == [WRONG_CODE]


async def test_eight_letters_that_are_words_are_no_code_while_none_is_open(house: House) -> None:
    await accept(house.harness, said("STRANGER"))
    await accept(house.harness, said("WhatsApp", 2))
    assert lines(house) == [STRANGER]
    await accept(house.harness, command("pair", "WhatsApp", 3))
    assert lines(house) == [STRANGER, WRONG_CODE]


async def test_guessing_ends_after_five_tries_a_day(house: House) -> None:
    await code_of(house)
    for number in range(8):
        await accept(house.harness, said("AAAAAAA" + str(number), number))
    assert lines(house) == [WRONG_CODE] * 5
    code = await code_of(house)
    await accept(house.harness, said(code, 20))
    await accept(house.harness, said(code, 21))
    assert let_in(house) == []


async def test_an_admin_gets_codes_and_lets_chats_in(house: House) -> None:
    await accept(house.harness, said(await code_of(house, "admin")))
    shown = await run_command_of(house, command("pair", number=2))
    code = read_code(shown.partition(": ")[2].split()[0])
    await accept(house.harness, said(code, user="6"))
    assert lines(house)[-1].startswith("Hello Ada!")
    assert await run_command_of(house, command("pair", number=3, user="6")) == "Only an admin may do that."
    group = in_group("", 4)
    place = {"session_key": group.session_key, "destination": group.destination, "channel_meta": group.channel_meta}
    assert await run_command_of(house, command("pair", number=4, **place)) == GROUP_PAIRED
    await accept(house.harness, in_group("hello all", 5, user="9"))
    assert let_in(house) == ["hello all"]


async def test_a_revoked_person_stays_outside_whatever_the_settings_say(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    house = gated_house(tmp_path, template, telegram_allowed_chats="*")
    await house.db.write(people.revoke, "telegram:5", house.clock.now())
    await accept(house.harness, said("hello"))
    await accept(house.harness, said(await code_of(house), 2))
    assert let_in(house) == lines(house) == []
    await accept(house.harness, said("hello", user="6"))
    assert let_in(house) == ["hello"]


async def test_a_person_says_where_he_is_in_time(house: House) -> None:
    await accept(house.harness, said(await code_of(house)))
    assert "no time zone Mars" in await run_command_of(house, command("timezone", "Mars", 2))
    assert await run_command_of(house, command("timezone", "Europe/Paris", 3)) == "Your time zone is Europe/Paris."
    assert await run_command_of(house, command("timezone", "", 4)) == "Your time zone is Europe/Paris."
    [row] = house.rows(rows.select())
    assert (row.timezone, row.state) == ("Europe/Paris", "paired")


async def test_where_nobody_could_talk_the_log_has_a_code_for_the_first(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await invite_first(house.harness)
    [line] = [record.getMessage() for record in caplog.records]
    code = next(word for word in line.split() if read_code(word) and word.isupper())
    await accept(house.harness, said(code))
    [row] = house.rows(rows.select())
    assert (row.state, row.role) == ("paired", "admin")
    caplog.clear()
    await invite_first(house.harness)
    assert caplog.records == []


async def test_strangers_of_long_ago_are_forgotten(house: House) -> None:
    await accept(house.harness, said("hello"))
    house.clock.advance(31 * 24 * 3600)
    await accept(house.harness, said("hello", user="6"))
    assert [row.id for row in house.rows(rows.select())] == ["telegram:6"]


async def test_what_comes_from_the_terminal_knocks_at_no_door(house: House) -> None:
    await accept(house.harness, said("hello", channel="terminal", session_key="terminal:default"))
    assert let_in(house) == ["hello"]


def test_codes_are_read_as_people_type_them() -> None:
    assert read_code("k7pm-2qxr") == "K7PM2QXR" and read_code("O1IL2345") == "01112345"
    assert read_code("hello") == read_code("what is new") == read_code("") == ""
    assert len({new_code(bytes([n]) * 5) for n in range(200)}) == 200
    assert Newcomer.person(said("x")).id == "telegram:5"
