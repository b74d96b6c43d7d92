"""What clients that fetch are told: new replies, what the turn does, whether work is left."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.agent.loop import run_turn
from app.agent.people.commands import run_command
from app.agent.turn import bodies_of
from app.channels.delivery import deliver_next
from app.errors import NotFound
from app.events import CommandReceived, Destination
from app.sessions import session, turns
from app.web.api import api_router, explain_errors
from app.web.feed import feed, wait_for_answer
from tests.unit.house import RUN, SESSION, DirectSteps, House, begin, message, run_id, whole_turn


async def still_there() -> bool:
    return False


async def gone() -> bool:
    return True


async def look(house: House, after: int = -1, wait_s: float = 0) -> dict[str, Any]:
    return await feed(house.harness, SESSION, after, wait_s, still_there)


async def deliver(house: House, chat: str = "terminal:7") -> None:
    while (await deliver_next(house.db, house.harness.channels, house.clock, "home:boot1", chat))["kind"] != "done":
        pass


async def turn(house: House, text: str = "hello", key: str = "k1", run: str = RUN) -> None:
    """A turn of the terminal, delivered and settled."""
    flow = await begin(house, text, key, run, channel="terminal")
    await whole_turn_of(house, flow)
    await deliver(house)


async def whole_turn_of(house: House, flow: Any) -> None:
    await run_turn(DirectSteps(house), bodies_of(house.harness, flow), flow)


IDLE = {"state": "idle", "tool": None, "iteration": 0, "partial": ""}


async def test_a_session_that_is_not_there_is_empty_and_settled(house: House) -> None:
    assert await look(house) == {"cursor": 0, "items": [], "activity": IDLE, "open": 0, "settled": True}


async def test_from_now_on_shows_nothing_of_before(house: House) -> None:
    await turn(house)
    found = await look(house)
    assert found["items"] == [] and found["cursor"] > 0


async def test_a_reply_is_shown_once_it_is_delivered(house: House) -> None:
    start = (await look(house))["cursor"]
    house.model.answers = ["Hi there."]
    await turn(house)
    found = await look(house, start)
    assert found["items"] == [{"id": found["cursor"], "kind": "reply", "text": "Hi there.", "turnId": RUN}]
    assert (await look(house, found["cursor"]))["items"] == []


async def test_a_part_that_is_late_is_not_missed(house: House) -> None:
    """Two mailboxes of one session have orders of their own: the cursor waits for the slower one."""
    start = (await look(house))["cursor"]
    house.model.answers = ["first", "second"]
    await whole_turn_of(house, await begin(house, "one", "k1", run_id(1), channel="http"))
    await turn(house, "two", "k2", run_id(2))
    assert (await look(house, start))["items"] == []
    joined = (await look(house))["cursor"]
    await deliver(house, "http:7")
    assert [item["text"] for item in (await look(house, start))["items"]] == ["first", "second"]
    assert [item["text"] for item in (await look(house, joined))["items"]] == ["first", "second"]


async def test_what_the_turn_does_is_shown(house: House) -> None:
    flow = await begin(house, channel="terminal")
    assert (await look(house))["activity"] == IDLE | {"state": "thinking"}
    with house.tx() as tx:
        turns.note_activity(tx, flow.run_id, "tool", tool="bash", iteration=2)
    found = await look(house)
    assert found["activity"] == IDLE | {"state": "tool", "tool": "bash", "iteration": 2}
    assert (found["open"], found["settled"]) == (1, False)


async def test_settled_is_when_nothing_is_left(house: House) -> None:
    await turn(house)
    assert (await look(house))["settled"] is False, "what follows the turn is still to be done"
    with house.tx() as tx:
        turns.settle(tx, RUN, house.clock.now())
    assert (await look(house))["settled"] is True


async def test_an_undelivered_reply_is_left_to_do(house: House) -> None:
    flow = await begin(house, channel="terminal")
    await whole_turn_of(house, flow)
    with house.tx() as tx:
        turns.settle(tx, RUN, house.clock.now())
    assert (await look(house))["settled"] is False
    await deliver(house)
    assert (await look(house))["settled"] is True


async def test_superseded_and_stopped_turns_are_settled(house: House) -> None:
    flow = await begin(house, channel="terminal")
    await begin(house, "newer", "k2", run_id(2), channel="terminal")
    with house.tx() as tx:
        session.stop(tx, flow.session_id, house.clock.now())
    assert (await look(house))["settled"] is True


async def test_replies_of_the_old_conversation_are_seen_behind_new(house: House) -> None:
    start = (await look(house))["cursor"]
    await turn(house)
    new = CommandReceived(
        command="new", session_key=SESSION, channel="terminal", destination=Destination(chat_id="7"), message_key="c"
    )
    await run_command(house.harness, new, "c")
    await deliver(house)
    assert [item["kind"] for item in (await look(house, start))["items"]] == ["reply", "command"]


async def test_waiting_ends_with_the_first_change(house: House) -> None:
    waiting = asyncio.ensure_future(look(house, 0, 60))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await begin(house, channel="terminal")
    assert (await asyncio.wait_for(waiting, 5))["open"] == 1


async def test_waiting_ends_at_its_time(house: House) -> None:
    waiting = asyncio.ensure_future(look(house, 0, 10))
    await asyncio.sleep(0.02)
    house.clock.advance(10)
    house.harness.notifier.publish(SESSION)
    assert (await asyncio.wait_for(waiting, 5))["items"] == []


async def test_waiting_ends_when_the_client_or_the_service_goes(house: House) -> None:
    assert (await feed(house.harness, SESSION, 0, 60, gone))["items"] == []
    waiting = asyncio.ensure_future(look(house, 0, 60))
    await asyncio.sleep(0.02)
    house.harness.notifier.close()
    assert (await asyncio.wait_for(waiting, 5))["items"] == []


async def test_the_answer_to_a_message(house: House) -> None:
    event = message(key="k1", channel="terminal")
    pending = await wait_for_answer(house.harness, event, 0)
    assert pending == {"status": "pending", "turnId": None, "reply": None}
    house.model.answers = ["Hi there."]
    await turn(house)
    answer = await wait_for_answer(house.harness, event, 0)
    assert answer == {"status": "answered", "turnId": RUN, "reply": "Hi there."}


async def test_the_answer_of_a_turn_that_took_the_message_over(house: House) -> None:
    await begin(house, "one", "k1", run_id(1), channel="terminal")
    await turn(house, "two", "k2", run_id(2))
    for key in ("k1", "k2"):
        answer = await wait_for_answer(house.harness, message(key=key), 0)
        assert (answer["status"], answer["turnId"], answer["reply"]) == ("answered", run_id(2), "Hello.")


async def test_a_stopped_message_has_no_answer(house: House) -> None:
    flow = await begin(house, key="k1", channel="terminal")
    with house.tx() as tx:
        session.stop(tx, flow.session_id, house.clock.now())
    answer = await wait_for_answer(house.harness, message(key="k1"), 0)
    assert answer == {"status": "stopped", "turnId": None, "reply": None}


async def test_the_answer_to_a_command(house: House) -> None:
    command = CommandReceived(
        command="help", session_key=SESSION, channel="terminal", destination=Destination(chat_id="7"), message_key="c"
    )
    assert (await wait_for_answer(house.harness, command, 0))["status"] == "pending"
    await run_command(house.harness, command, "c")
    answer = await wait_for_answer(house.harness, command, 0)
    assert answer["status"] == "answered" and "/stop" in answer["reply"]


async def test_an_answer_is_waited_for(house: House) -> None:
    waiting = asyncio.ensure_future(wait_for_answer(house.harness, message(key="k1"), 60))
    await turn(house)
    assert (await asyncio.wait_for(waiting, 5))["reply"] == "Hello."


class FakeRuns:
    """Runs as an engine may know them."""

    async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
        return [{"id": "R", "limit": limit, "status": status, "function": function}]

    async def run(self, run_id: str) -> dict[str, Any]:
        if run_id != "R":
            raise NotFound(f"There is no run {run_id!r}.")
        return {"run": {"id": "R"}, "steps": []}


@pytest.fixture
def http(house: House) -> httpx.AsyncClient:
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(house.harness, FakeRuns(), "embedded"))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_the_routes(house: House, http: httpx.AsyncClient) -> None:
    async with http:
        health = (await http.get("/health")).json()
        assert health == {"status": "ok", "version": "0", "model": "test/model", "engine": "embedded"}
        await turn(house)
        found = (await http.get(f"/api/sessions/{SESSION}/feed?after=0")).json()
        assert [item["text"] for item in found["items"]] == ["Hello."]
        lines = (await http.get(f"/api/sessions/{SESSION}/messages?limit=5")).json()["messages"]
        assert [(line["role"], line["text"]) for line in lines] == [("user", "hello"), ("assistant", "Hello.")]
        assert (await http.get("/api/sessions/nobody/messages")).json() == {"messages": []}
        listed = (await http.get("/api/runs?limit=3&status=Failed&function=heartbeat")).json()["runs"]
        assert listed == [{"id": "R", "limit": 3, "status": "Failed", "function": "heartbeat"}]
        assert (await http.get("/api/runs/R")).json()["run"] == {"id": "R"}
        missing = await http.get("/api/runs/X")
        assert (missing.status_code, missing.json()) == (404, {"error": "There is no run 'X'."})


@pytest.mark.parametrize(
    "path", ["/api/runs?limit=0", "/api/runs?limit=x", "/api/sessions/s/feed?wait=601", "/api/sessions/s/feed?after=x"]
)
async def test_numbers_out_of_bounds_are_refused(http: httpx.AsyncClient, path: str) -> None:
    async with http:
        assert (await http.get(path)).status_code == 422


async def test_whole_turns_have_one_reply(house: House) -> None:
    await whole_turn(house)
    assert (await wait_for_answer(house.harness, message(key="test:1"), 0))["reply"] == "Hello."
