"""The time zone is asked once, when somebody is let in, and what they say next may be the answer."""

from pathlib import Path

import pytest

from app.agent.accept import accept
from app.sentences import ASK_ZONE, ZONE_FIXED, ZONE_SET, say
from app.sessions import session
from app.sessions.people import Newcomer, pair, principal_of
from app.tables import people as rows
from tests.unit.agent.test_agent_gate import code_of, gated_house, let_in, lines, said
from tests.unit.house import House


@pytest.fixture
def house(tmp_path: Path, template: Path, clean_environment: None) -> House:
    return gated_house(tmp_path, template)


GERMAN = {"channel_meta": {"chatType": "private", "languageCode": "de"}}


def zones(house: House) -> list[str | None]:
    return [row.timezone for row in house.rows(rows.select())]


async def test_the_first_words_may_say_the_zone_and_are_no_message_then(house: House) -> None:
    await accept(house.harness, said(await code_of(house), 1, **GERMAN))
    assert say(ASK_ZONE, "de") in lines(house)[0]
    for _ in range(2):  # the platform delivers it twice
        await accept(house.harness, said("Berlin", 2, **GERMAN))
    assert lines(house)[1:] == [say(ZONE_SET, "de", zone="Europe/Berlin")]
    assert zones(house) == ["Europe/Berlin"] and let_in(house) == []
    await accept(house.harness, said("Paris", 3, **GERMAN))
    assert let_in(house) == ["Paris"] and zones(house) == ["Europe/Berlin"]


async def test_other_words_go_to_the_agent_and_what_follows_is_no_answer_any_more(house: House) -> None:
    await accept(house.harness, said(await code_of(house), 1))
    await accept(house.harness, said("What is the weather?", 2))
    await accept(house.harness, said("Berlin", 3))
    assert let_in(house) == ["What is the weather?", "Berlin"] and zones(house) == [None]


async def test_who_has_said_it_is_not_asked_again(house: House) -> None:
    await accept(house.harness, said(await code_of(house), 1))
    await accept(house.harness, said("Berlin", 2))
    who = Newcomer.person(said("", 0))
    await house.db.write(pair, who, "member", "the operator", house.clock.now())
    await house.db.write(lambda tx: tx.execute(rows.update().values(state="stranger")))
    await accept(house.harness, said(await code_of(house), 3))
    assert say(ASK_ZONE) in lines(house)[0] and say(ASK_ZONE) not in lines(house)[-1]


async def test_who_is_known_to_be_somewhere_is_not_asked(house: House) -> None:
    told = {"channel_meta": {"chatType": "private", "languageCode": "de", "timezone": "Europe/Berlin"}}
    await accept(house.harness, said(await code_of(house), 1, **told))
    assert say(ASK_ZONE, "de") not in lines(house)[0]
    await accept(house.harness, said("Paris", 2, **told))
    assert let_in(house) == ["Paris"]
    admins = house.harness.settings.approval_admins
    session_id = await house.db.read(session.find, "telegram:1:5")
    assert (await house.db.read(principal_of, session_id, admins)).zone == "Europe/Berlin"


async def test_a_clock_alone_is_kept_with_a_word_about_summer_time(house: House) -> None:
    await accept(house.harness, said(await code_of(house), 1))
    await accept(house.harness, said("UTC+1", 2))
    assert lines(house)[1:] == [say(ZONE_FIXED, zone="UTC+1", city="Berlin")]
    assert zones(house) == ["Etc/GMT-1"]


async def test_the_admin_whom_the_set_up_greeted_is_asked_there_and_answers_here(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    """He stands in the settings alone; whoever else they list was asked nothing."""
    settings = {"telegram_allowed_chats": ("5", "6"), "approval_admins": ("telegram:5",)}
    listing = gated_house(tmp_path / "listing", template, **settings)
    await accept(listing.harness, said("Berlin", 1, user="6"))
    await accept(listing.harness, said("Berlin", 1))
    assert lines(listing) == [say(ZONE_SET, zone="Europe/Berlin")] and let_in(listing) == ["Berlin"]
    await accept(listing.harness, said("Paris", 2))
    assert zones(listing) == ["Europe/Berlin"] and let_in(listing) == ["Berlin", "Paris"]
