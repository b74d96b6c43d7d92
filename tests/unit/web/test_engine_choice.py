"""The engine is chosen in one place; with a Dev Server the same functions answer on the public SDK route."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from app.clock import SystemClock
from app.config import Settings
from app.engines import EmbeddedLink, InngestLink, link_engine
from app.errors import ConfigError
from app.main import running
from tests.fakes.inngest_server import InngestServer

FUNCTIONS = {"handle-message", "send-reply", "acknowledge", "failure-handler", "heartbeat", "sub-agent"}


def settings(home: Path, **given: Any) -> Settings:
    return Settings(_env_file=None, moab_home=home, agent_model="openai/fake", **given)


def test_without_anything_the_engine_is_embedded(tmp_path: Path) -> None:
    assert isinstance(link_engine(settings(tmp_path), SystemClock()), EmbeddedLink)


def test_a_dev_server_wins_over_keys(tmp_path: Path) -> None:
    chosen = settings(
        tmp_path, inngest_dev="http://127.0.0.1:8288", inngest_event_key="e", inngest_signing_key="signkey-test-aa"
    )
    link = link_engine(chosen, SystemClock())
    assert isinstance(link, InngestLink)
    assert link.name == "inngest dev server"


def test_keys_choose_inngest_and_one_key_alone_is_refused(tmp_path: Path) -> None:
    both = settings(tmp_path, inngest_event_key="e", inngest_signing_key="signkey-test-aa")
    assert link_engine(both, SystemClock()).name == "inngest"
    with pytest.raises(ConfigError, match="INNGEST_EVENT_KEY and INNGEST_SIGNING_KEY"):
        link_engine(settings(tmp_path, inngest_event_key="e"), SystemClock())


def test_a_dev_server_address_of_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="INNGEST_DEV"):
        link_engine(settings(tmp_path, inngest_dev="1"), SystemClock())


async def test_the_functions_register_with_a_dev_server_and_answer_its_calls(tmp_path: Path) -> None:
    async with InngestServer() as server, httpx.AsyncClient(timeout=20) as client:
        async with running(settings(tmp_path, inngest_dev=server.url), port=0) as service:
            [registered] = await server.wait_for("register")
            configured = {f["id"].removeprefix("moab-"): f for f in registered.params["functions"]}
            assert set(configured) == FUNCTIONS
            assert configured["handle-message"]["singleton"]["mode"] == "cancel"

            posted = await client.post(f"{service.url}/api/messages", json={"message": "hello"})
            assert posted.status_code == 202
            [event] = await server.wait_for("event")
            assert event.params["name"] == "agent.message.received"

            called = await client.post(
                f"{service.url}/api/inngest",
                params={"fnId": "moab-handle-message", "stepId": "step"},
                json=first_call(event.params),
                headers={"x-inngest-server-kind": "dev"},
            )
            assert called.status_code == 206
            [step] = called.json()
            assert (step["op"], step["name"]) == ("StepRun", "receive")
            assert step["data"]["session_key"] == "http:default"


async def test_in_embedded_mode_there_is_no_public_sdk_route(tmp_path: Path) -> None:
    async with running(settings(tmp_path), port=0) as service, httpx.AsyncClient() as client:
        for method in ("GET", "PUT", "POST"):
            answer = await client.request(method, f"{service.url}/api/inngest")
            assert answer.status_code == 404


def first_call(event: dict[str, Any]) -> dict[str, Any]:
    """The first call of a run, as recorded from a real server."""
    return {
        "ctx": {
            "attempt": 0,
            "disable_immediate_execution": False,
            "env": "",
            "fn_id": "f",
            "max_attempts": 9,
            "run_id": "01M8PND779F9V52A28K7D9TNAV",
            "stack": {"current": 0, "stack": []},
            "step_id": "step",
            "use_api": False,
        },
        "event": event,
        "events": [event],
        "steps": {},
        "use_api": False,
        "version": -1,
    }
