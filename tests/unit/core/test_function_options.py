"""The six functions as they register: what starts them, how often they are tried, who cancels whom."""

import time
from collections.abc import Mapping
from typing import Any

import fastapi
import inngest
import inngest.fast_api
import pytest

from app.engine import sync
from app.engine.signing import new_signing_key
from functions import all_functions
from functions.handle_message import STOPS
from tests.unit.core.rules import ROOT
from tests.unit.house import House, make_house

STEERING = "event.data.steers == false ? false : event.data.sessionKey"


async def registered(house: House) -> dict[str, Mapping[str, Any]]:
    """The configurations by id, as an engine is told them."""
    key = new_signing_key()
    client = inngest.Inngest(app_id="moab", is_production=True, event_key="e", signing_key=key)
    app = fastapi.FastAPI()
    inngest.fast_api.serve(app, client, all_functions(client, house.harness), serve_path="/sync")
    registration = await sync.in_band(app, "/sync", key, int(time.time()))
    return {one["id"].removeprefix("moab-"): one for one in registration.functions}


@pytest.fixture
async def functions(house: House) -> dict[str, Mapping[str, Any]]:
    return await registered(house)


def started_by(function: Mapping[str, Any]) -> list[str]:
    return [trigger.get("event") or trigger["cron"] for trigger in function["triggers"]]


async def test_there_are_six_named_as_their_files(functions: dict[str, Mapping[str, Any]]) -> None:
    files = {path.stem.replace("_", "-") for path in (ROOT / "functions").glob("*.py")} - {"--init--"}
    assert set(functions) == files and len(files) == 6
    assert all(one["name"] == name for name, one in functions.items())


async def test_what_starts_them(functions: dict[str, Mapping[str, Any]]) -> None:
    assert {name: started_by(one) for name, one in functions.items()} == {
        "handle-message": ["agent.message.received"],
        "acknowledge": ["agent.message.received", "agent.command.received"],
        "send-reply": ["agent.reply.ready"],
        "failure-handler": ["inngest/function.failed"],
        "heartbeat": [
            "TZ=UTC */30 * * * *",
            "agent.beat.due",
            "agent.wake.due",
            "agent.turn.ended",
            "agent.work.step.done",
        ],
        "sub-agent": ["agent.subagent.spawn"],
    }


async def test_each_is_tried_nine_times(functions: dict[str, Mapping[str, Any]]) -> None:
    assert {one["steps"]["step"]["retries"]["attempts"] for one in functions.values()} == {8}


async def test_only_a_person_steers(functions: dict[str, Mapping[str, Any]]) -> None:
    singletons = {name: one["singleton"] for name, one in functions.items() if "singleton" in one}
    assert singletons == {
        "handle-message": {"key": STEERING, "mode": "cancel"},
        "heartbeat": {
            "key": "event.name == 'inngest/scheduled.timer' || event.name == 'agent.beat.due' ? event.name : false",
            "mode": "skip",
        },
    }


# TRAPS, Life and death: "A cancel event without a match cancels every run".
async def test_every_cancellation_has_a_match(functions: dict[str, Mapping[str, Any]]) -> None:
    """A cancel event without one would cancel every run."""
    assert {name: one["cancel"] for name, one in functions.items() if "cancel" in one} == {
        "handle-message": [{"event": "agent.turn.stopped", "if": STOPS}],
        "sub-agent": [{"event": "agent.task.cancelled", "if": "event.data.taskId == async.data.taskId"}],
    }


async def test_the_failure_handler_does_not_hear_of_itself(functions: dict[str, Mapping[str, Any]]) -> None:
    (trigger,) = functions["failure-handler"]["triggers"]
    assert trigger["expression"] == "event.data.function_id != 'moab-failure-handler'"


async def test_no_other_policy_is_asked_for(functions: dict[str, Mapping[str, Any]]) -> None:
    known = {"id", "name", "steps", "triggers", "singleton", "cancel"}
    assert {key for one in functions.values() for key in one} <= known


async def test_the_beat_follows_the_settings(tmp_path: Any, template: Any, clean_environment: None) -> None:
    house = make_house(tmp_path / "h", template, heartbeat_cron="5 4 * * *", timezone="Europe/Paris")
    heartbeat = (await registered(house))["heartbeat"]
    assert started_by(heartbeat)[0] == "TZ=Europe/Paris 5 4 * * *"
    await house.db.close()
