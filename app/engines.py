"""The choice of the engine, in one place: a Dev Server, Inngest, or our own in this process. No function knows."""

import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx
import inngest
import inngest.fast_api
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.agent.harness import APP_ID, Harness
from app.clock import Clock
from app.config import Settings
from app.engine.engine import CALL_PATH, SYNC_PATH, Engine
from app.engine.signing import new_signing_key
from app.errors import ConfigError
from app.files import write_atomic
from app.web.api import Runs
from app.web.desk import Desk
from app.web.runs import EmbeddedRuns, RemoteRuns

log = logging.getLogger("moab")

MakeFunctions = Callable[[inngest.Inngest, Harness], list[inngest.Function[Any]]]


class EngineLink(Protocol):
    """The engine at hand, from the service's side; also the EventSender. Used by the composition root alone."""

    name: str
    runs: Runs
    desk: Desk | None
    """The embedded engine, for the dashboard; None when runs are kept `elsewhere`."""
    elsewhere: str

    async def send(self, events: Sequence[Mapping[str, Any]]) -> None: ...
    def mount(self, app: FastAPI, harness: Harness, make_functions: MakeFunctions) -> None: ...
    async def start(self) -> None: ...
    async def sync(self, url: str) -> None:
        """Register the functions; the service listens on `url` already."""
        ...

    async def stop(self) -> None: ...


def link_engine(settings: Settings, clock: Clock) -> EngineLink:
    """INNGEST_DEV set: that Dev Server; INNGEST keys set: Inngest; else embedded."""
    if settings.inngest_dev:
        return InngestLink(settings)
    if settings.inngest_event_key or settings.inngest_signing_key:
        if not (settings.inngest_event_key and settings.inngest_signing_key):
            raise ConfigError("INNGEST_EVENT_KEY and INNGEST_SIGNING_KEY belong together: set both or none.")
        return InngestLink(settings)
    return EmbeddedLink(settings, clock)


class EmbeddedLink:
    """Our own engine, in this process; the SDK's route sits on a private app that no socket reaches."""

    name = "embedded"
    elsewhere = ""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        keys = _keys(settings.home / "keys.json")
        self.engine = Engine(settings.home / "engine.db", clock, keys["event_key"], keys["signing_key"])
        embedded = EmbeddedRuns(self.engine)
        self.runs: Runs = embedded
        self.desk: Desk | None = embedded
        self._private: ASGIApp = FastAPI(openapi_url=None)
        self._signing_key = new_signing_key()

    async def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        await self.engine.send(events)

    def mount(self, app: FastAPI, harness: Harness, make_functions: MakeFunctions) -> None:
        caller = inngest.Inngest(app_id=APP_ID, is_production=False, event_key="embedded")
        syncer = inngest.Inngest(app_id=APP_ID, is_production=True, event_key="embedded", signing_key=self._signing_key)
        functions = make_functions(caller, harness)
        routes = FastAPI(openapi_url=None)
        inngest.fast_api.serve(routes, caller, functions, serve_path=CALL_PATH)
        inngest.fast_api.serve(routes, syncer, functions, serve_path=SYNC_PATH)
        self._private = _handlers_of(routes)
        missing_page = app.exception_handlers.get(404)
        if missing_page is not None:
            self.engine.api.add_exception_handler(404, missing_page)
        app.mount("/", self.engine.api)

    async def start(self) -> None:
        await self.engine.start()

    async def sync(self, url: str) -> None:
        await self.engine.attach(self._private, signing_key=self._signing_key)

    async def stop(self) -> None:
        await self.engine.stop()


def _handlers_of(routes: FastAPI) -> ASGIApp:
    """The handlers that the SDK put on `routes`, called without the middleware, routing and parameters of a web app:
    those cost more than half a millisecond a call, and here every step is a call."""
    handlers = {(one.path, method): one.endpoint for one in routes.routes if isinstance(one, APIRoute)
                for method in one.methods or ()}  # fmt: skip

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handlers[scope["path"], scope["method"]](Request(scope, receive))
        await response(scope, receive, send)

    return call


class InngestLink:
    """A Dev Server or Inngest itself; the SDK's route is on the public app, signed unless it is a Dev Server."""

    def __init__(self, settings: Settings) -> None:
        self._dev = bool(settings.inngest_dev)
        self._origin = settings.inngest_serve_origin
        self.name = "inngest dev server" if self._dev else "inngest"
        self.runs: Runs = RemoteRuns()
        self.desk: Desk | None = None
        base = settings.inngest_dev if self._dev else settings.inngest_base_url or None
        if self._dev and not str(base).startswith("http"):
            raise ConfigError("INNGEST_DEV: accepted is the address of a Dev Server, such as http://127.0.0.1:8288.")
        self.elsewhere = str(base or "the dashboard of Inngest Cloud")
        self._client = inngest.Inngest(
            app_id=APP_ID,
            is_production=not self._dev,
            api_base_url=base,
            event_api_base_url=base,
            event_key=_value(settings.inngest_event_key),
            signing_key=_value(settings.inngest_signing_key),
        )

    async def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        await self._client.send([_event(e) for e in events])

    def mount(self, app: FastAPI, harness: Harness, make_functions: MakeFunctions) -> None:
        inngest.fast_api.serve(
            app,
            self._client,
            make_functions(self._client, harness),
            enable_unauthed_sync=None if self._dev else False,
            serve_origin=self._origin or None,
        )

    async def start(self) -> None:
        return None

    async def sync(self, url: str) -> None:
        if not self._dev:
            log.info("Sync the app in Inngest's dashboard: its address is %s/api/inngest.", self._origin or url)
            return
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.put(f"{url}/api/inngest")
        if answer.is_error:
            raise ConfigError(f"The Dev Server at INNGEST_DEV did not take the functions: {answer.text[:300]}")

    async def stop(self) -> None:
        return None


def _event(wire: Mapping[str, Any]) -> inngest.Event:
    return inngest.Event(name=wire["name"], data=wire["data"], id=wire.get("id", ""), ts=wire.get("ts", 0))


def _value(secret: Any) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def _keys(path: Path) -> dict[str, str]:
    """The engine's keys of this home, made on the first start; the file is its owner's alone."""
    if path.exists():
        return dict(json.loads(path.read_text("utf-8")))
    keys = {"event_key": secrets.token_urlsafe(24), "signing_key": new_signing_key()}
    write_atomic(path, json.dumps(keys))
    path.chmod(0o600)
    return keys
