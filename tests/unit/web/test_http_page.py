"""docs/http.md: every route of the API is on it, and none that is not; what it says of `generic` opens the door."""

import hashlib
import hmac
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app import main
from app.clock import ManualClock
from app.config import Settings
from tests.unit.core.rules import ROOT
from webhooks.generic import verify

PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[FastAPI]:
    """The apps that a service is built with from now on."""
    apps: list[FastAPI] = []
    web: Callable[..., FastAPI] = main._web

    def note(*parts: Any) -> FastAPI:
        apps.append(web(*parts))
        return apps[-1]

    monkeypatch.setattr(main, "_web", note)
    return apps


async def test_every_route_is_on_the_page(built: list[FastAPI], tmp_path: Path) -> None:
    settings = Settings(_env_file=None, moab_home=tmp_path, agent_model="openai/fake")
    async with main.running(settings, port=0) as service, httpx.AsyncClient(base_url=service.url) as http:
        refused = await http.get("/api/messages")
    (app,) = built
    served = {
        f"{method.upper()} {path}"
        for path, methods in app.openapi()["paths"].items()
        for method in methods
        if path.startswith(("/api/", "/health"))
    }
    assert set(re.findall(r"^\| `(\w+ /[^`]*)` \|", PAGE, re.MULTILINE)) == served
    assert refused.status_code == 405 and refused.headers["allow"] == "POST"
    assert "GET /api/sessions/KEY/messages" in refused.json()["error"]


def test_the_signature_on_the_page_is_the_one_that_opens() -> None:
    clock, secret, body = ManualClock(), "s" * 32, b'{"id": "1"}'
    code = PAGE.partition("```python\n")[2].partition("```")[0].replace("time.time()", "now")
    found: dict[str, Any] = {"hmac": hmac, "hashlib": hashlib, "secret": secret, "body": body}
    exec(code, found | {"now": clock.now().timestamp()}, found)  # noqa: S102 - it is our own page
    assert verify(found["headers"], body, secret, clock.now())
