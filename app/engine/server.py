"""The engine alone, as a development server: listens, lets apps of this machine register, looks for those it is told.

In the place of Inngest's Dev Server: an app with `INNGEST_DEV=http://127.0.0.1:8288` works with it unchanged.
"""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn

from app.engine.clock import Clock
from app.engine.engine import Engine
from app.engine.errors import AddressTaken, EngineError

log = logging.getLogger("moab.engine")
PORT = 8288
#: What the SDK sends events with in development mode; others are taken as well.
_EVENT_KEY = "dev"
_LOOK_EVERY_S = 5.0
_GRACE_S = 10.0


async def serve(
    path: Path, clock: Clock, host: str = "127.0.0.1", port: int = PORT, apps: Sequence[str] = (),
    stop: asyncio.Event | None = None,
) -> None:  # fmt: skip
    """Serve until SIGINT or SIGTERM (or `stop`). `apps` are addresses where SDKs are served: each is asked to
    register as soon as it answers, and from time to time again, so that its changes arrive.

    Raises AddressTaken, EngineLocked, StoreFailed.
    """
    engine = Engine(path, clock, _EVENT_KEY, dev=True)
    listener = _listen(host, port)
    stop = stop or _told_to_stop()
    server = _Server(uvicorn.Config(engine.api, log_config=None, lifespan="off", proxy_headers=False))
    try:
        await engine.start()
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        looking = asyncio.create_task(_look_for(engine, clock, apps))
        log.info("The engine listens on http://%s:%d.", host, listener.getsockname()[1])
        await stop.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        # Calls in flight finish first: they may still send events here.
        await engine.stop(_GRACE_S)
        server.should_exit = True
        await serving
    finally:
        listener.close()
        await engine.stop(0)


class _Server(uvicorn.Server):
    """A server that leaves the signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "a port is a number from 0 to 65535"
        other = "--port" if isinstance(error, OverflowError) or error.errno == errno.EADDRINUSE else "--host or --port"
        raise AddressTaken(f"Cannot listen on {host}:{port}: {reason}. Choose another {other}.") from None
    return listener


def _told_to_stop() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _look_for(engine: Engine, clock: Clock, apps: Sequence[str]) -> None:
    """Ask every app to register; a sentence when one appears or goes, not at every look."""
    seen: dict[str, str] = {}
    while apps:
        for url in apps:
            try:
                await engine.connect(url)
                found = "is there"
            except EngineError as error:
                found = str(error)
            if seen.get(url) != found:
                log.info("App at %s: %s.", url, found.rstrip("."))
            seen[url] = found
        await clock.sleep(_LOOK_EVERY_S)
