"""Files that come with messages: brought into the workspace once, before the model hears of them."""

from pathlib import Path
from typing import Any

import pytest

from app.agent.fetch import fetch
from app.agent.flow import Fetching
from app.agent.receive import receive
from app.channels.channel import Later, Refused
from app.events import Attachment
from app.files import safe_name
from app.tables import deliveries, messages, observations, supervision
from app.work import ledger
from tests.unit.house import RUN, House, begin, kill_at, make_house, message, whole_turn

PHOTO = Attachment(kind="photo", ref="P1", mime="image/jpeg", size=4)


def attachments(house: House) -> list[dict[str, Any]]:
    return [one for row in house.rows(messages.select()) for one in row.data.get("attachments", ())]


async def turn_with(house: House, *files: Attachment, text: str = "look", key: str = "test:1") -> str:
    """A turn on a message with files; what the model was shown of it."""
    await receive(house.harness, RUN, message(text, key, attachments=files), key)
    await whole_turn(house, text, key)
    return str(house.model.requests[-1][1][-1]["content"])


async def test_a_file_lies_in_the_workspace_before_the_model_hears_of_it(house: House) -> None:
    house.channel.files["P1"] = b"jpeg"
    shown = await turn_with(house, PHOTO)
    [found] = attachments(house)
    assert (house.harness.workspace.root / found["path"]).read_bytes() == b"jpeg"
    assert found["path"] == "inbox/2026-01-05/1-0-photo.jpg" and found["size"] == 4
    assert shown.startswith(f"look\n[Attached photo: {found['path']} in the workspace, 4 bytes]")


async def test_killed_after_the_download_it_is_brought_once_more_to_the_same_place(house: House) -> None:
    house.channel.files["P1"] = b"jpeg"
    with kill_at("fetch.brought"):
        await turn_with(house, PHOTO)
    await whole_turn(house, "look")
    folder = house.harness.workspace.root / "inbox"
    assert [path.name for path in folder.rglob("*.*")] == ["1-0-photo.jpg"]


async def test_what_does_not_come_is_tried_three_times_and_then_told(house: House) -> None:
    house.channel.files["P1"] = [Later(None, "It is away."), Later(5, "It is busy."), Later(None, "It is away.")]
    shown = await turn_with(house, PHOTO)
    assert "look\n[Attached photo image/jpeg: It could not be fetched, after 3 tries: It is away.]" == shown
    [row] = [row for row in house.rows(deliveries.select()) if row.key.startswith("fetch/")]
    assert row.text == "Photo: It could not be fetched, after 3 tries: It is away."


# The way in: files over 20 MB cannot be fetched -> limits are told to the user; the model never gets a placeholder.
async def test_what_is_too_large_is_not_fetched_and_both_are_told(house: House) -> None:
    shown = await turn_with(house, Attachment(kind="document", ref="D", name="film.mkv", size=30 * 2**20))
    assert "film.mkv: It has 30.0 MB and was not fetched; at most 20.0 MB are taken." in shown
    [row] = [row for row in house.rows(deliveries.select()) if row.key.startswith("fetch/")]
    assert row.text.startswith("film.mkv: It has 30.0 MB")


async def test_what_the_platform_refuses_is_said_at_once(house: House) -> None:
    house.channel.files["P1"] = Refused("Telegram does not give the file: wrong file_id.")
    assert "wrong file_id" in await turn_with(house, PHOTO)


async def test_what_is_there_is_not_fetched_again(house: House) -> None:
    house.channel.files["P1"] = [b"jpeg"]
    await turn_with(house, PHOTO)
    await whole_turn(house, "and now?", "test:2")
    assert len(attachments(house)) == 1


async def test_a_run_that_lost_the_session_fetches_nothing(house: House) -> None:
    house.channel.files["P1"] = b"jpeg"
    old = await begin(house, attachments=(PHOTO,))
    await begin(house, "newer", "test:2", "01RUN900000000000000000000")
    assert Fetching.model_validate(await fetch(house.harness, old)).kind == "superseded"
    assert not (house.harness.workspace.root / "inbox").exists()


@pytest.mark.parametrize(
    ("name", "kind", "safe"),
    [
        ("../../etc/passwd", "document", "passwd"),
        ("a\\b\\report (1).PDF", "document", "report_1.PDF"),
        (None, "voice", "voice.ogg"),
        ("...", "document", "document"),
        ("x" * 300 + ".txt", "document", "x" * 60 + ".txt"),
        ("\u202etxt.exe", "document", "txt.exe"),
    ],
)
def test_names_are_safe_in_any_folder(name: str | None, kind: str, safe: str) -> None:
    assert safe_name(name or "", kind) == safe


# The way in: album of N photos becomes N turns -> gathered by media group with a short quiet window into one turn.
async def test_an_album_waits_until_it_is_whole(house: House) -> None:
    house.channel.files |= {"P1": b"one", "P2": b"two"}

    def picture(number: int) -> Any:
        file = Attachment(kind="photo", ref=f"P{number}")
        return message("", f"test:{number}", attachments=(file,), channel_meta={"mediaGroupId": "g"})

    first = await receive(house.harness, RUN, picture(1), "test:1")
    assert (first["stop"], first["wait_until"]) == ("waiting", "2026-01-05T12:00:01.500000+00:00")
    house.clock.advance(1)
    second = await receive(house.harness, "01RUN100000000000000000000", picture(2), "test:2")
    assert second["wait_until"] == "2026-01-05T12:00:02.500000+00:00"
    house.clock.advance(1.5)
    begun = await receive(house.harness, "01RUN100000000000000000000", picture(2), "test:2")
    assert begun.get("stop") is None
    assert [row.attached for row in house.rows(messages.select())] == [True, True]


async def test_an_album_that_never_ends_is_answered_after_all(house: House) -> None:
    album = {"mediaGroupId": "g"}
    for number in range(20):
        found = await receive(house.harness, RUN, message("x", f"test:{number}", channel_meta=album), f"test:{number}")
        if found.get("stop") is None:
            break
        house.clock.advance(1)
    assert number == 15


async def test_where_a_workspace_takes_nothing_it_is_a_reason_to_wait(tmp_path: Path, template: Path) -> None:
    house = make_house(tmp_path / "h", template, "Hello.")
    house.channel.files["P1"] = b"jpeg"
    (house.harness.workspace.root / "inbox").write_text("in the way")
    shown = await turn_with(house, PHOTO)
    assert "The workspace does not take it" in shown


async def seen(house: House) -> list[tuple[str, Any, str]]:
    """(kind, status or reason, who said so) of what the ledger has of the one file."""
    (task_id,) = {row.task_id for row in house.rows(observations.select())}
    found = await house.db.read(ledger.of_task, task_id)
    return [(str(one.kind), one.data.get("status") or one.data.get("reason"), one.source) for one in found]


async def test_what_comes_is_in_the_ledger_with_who_it_comes_from(house: House) -> None:
    house.channel.files = {"P1": b"JPEG"}
    await turn_with(house, PHOTO)
    assert await seen(house) == [
        ("STARTED", None, "test"),
        ("DOWNLOAD_OBSERVED", "completed", "test"),
        ("TASK_COMPLETED", None, "test"),
    ]
    assert house.rows(supervision.select()) == [], "the step itself looks after it"


@pytest.mark.parametrize(
    ("first", "status"), [(b"JP", "incomplete"), (Later(None, "nothing came", timed_out=True), "timeout")]
)
async def test_half_a_file_is_none_and_is_fetched_again(house: House, first: Any, status: str) -> None:
    house.channel.files = {"P1": [first, b"JPEG"]}
    await turn_with(house, PHOTO)
    assert [found for kind, found, _ in await seen(house) if kind == "DOWNLOAD_OBSERVED"] == [status, "completed"]
    assert [path.read_bytes() for path in (house.harness.workspace.root / "inbox").rglob("*.jpg")] == [b"JPEG"]


async def test_what_is_given_up_has_failed_in_the_ledger(house: House) -> None:
    house.channel.files = {"P1": [Later(None, "nothing came", timed_out=True)] * 3}
    await turn_with(house, PHOTO)
    assert [found for _, found, _ in await seen(house)] == [None, "timeout", "timeout", "timeout", "DOWNLOAD_TIMEOUT"]
