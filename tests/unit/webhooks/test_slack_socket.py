"""Socket Mode against a real WebSocket server: acknowledged only what is stored, connected again whatever happens."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from app.channels.slack import SlackChannel
from app.clock import ManualClock
from tests.fakes.slack_server import APP_TOKEN, TOKEN, SlackServer
from webhooks import slack_socket
from webhooks.slack_desk import Heard
from webhooks.slack_socket import listen


class Sockets:
    """Slack's side of Socket Mode: every connection plays the next act, a list of frames, and notes what it hears."""

    def __init__(self) -> None:
        self.acts: list[list[Any]] = []
        self.heard: list[list[str]] = []
        self.bodies: list[Any] = []
        self.open = 0
        self.most = 0

    async def play(self, connection: ServerConnection) -> None:
        heard: list[str] = []
        self.heard.append(heard)
        act = self.acts.pop(0) if self.acts else []
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await connection.send(json.dumps({"type": "hello", "num_connections": self.open}))
            for frame in act:
                if frame == "close":
                    await connection.close()
                elif frame == "break":
                    connection.transport.abort()
                elif frame == "wait":
                    await asyncio.Event().wait()
                else:
                    await connection.send(frame if isinstance(frame, str) else json.dumps(frame))
            async for message in connection:
                heard.append(json.loads(message)["envelope_id"])
                self.bodies.append(json.loads(message).get("payload"))
        finally:
            self.open -= 1


def envelope(number: str, text: str = "hello", kind: str = "events_api") -> dict[str, Any]:
    return {"type": kind, "envelope_id": number, "payload": {"text": text}, "accepts_response_payload": False}


class Taker:
    """What is taken in; `refused` are texts that cannot be stored the first time."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.refused: set[str] = set()

    async def take(self, payload: Any) -> Heard:
        self.texts.append(payload["text"])
        if payload["text"] == "slow":
            await asyncio.Event().wait()
        if payload["text"] in self.refused:
            self.refused.discard(payload["text"])
            return Heard(False)
        return Heard(True, {"text": "Try again."} if payload["text"] == "late" else {})


@pytest.fixture
async def sockets(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sockets]:
    monkeypatch.setattr(slack_socket, "PAUSES_S", (0.0,))
    yield Sockets()


@contextlib.asynccontextmanager
async def listening(
    sockets: Sockets, taker: Taker, *, app_token: str = APP_TOKEN
) -> AsyncIterator["asyncio.Task[None]"]:
    async with SlackServer() as slack, serve(sockets.play, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        slack.socket_url = f"ws://127.0.0.1:{port}/link?ticket=secret"
        channel = SlackChannel(TOKEN, slack.url, app_token=app_token)
        task = asyncio.create_task(listen(channel.open_socket, taker.take, ManualClock()))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})
            await channel.close()


async def until(look: Any) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - what is looked at lies in many places
            await asyncio.sleep(0.005)


async def test_every_kind_of_envelope_is_taken_in_and_acknowledged(sockets: Sockets) -> None:
    kinds = ("events_api", "interactive", "slash_commands")
    sockets.acts = [[envelope(f"E{n}", kind, kind) for n, kind in enumerate(kinds)]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: sockets.heard and len(sockets.heard[0]) == 3)
    assert taker.texts == list(kinds) and sockets.heard == [["E0", "E1", "E2"]]


async def test_what_is_of_no_kind_that_is_known_is_acknowledged_and_left(sockets: Sockets) -> None:
    sockets.acts = [["not json", "[]", {"type": "novelty"}, envelope("E1", kind="novelty"), envelope("E2")]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: sockets.heard and len(sockets.heard[0]) == 2)
    assert taker.texts == ["hello"] and sockets.heard == [["E1", "E2"]]


# Acknowledge to the platform only after the event is durable.
async def test_what_could_not_be_stored_is_not_acknowledged(sockets: Sockets) -> None:
    sockets.acts = [[envelope("E1", "bad"), envelope("E2", "good")]]
    taker = Taker()
    taker.refused = {"bad"}
    async with listening(sockets, taker):
        await until(lambda: sockets.heard and sockets.heard[0])
    assert sockets.heard == [["E2"]] and taker.texts == ["bad", "good"]


# One slow envelope delays no other beyond the three seconds that Slack waits.
async def test_each_envelope_is_acknowledged_when_its_own_payload_is_stored(sockets: Sockets) -> None:
    sockets.acts = [[envelope("E1", "slow"), envelope("E2", "good"), envelope("E3", "good")]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: sockets.heard and len(sockets.heard[0]) == 2)
    assert sockets.heard == [["E2", "E3"]] and taker.texts == ["slow", "good", "good"]


async def test_only_so_many_envelopes_are_held_at_a_time(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_socket, "AT_ONCE", 2)
    sockets.acts = [[envelope("E1", "slow"), envelope("E2", "slow"), envelope("E3"), "close"], [envelope("E4")]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: len(taker.texts) == 2)
    assert taker.texts == ["slow", "slow"]


async def test_what_slack_is_to_show_goes_with_the_acknowledgement(sockets: Sockets) -> None:
    sockets.acts = [[envelope("E1", "late", "slash_commands"), envelope("E2")]]
    async with listening(sockets, Taker()):
        await until(lambda: sockets.heard and len(sockets.heard[0]) == 2)
    assert sockets.bodies == [{"text": "Try again."}, None]


@pytest.mark.parametrize("end", ["close", "break"])
async def test_a_connection_that_ends_is_opened_again(sockets: Sockets, end: str) -> None:
    sockets.acts = [[end], [end], [envelope("E1")]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: taker.texts)
    assert taker.texts == ["hello"] and len(sockets.heard) == 3


async def test_the_old_connection_is_read_until_slack_closes_it(sockets: Sockets) -> None:
    """What is under way on it when Slack asks for a new one must not get lost."""
    asks = {"type": "disconnect", "reason": "refresh_requested"}
    sockets.acts = [[asks, envelope("E1", "late on the old one")], [envelope("E2", "on the new one")]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: sum(map(len, sockets.heard)) == 2)
    assert sorted(taker.texts) == ["late on the old one", "on the new one"]
    assert sockets.heard == [["E1"], ["E2"]] and sockets.most == 2


async def test_slack_that_asks_again_and_again_is_not_stormed(
    sockets: Sockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Any] = []

    class Noted(tuple[float, ...]):
        def __getitem__(self, number: Any) -> Any:
            failures.append(number)
            return 0.0

    monkeypatch.setattr(slack_socket, "PAUSES_S", Noted((0.0, 1.0, 2.0)))
    asks = {"type": "disconnect", "reason": "too_many_websockets"}
    sockets.acts = [[asks, "close"], [asks, "close"], [asks, "close"], [envelope("E1")]]
    taker = Taker()
    async with listening(sockets, taker):
        await until(lambda: taker.texts)
    assert failures == [1, 2, 2]


@pytest.mark.parametrize("why", ["a token that is refused", "switched off"])
async def test_where_no_try_can_help_it_ends_with_a_sentence(
    sockets: Sockets, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    sockets.acts = [[{"type": "disconnect", "reason": "link_disabled"}]]
    token = "xapp-wrong" if why == "a token that is refused" else APP_TOKEN
    async with listening(sockets, Taker(), app_token=token) as task:
        async with asyncio.timeout(10):
            await task
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    words = "SLACK_APP_TOKEN opens no socket: Slack says invalid_auth." if token != APP_TOKEN else "is switched off"
    assert words in line and "xapp" not in line and "ticket" not in caplog.text


async def test_slack_that_cannot_be_reached_is_asked_again(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    @contextlib.asynccontextmanager
    async def refuse() -> AsyncIterator[Any]:
        nonlocal tries
        tries += 1
        raise ConnectionError("not there")
        yield

    task = asyncio.create_task(listen(refuse, Taker().take, ManualClock()))
    await until(lambda: tries > 3)
    task.cancel()
    await asyncio.wait({task})
