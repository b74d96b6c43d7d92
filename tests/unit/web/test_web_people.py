"""People and deliveries over the HTTP API, and as text for a terminal."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.agent.accept import accept
from app.agent.flow import Flow
from app.agent.loop import run_turn
from app.agent.receive import receive
from app.agent.turn import bodies_of
from app.channels.channel import Refused
from app.channels.delivery import deliver_next
from app.cli.people_text import deliveries_table, people_table
from app.events import Destination, Sender
from app.sessions import people
from app.sessions.people import Newcomer
from app.sessions.person_words import DELETED
from app.tables import messages, sessions
from app.tables import people as rows
from app.web.api import explain_errors
from app.web.deliveries import deliveries_router
from app.web.people import people_router
from app.web.runs import RemoteRuns
from tests.unit.agent.test_agent_gate import gated_house, said
from tests.unit.house import DirectSteps, House, RecordingChannel, message, run_id, whole_turn
from tests.unit.work.typed import typing


@pytest.fixture
async def http(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(house) as client:
        yield client


def client_of(house: House) -> httpx.AsyncClient:
    app = FastAPI()
    explain_errors(app)
    app.include_router(people_router(house.harness, RemoteRuns()))
    app.include_router(deliveries_router(house.harness))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_a_code_pairs_and_the_list_shows_who_was_let_in(house: House, http: httpx.AsyncClient) -> None:
    assert people_table((await http.get("/api/people")).json()["people"]).startswith("Nobody yet.")
    made = (await http.post("/api/people/codes", json={"role": "admin"})).json()
    ada = Newcomer("telegram:5", "person", "telegram:1:5", "Ada", "ada", "fr")
    assert await house.db.write(people.use_code, made["code"], ada, house.clock.now())
    [found] = (await http.get("/api/people")).json()["people"]
    assert (found["id"], found["state"], found["role"], found["by"]) == (
        "telegram:5",
        "paired",
        "admin",
        "the operator",
    )
    table = people_table([found]).splitlines()
    assert table[1].split() == ["telegram:5", "paired", "admin", "Ada", "fr", "2026-01-05T12:00", "the", "operator"]
    assert (await http.post("/api/people/codes", json={"role": "king"})).status_code == 422


async def test_who_is_shut_out_is_listed_so(house: House, http: httpx.AsyncClient) -> None:
    assert (await http.post("/api/people/telegram:5/revoke")).json()["state"] == "revoked"
    [found] = (await http.get("/api/people")).json()["people"]
    assert (found["id"], found["state"]) == ("telegram:5", "revoked")
    for nobody in ("telegram:", "5"):
        answer = await http.post(f"/api/people/{nobody}/revoke")
        assert answer.status_code == 404 and "channel:id" in answer.json()["error"]


async def test_what_did_not_arrive_is_listed_with_the_reason(house: House, http: httpx.AsyncClient) -> None:
    assert deliveries_table((await http.get("/api/deliveries")).json()["deliveries"]) == "Everything has arrived."
    await whole_turn(house)
    [waiting] = (await http.get("/api/deliveries")).json()["deliveries"]
    assert (waiting["state"], waiting["text"]) == ("pending", "Hello.") and "not tried yet" in deliveries_table(
        [waiting]
    )
    house.channel.results = [Refused("Forbidden: bot was blocked by the user")]
    harness = house.harness
    await deliver_next(harness.db, harness.channels, harness.clock, harness.boot_id, "test:7")
    [stuck] = (await http.get("/api/deliveries")).json()["deliveries"]
    assert (stuck["state"], stuck["chat"], stuck["attempts"]) == ("failed", "test:7", 1)
    assert "blocked by the user" in deliveries_table([stuck])


async def test_what_arrived_is_shown_on_request(
    house: House, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await whole_turn(house)
    harness = house.harness
    await deliver_next(harness.db, harness.channels, harness.clock, harness.boot_id, "test:7")
    assert (await http.get("/api/deliveries")).json()["deliveries"] == []
    [arrived] = (await http.get("/api/deliveries", params={"all": "true"})).json()["deliveries"]
    assert arrived["state"] == "sent"
    async with typing(house, monkeypatch, deliveries_router(harness)) as moab:
        assert (await moab("deliveries")).stdout == "Everything has arrived.\n"
        assert "sent" in (await moab("deliveries", "--all")).stdout


async def test_everything_about_a_person_is_written_out_and_then_deleted(house: House, http: httpx.AsyncClient) -> None:
    """Messages, calls, deliveries, memory and files; of others nothing."""
    for number, who in enumerate(("5", "6"), 1):
        event = message(
            f"I am {who}", f"pet:{who}:1", session_key=f"pet:{who}", channel="pet", sender=Sender(id=who),
            destination=Destination(chat_id=who),
        )  # fmt: skip
        flow = Flow.model_validate(await receive(house.harness, run_id(number), event, f"pet:{who}:1"))
        assert flow.principal == f"pet-{who}"
        await run_turn(DirectSteps(house), bodies_of(house.harness, flow), flow)
        (house.harness.workspace.of(flow.principal).root / "MEMORY.md").write_text(f"{who} likes tea.")
    found = (await http.get("/api/people/pet:5/export")).json()
    assert [row["text"] for row in found["messages"]] == ["I am 5", "Hello."]
    assert found["files"]["MEMORY.md"] == "5 likes tea." and len(found["turns"]) == 1
    assert "I am 6" not in str(found)

    gone = (await http.post("/api/people/pet:5/forget")).json()
    assert (gone["sessions"], gone["memory"], gone["runs"]) == (1, "deleted", None)
    left = {row.text for row in house.rows(messages.select())}
    assert left == {"I am 6", "Hello."} and len(house.rows(sessions.select())) == 1
    assert house.harness.workspace.principals() == ["pet-6"]
    assert (await http.get("/api/people/pet:5/export")).status_code == 404
    assert (await http.post("/api/people/pet:5/forget")).status_code == 404


async def test_a_person_is_blanked_in_a_group_and_a_group_is_forgotten_as_a_whole(
    house: House, http: httpx.AsyncClient
) -> None:
    event = message(
        "hello all", "pet:-7:1", session_key="pet:-7", channel="pet", sender=Sender(id="5"),
        destination=Destination(chat_id="-7"), channel_meta={"group": True},
    )  # fmt: skip
    await receive(house.harness, run_id(1), event, "pet:-7:1")
    assert (await http.post("/api/people/pet:5/forget")).json()["sessions"] == 0
    assert [row.text for row in house.rows(messages.select())] == [DELETED]
    assert (await http.post("/api/people/pet:5/forget")).status_code == 404
    assert (await http.post("/api/people/pet:-7/forget")).json()["sessions"] == 1
    assert house.rows(messages.select()) == []


ADMIN = {"telegram_allowed_chats": ("5", "-7"), "approval_admins": ("telegram:5",)}


@pytest.fixture
def listing(tmp_path: Path, template: Path, clean_environment: None) -> House:
    """A house whose settings let in a chat and a person, who is an admin, on a channel that is there."""
    return gated_house(tmp_path, template, **ADMIN)


async def roles(house: House) -> dict[str, tuple[str, str]]:
    async with client_of(house) as http:
        return {one["id"]: (one["state"], one["role"]) for one in (await http.get("/api/people")).json()["people"]}


async def test_whom_the_settings_let_in_is_listed_at_once_in_the_role_they_say(listing: House) -> None:
    assert await roles(listing) == {"telegram:5": ("listed", "admin"), "telegram:-7": ("listed", "member")}
    for who in ("terminal", "telegram:5"):
        event = message("hi", channel=who.partition(":")[0], sender=None, channel_meta={"timezone": "UTC"})
        sender = Sender(id=who.partition(":")[2] or "me")
        await listing.db.write(people.keep_told, event.model_copy(update={"sender": sender}), listing.clock.now())
    await listing.db.write(lambda tx: tx.execute(rows.update().values(state="stranger")))
    found = await roles(listing)
    assert found["terminal:me"][1] == "operator" and found["telegram:5"] == ("listed", "admin")


async def test_who_is_shut_out_and_forgotten_stays_shut_out_until_readmitted(listing: House) -> None:
    async with client_of(listing) as http:
        await accept(listing.harness, said("hello", 1))
        assert (await http.get("/api/people/telegram:5")).json()["sessions"] == 1
        await http.post("/api/people/telegram:5/revoke")
        assert (await http.post("/api/people/telegram:5/forget")).json()["staysShutOut"]
        await accept(listing.harness, said("let me in", 2))
        assert listing.rows(messages.select()) == []
        [row] = listing.rows(rows.select())
        assert (row.id, row.state, row.name, row.username, row.session_key) == (
            *("telegram:5", "revoked", None, None, "telegram:5"),
        )
        assert (await http.post("/api/people/telegram:5/readmit")).status_code == 200
        await accept(listing.harness, said("and now?", 3))
        assert [row.text for row in listing.rows(messages.select())] == ["and now?"]
        assert (await http.post("/api/people/telegram:5/readmit")).status_code == 404


async def test_who_has_nothing_or_cannot_be_shut_out_is_told_so(listing: House) -> None:
    async with client_of(listing) as http:
        assert "only the settings" in (await http.post("/api/people/telegram:5/forget")).json()["error"]
        assert "nobody called" in (await http.get("/api/people/telegram:6")).json()["error"]
        assert "operator" in (await http.post("/api/people/terminal/revoke")).json()["error"]


async def test_a_code_names_its_zone_and_is_made_only_where_it_can_be_sent(listing: House) -> None:
    async with client_of(listing) as http:
        assert (await http.post("/api/people/codes", json={})).json()["until"] == "13:00 (UTC)"
    alone = replace(listing, harness=replace(listing.harness, channels={"terminal": RecordingChannel("terminal")}))
    async with client_of(alone) as http:
        assert "moab setup" in (await http.post("/api/people/codes", json={})).json()["error"]
