"""People and deliveries over the HTTP API, and as text for a terminal."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

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
from app.web.api import explain_errors
from app.web.deliveries import deliveries_router
from app.web.people import people_router
from app.web.runs import RemoteRuns
from tests.unit.house import DirectSteps, House, message, run_id, whole_turn


@pytest.fixture
async def http(house: House) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    explain_errors(app)
    app.include_router(people_router(house.harness, RemoteRuns()))
    app.include_router(deliveries_router(house.harness))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


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
    for nobody in ("telegram:", "terminal:x", "5"):
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


async def test_what_arrived_is_shown_on_request(house: House, http: httpx.AsyncClient) -> None:
    await whole_turn(house)
    harness = house.harness
    await deliver_next(harness.db, harness.channels, harness.clock, harness.boot_id, "test:7")
    assert (await http.get("/api/deliveries")).json()["deliveries"] == []
    [arrived] = (await http.get("/api/deliveries", params={"all": "true"})).json()["deliveries"]
    assert arrived["state"] == "sent"


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
