"""A whole service in this process with a scripted model, for the tests that look at its pages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.config import Settings
from app.main import Service, running
from tests.fakes.model_server import ModelServer

MODEL_KEY = "sk-dashboard-model-key"
WITHIN_S = 20.0


@dataclass(frozen=True)
class Served:
    """The running service, its model, and a client that sends what a browser would."""

    service: Service
    model: ModelServer
    http: httpx.AsyncClient

    @property
    def url(self) -> str:
        return self.service.url

    async def say(self, text: str, session: str = "http:default", wait: float = WITHIN_S) -> dict[str, Any]:
        """Say something by the API and wait for the answer."""
        answer = await self.http.post(
            "/api/messages", json={"message": text, "sessionKey": session}, params={"wait": wait}, timeout=WITHIN_S * 2
        )
        return dict(answer.raise_for_status().json())

    async def ended(self, count: int, **query: str) -> list[dict[str, Any]]:
        """The newest runs as soon as `count` of those that fit are there and all have ended."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                found = (await self.http.get("/api/runs", params=query)).json()["runs"]
                if len(found) >= count and all(run["endedAt"] for run in found):
                    return list(found)
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def serving(
    home: Path, *script: Mapping[str, Any], headers: Mapping[str, str] = {}, **settings: Any
) -> AsyncIterator[Served]:
    """A service in `home`; `script` are the model's answers, `settings` change the defaults."""
    model = ModelServer()
    model.script(*script)
    model.start()
    values: dict[str, Any] = {"moab_home": home, "agent_model": "openai/fake", "agent_api_base": model.api_base}
    values |= {"heartbeat_cron": "*/30 * * * *", "quiet_hours": "off"}
    try:
        async with running(Settings(_env_file=None, **values | settings), port=0) as service:
            async with httpx.AsyncClient(base_url=service.url, trust_env=False, headers=dict(headers)) as client:
                yield Served(service, model, client)
    finally:
        model.stop()
