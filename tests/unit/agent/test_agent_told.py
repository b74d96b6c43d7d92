"""What a platform tells of people by itself, such as Slack's zone and language, is kept with them once."""

from app.agent.accept import accept
from app.channels import outbox
from app.events import MessageReceived, Sender
from app.sessions import people, session
from app.sessions.people import Newcomer
from tests.unit.house import SESSION, House, message

ADA = "test:ada"


def told(number: int, sender: str | None = "ada", **meta: str) -> MessageReceived:
    who = Sender(id=sender) if sender is not None else None
    return message("hello", key=f"test:{number}").model_copy(update={"sender": who, "channel_meta": dict(meta)})


async def kept(house: House, who: str = ADA) -> tuple[str | None, str | None] | None:
    row = await house.db.read(people.find, who)
    return None if row is None else (row.timezone, row.language)


async def test_zone_and_language_are_kept_with_the_first_message(house: House) -> None:
    await accept(house.harness, told(1, timezone="Europe/Berlin", languageCode="de-DE"))
    assert await kept(house) == ("Europe/Berlin", "de-DE")
    await accept(house.harness, told(2))  # Slack was silent this time
    await accept(house.harness, told(3, timezone="Asia/Tokyo", languageCode="de-DE"))
    assert await kept(house) == ("Europe/Berlin", "de-DE")


async def test_a_platform_that_is_silent_once_changes_no_language(house: House) -> None:
    await accept(house.harness, told(1, timezone="Europe/Berlin", languageCode="de-DE"))
    await accept(house.harness, told(2, chatType="im"))
    session_id = str(await house.db.read(session.find, SESSION))
    assert await house.db.read(outbox.language_of, session_id) == "de-DE"
    await accept(house.harness, told(3, sender="bo", chatType="im"))
    assert await house.db.read(outbox.language_of, session_id) == ""


async def test_a_zone_that_the_person_chose_stays(house: House) -> None:
    await house.db.write(people.set_zone, Newcomer.person(told(1)), "Europe/Paris", house.clock.now())
    await accept(house.harness, told(1, timezone="Europe/Berlin"))
    assert await kept(house) == ("Europe/Paris", None)


async def test_of_whom_nothing_is_told_nothing_is_kept(house: House) -> None:
    await accept(house.harness, told(1, languageCode="de"))
    assert await kept(house) is None
    await accept(house.harness, told(2, sender=None, timezone="Europe/Berlin"))
    assert await kept(house, "test") is None
