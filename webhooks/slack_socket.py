"""Slack's Socket Mode: events come over a WebSocket that the service opens itself, so it needs no public address.

Source: docs.slack.dev, "Using Socket Mode". An envelope that is not acknowledged is delivered again, so it is
acknowledged only when its payload cannot be lost.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from app.clock import Clock
from app.errors import ConfigError
from app.events import wire_safe
from webhooks.fields import as_dict, as_text

TAKEN = ("events_api", "interactive", "slash_commands")
SWITCHED_OFF = "Socket Mode is switched off for the app; switch it on, or set SLACK_SIGNING_SECRET."
PAUSES_S = (0.0, 1.0, 2.0, 5.0, 15.0, 30.0)
"""How long to wait before the next try to connect, by the number of failures in a row."""
AT_ONCE = 100
"""How many envelopes of a connection are being stored at a time; what else there is waits at Slack."""
STEADY_AFTER_S = 60.0
"""A connection that held so long was no failure."""

log = logging.getLogger("moab.webhooks")


class Socket(Protocol):
    """An open connection: texts come in until it ends, texts go out."""

    def __aiter__(self) -> AsyncIterator[str | bytes]: ...

    async def send(self, message: str) -> None: ...


Open = Callable[[], AbstractAsyncContextManager[Socket]]
"""Asks Slack for an address and connects to it. Raises ConfigError where no second try can help."""


class Heard(Protocol):
    """Whether an envelope may be acknowledged, and what Slack is to show with that."""

    @property
    def taken(self) -> bool: ...
    @property
    def body(self) -> Mapping[str, Any]: ...


Take = Callable[[Mapping[str, Any]], Awaitable[Heard]]
"""Called for envelopes in the order in which they come, for several at once; keeps what order there has to be."""


async def listen(open_socket: Open, take: Take, clock: Clock) -> None:
    """Take envelopes in for ever, over a new connection whenever one ends or Slack asks for another.

    When Slack asks, the old connection is read until Slack closes it: what is under way on it would come a minute
    later. Ends only where no connection can be opened at all.
    """
    leaving: set[asyncio.Task[None]] = set()
    failures = 0
    try:
        while True:
            began, replaced = clock.now(), asyncio.Event()
            reading = asyncio.create_task(_read(open_socket, take, replaced))
            leaving.add(reading)
            reading.add_done_callback(leaving.discard)
            reading.add_done_callback(_seen)
            if not await _replaced_first(reading, replaced) and not _goes_on(reading):
                return
            steady = (clock.now() - began).total_seconds() >= STEADY_AFTER_S
            failures = 0 if steady else failures + 1
            await asyncio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
    finally:
        for reading in leaving:
            reading.cancel()


def _seen(ended: asyncio.Task[None]) -> None:
    """How a connection ends that another has replaced is nobody's concern."""
    if not ended.cancelled():
        ended.exception()


async def _replaced_first(reading: asyncio.Task[None], replaced: asyncio.Event) -> bool:
    """Whether Slack asks for a new connection before this one ends."""
    asked = asyncio.create_task(replaced.wait())
    try:
        await asyncio.wait({reading, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
    return replaced.is_set()


def _goes_on(ended: asyncio.Task[None]) -> bool:
    error = ended.exception()
    if isinstance(error, ConfigError):
        log.error("Nothing comes in from Slack: %s", error, extra={"action": "socket_refused"})
        return False
    if error is not None and not isinstance(error, OSError | EOFError):
        raise error
    log.info("The socket to Slack has ended (%r); it is opened again.", error, extra={"action": "socket_ended"})
    return True


async def _read(open_socket: Open, take: Take, replaced: asyncio.Event) -> None:
    """Read a connection to its end. What is slow to be stored keeps nothing else waiting."""
    answering: set[asyncio.Task[None]] = set()
    room = asyncio.Semaphore(AT_ONCE)
    try:
        async with open_socket() as socket:
            async for text in socket:
                envelope = _parsed(text)
                kind = as_text(envelope.get("type"))
                if kind == "hello":
                    log.info("Slack is connected.", extra={"action": "socket_open"})
                elif kind == "disconnect" and envelope.get("reason") == "link_disabled":
                    raise ConfigError(SWITCHED_OFF)
                elif kind == "disconnect":
                    replaced.set()
                elif as_text(envelope.get("envelope_id")):
                    await room.acquire()
                    task = asyncio.create_task(_answer(socket, take, envelope))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
                    task.add_done_callback(lambda _: room.release())
    finally:
        for task in answering:
            task.cancel()


async def _answer(socket: Socket, take: Take, envelope: Mapping[str, Any]) -> None:
    """Acknowledge an envelope once what it brings cannot be lost; Slack delivers it again where that fails."""
    number = as_text(envelope.get("envelope_id"))
    acknowledged: dict[str, Any] = {"envelope_id": number}
    try:
        if as_text(envelope.get("type")) in TAKEN:
            heard = await take(as_dict(envelope.get("payload")))
            if not heard.taken:
                return
            if heard.body:
                acknowledged["payload"] = dict(heard.body)
        await socket.send(json.dumps(acknowledged))
    except ConnectionError:
        log.info("The socket to Slack ended before envelope %s was acknowledged.", number)
    except Exception:
        log.exception("Envelope %s could not be taken in.", number, extra={"action": "accept_failed"})


def _parsed(text: str | bytes) -> Mapping[str, Any]:
    try:
        return as_dict(wire_safe(json.loads(text)))
    except (ValueError, RecursionError):
        log.warning("Slack sent what is not JSON over the socket; it is left aside.")
        return {}
