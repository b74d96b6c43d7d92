"""Verbs of `moab` as somebody types them, against the real API of a house on a real port."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvicorn
from fastapi import APIRouter, FastAPI
from typer.testing import CliRunner, Result

from app.cli.moab import app as moab_app
from app.web.api import explain_errors
from tests.unit.house import House

Moab = Callable[..., Awaitable[Result]]


@contextlib.asynccontextmanager
async def listening(router: APIRouter) -> AsyncIterator[str]:
    """A part of the API on a free port of loopback."""
    app = FastAPI()
    explain_errors(app)
    app.include_router(router)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await serving
    listener.close()


@contextlib.asynccontextmanager
async def typing(house: House, monkeypatch: pytest.MonkeyPatch, router: APIRouter) -> AsyncIterator[Moab]:
    """Runs `moab` with these words, with the house as the running service."""
    home = house.harness.settings.home
    monkeypatch.setenv("MOAB_HOME", str(home))
    async with listening(router) as url:
        (home / "service.json").write_text(json.dumps({"url": url, "pid": 1}))

        async def run(*arguments: str) -> Result:
            return await asyncio.to_thread(CliRunner().invoke, moab_app, list(arguments))

        yield run
