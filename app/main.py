"""The composition root: the one place where parts are wired, and the service's life from start to stop."""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import uvicorn
from fastapi import FastAPI
from filelock import FileLock, Timeout

from app import failpoints
from app.agent.accept import accept
from app.agent.approvals.policy import unknown_tools
from app.agent.goals.dispatch import resume_goals
from app.agent.harness import Harness
from app.agent.heartbeat.sweep import send_unsent
from app.agent.models.llm import LiteLLM
from app.agent.people.gate import invite_first
from app.channels import outbox
from app.clock import Clock, SystemClock
from app.config import LOCAL_MODEL, Settings, child_environment
from app.db import Database
from app.engines import EngineLink, link_engine
from app.errors import ConfigError, MoabError
from app.events import CommandReceived, MessageReceived
from app.files import make_private, write_atomic
from app.ids import new_id
from app.local_model import LocalModel
from app.log import set_up_logging
from app.memory.daily_log import DailyLog
from app.memory.workspace import Workspace
from app.migrate import migrate
from app.notify import Notifier
from app.platforms import Platform, channels_of, listen, names, open_platforms
from app.sessions import calls
from app.speech import speech_of
from app.web.api import LOOPBACK, Guard, api_router, explain_errors
from app.web.dashboard import add_dashboard
from app.web.deliveries import deliveries_router
from app.web.feed import wait_for_answer
from app.web.goals import goals_router
from app.web.people import people_router
from app.web.tasks import tasks_router
from app.work.library import Library
from functions import all_functions
from tools.background import end_background
from tools.background_watch import Commands
from tools.hiding import hiding
from tools.outside import FILE as TOOLS_FILE
from tools.outside import outside_tools
from tools.sandbox import make_sandbox
from tools.toolbox import make_toolbox
from webhooks.way_in import Door, WayIn

log = logging.getLogger("moab")

STOP_WITHIN_S = 10


@dataclass(frozen=True)
class Service:
    """A running service: where it listens, and its parts for those who test it."""

    url: str
    harness: Harness
    engine: EngineLink


@contextlib.asynccontextmanager
async def running(
    settings: Settings, port: int | None = None, clock: Clock | None = None, *, warm: bool = False
) -> AsyncIterator[Service]:
    """A whole service for the length of the block: database, engine, HTTP on `port` (0: any free one).

    `warm` makes the model client ready at once, for a person who is about to type; else the first message does.
    Raises ConfigError (settings, port in use) and EngineLocked (another process has this MOAB_HOME).
    """
    set_up_logging(settings.log_level, known_secrets=settings.secrets())
    _look_at_model(settings)
    async with contextlib.AsyncExitStack() as stack:
        # First of all: whose home is in use would only be sent to another port, to find the same home in use.
        stack.enter_context(_home_lock(settings))
        listener = _listen(settings, settings.port if port is None else port)
        stack.callback(listener.close)
        url = f"http://{_shown_host(settings.host)}:{listener.getsockname()[1]}"
        local = LocalModel()
        stack.push_async_callback(local.stop)
        platforms = open_platforms(settings)
        harness, engine = await _build(settings, clock or SystemClock(), local, platforms, stack)
        ways = _ways_in(harness, platforms)
        app = _web(harness, engine, [way for _, way in ways])
        engine.mount(app, harness, all_functions)
        server = _Server(_server_config(app))
        await engine.start()
        stack.push_async_callback(engine.stop)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        stack.push_async_callback(_shut, server, serving, harness.notifier)
        await engine.sync(url)
        await send_unsent(harness)
        await resume_goals(harness)
        await invite_first(harness)
        for name, way in ways:
            if way.listen is not None:
                stack.push_async_callback(_end, asyncio.create_task(listen(name, way.listen)))
        note = settings.home / "service.json"
        write_atomic(note, json.dumps({"url": url, "pid": os.getpid()}))
        note.chmod(0o600)
        stack.callback(note.unlink, missing_ok=True)
        if warm:
            stack.push_async_callback(_end, asyncio.create_task(_warm(harness, local)))
        yield Service(url, harness, engine)


def _look_at_model(settings: Settings) -> None:
    """Warn of what would fail at the first message. `moab model` looks closer: that takes seconds."""
    if settings.missing_key:
        log.warning("%s cannot be asked: %s is not set.", settings.model, settings.missing_key)
    elif "/" not in settings.model:
        log.warning("%s names no provider (openai/gpt-5.4 would); `moab model` says if it is known.", settings.model)


def _server_config(app: FastAPI) -> uvicorn.Config:
    """No WebSockets come in: their library is not even loaded."""
    return uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=STOP_WITHIN_S, lifespan="off", ws="none")


async def _warm(harness: Harness, local: LocalModel) -> None:
    """Import the model client, and start the local model if it is the one that answers; a failure shows at the turn."""
    with contextlib.suppress(MoabError):
        if harness.settings.is_local_model:
            await local.start()
        await harness.llm.warm()


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


def serve(settings: Settings) -> None:
    """Run the service until SIGINT or SIGTERM."""
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(settings) as service:
        log.info("Moab %s listens on %s; %s answers.", service.harness.code_version, service.url, settings.model)
        await stop.wait()
        log.info("Stopping: calls in flight get %d seconds.", STOP_WITHIN_S)


async def _build(
    settings: Settings, clock: Clock, local: LocalModel, platforms: list[Platform], stack: contextlib.AsyncExitStack
) -> tuple[Harness, EngineLink]:
    failpoints.arm(settings.failpoint)
    engine = link_engine(settings, clock)
    database = Database(settings.database)
    stack.push_async_callback(database.close)
    await migrate(database)
    workspace = Workspace(settings.workspace)
    await asyncio.to_thread(workspace.seed)
    sandbox = await asyncio.to_thread(
        make_sandbox,
        settings.sandbox,
        child_environment(),
        workspace.root,
        network=settings.sandbox_network,
        readable=settings.sandbox_read,
    )
    stack.push_async_callback(_end_all_background, workspace)
    channels = channels_of(platforms)
    for channel in channels.values():
        stack.push_async_callback(channel.close)
    speech = speech_of(settings)
    stack.push_async_callback(speech.close)
    home_id = hashlib.sha256(str(settings.home).encode()).hexdigest()[:12]
    harness = Harness(
        settings=settings,
        clock=clock,
        db=database,
        sender=engine,
        channels=channels,
        llm=LiteLLM(
            timeout_s=settings.model_timeout_s,
            api_base=settings.agent_api_base,
            api_base_for=settings.model,
            local_name=LOCAL_MODEL,
            local=local,
            seeing=settings.vision_models,
        ),
        toolbox=make_toolbox(
            environment=child_environment(),
            secrets=settings.secrets(),
            sandbox=sandbox,
            own=outside_tools(settings.home / TOOLS_FILE),
        ),
        workspace=workspace,
        library=Library(workspace.root),
        daily_log=DailyLog(workspace.logs, ZoneInfo(settings.timezone), clock),
        boot_id=f"{home_id}:{new_id(clock)}",
        code_version=importlib.metadata.version("moab"),
        platforms=names(),
        speech=speech,
        commands=Commands(hiding(settings.secrets())),
    )
    await _close_dead_rows(harness, home_id)
    if unknown := unknown_tools(settings.tool_policy, harness.toolbox.tools):
        log.warning("TOOL_POLICY names what is no tool: %s. These rules do nothing.", ", ".join(unknown))
    return harness, engine


async def _end_all_background(workspace: Workspace) -> None:
    for principal in await asyncio.to_thread(workspace.principals):
        await end_background(workspace.of(principal).root)
    await end_background(workspace.root)


def _home_lock(settings: Settings) -> FileLock:
    """One process per home: rows of earlier boots are closed at start, which is wrong while their owner lives."""
    _close_to_others(settings.home)
    lock = FileLock(settings.home / "moab.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise ConfigError(f"Another Moab runs on {settings.home}; stop it, or set another MOAB_HOME.") from error
    return lock


def _close_to_others(home: Path) -> None:
    """Everything that was ever said lies there: other users of the machine are kept out."""
    try:
        if make_private(home):
            log.warning("Other users of this machine could read %s; it is yours alone now (mode 700).", home)
    except PermissionError:
        log.warning("Other users of this machine may read %s, and it is not yours to close.", home)


async def _close_dead_rows(harness: Harness, home_id: str) -> None:
    """What an earlier process of this home left half-done is closed before anything goes on."""
    now = harness.clock.now()
    closed = await harness.db.write(calls.close_dead, home_id, harness.boot_id, now)
    unknown = await harness.db.write(outbox.close_dead, home_id, harness.boot_id, now)
    if closed or unknown:
        log.warning(
            "The last process ended in mid-work: %d tool calls and %d deliveries may or may not have happened.",
            closed,
            unknown,
        )


def _ways_in(harness: Harness, platforms: list[Platform]) -> list[tuple[str, WayIn]]:
    async def take(event: MessageReceived | CommandReceived) -> bool:
        return await accept(harness, event)

    async def wait(event: MessageReceived | CommandReceived, seconds: float) -> dict[str, object]:
        return await wait_for_answer(harness, event, seconds)

    def open_door(platform: Platform) -> WayIn:
        channel = platform.channels[-1]
        new_key: Callable[[], str] = lambda: new_id(harness.clock)  # noqa: E731 - a name for the reader
        return platform.way_in(Door(harness.settings, harness.clock, channel, take, wait, new_key))

    return [(platform.name, open_door(platform)) for platform in platforms]


def _web(harness: Harness, engine: EngineLink, ways: list[WayIn]) -> FastAPI:
    settings = harness.settings
    app = FastAPI(title="Moab", docs_url=None, redoc_url=None, openapi_url=None)
    token = settings.api_token.get_secret_value() if settings.api_token else None
    signed = settings.inngest_signing_key is not None and not settings.inngest_dev
    app.add_middleware(Guard, token=token, loopback=settings.host in LOOPBACK, sdk_signed=signed)
    explain_errors(app)
    for way in ways:
        if way.router is not None:
            app.include_router(way.router)
    app.include_router(api_router(harness, engine.runs, engine.name))
    app.include_router(tasks_router(harness))
    app.include_router(people_router(harness, engine.runs))
    app.include_router(deliveries_router(harness))
    app.include_router(goals_router(harness))
    add_dashboard(app, harness, engine.desk, elsewhere=engine.elsewhere, loopback=settings.host in LOOPBACK)
    return app


def _listen(settings: Settings, port: int) -> socket.socket:
    if settings.host not in LOOPBACK and settings.api_token is None:
        raise ConfigError(f"MOAB_HOST {settings.host} is not loopback: set MOAB_API_TOKEN, which callers must send.")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Without the protocol's name asyncio does not switch Nagle's delay off, and every answer comes 40 ms late.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # asyncio does this for sockets it makes itself; without it what is written in pieces waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((settings.host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {settings.host} port {port}: {error.strerror}. Choose another MOAB_PORT."
        ) from error
    listener.setblocking(False)
    return listener


def _shown_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


class _Server(uvicorn.Server):
    """A server whose signals are somebody else's: `serve` and the chat each have their own way to stop."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # the base class leaves it untyped
        yield


async def _shut(server: uvicorn.Server, serving: "asyncio.Task[None]", notifier: Notifier) -> None:
    notifier.close()
    server.should_exit = True
    await serving
