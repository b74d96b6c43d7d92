"""How runs leave off: what they wait for is recorded with the turn, and so is one paragraph of what they were about."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.agent.act import act
from app.agent.failure import tell_failure
from app.agent.finish import finish
from app.agent.flow import Flow
from app.agent.models.llm import ModelFailure, Trouble
from app.agent.think import think
from app.agent.tool import Toolbox
from app.cli.runs_text import run_page, runs_table
from app.sessions import tasks, turns
from app.tables import turns as turn_rows
from app.web.api import api_router
from app.web.records import turn_notes
from tests.unit.house import RUN, SESSION, House, ask, begin, make_house, run_id, sample_tools, wishes
from tools.ask import ask_user
from tools.wakes import schedule_wake


@pytest.fixture
async def home(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "home", template, tool_policy="*=allow,push=ask")
    tools = Toolbox.of(schedule_wake, ask_user, *sample_tools(built.log).tools.values())
    built = replace(built, harness=replace(built.harness, toolbox=tools))
    yield built
    await built.db.close()


def left(house: House, run: str = RUN) -> tuple[str | None, str | None]:
    with house.tx() as tx:
        return turns.outcomes(tx, [run])[run]


async def call(house: House, flow: Flow, name: str, number: int = 0, **given: Any) -> None:
    house.model.answers = [wishes((name, given))]
    await think(house.harness, flow, ask(number))
    await act(house.harness, flow, {"key": f"tool#{number}.0", "name": name, "durable": name == "ask_user"})


async def say(house: House, flow: Flow, text: str, number: int = 9, state: str = "finished") -> None:
    house.model.answers = [text]
    thought = await think(house.harness, flow, ask(number))
    request = {"key": f"finish#{number}", "state": state, "text": text, "head": thought["head"]}
    await finish(house.harness, flow, request if state == "finished" else request | {"head": None})


async def test_done_says_what_was_asked_called_and_answered(home: House) -> None:
    flow = await begin(home, "what is\n here? " + "x" * 300)
    assert left(home) == (None, None)
    await call(home, flow, "look", 0)
    await call(home, flow, "look", 1, at="there")
    await call(home, flow, "note", 2, text="a")
    await say(home, flow, "Two things. " + "y" * 400)
    outcome, summary = left(home)
    assert outcome == "done" and summary is not None and "\n" not in summary
    assert summary.startswith('Asked: "what is here? xxx') and "Called: look (2 times), note." in summary
    assert 'Answered: "Two things. yyy' in summary and len(summary) < 620


async def test_a_wake_of_its_own_is_a_reschedule_and_other_open_work_is_sleep(home: House) -> None:
    flow = await begin(home)
    await call(home, flow, "schedule_wake", after="2h", reason="look again")
    await say(home, flow, "I will look again.")
    outcome, summary = left(home)
    assert outcome == "reschedule" and "It comes back at 2026-01-05 14:00: look again" in str(summary)
    await say(home, await begin(home, "and?", "k2", run_id(2)), "Not yet.")
    outcome, summary = left(home, run_id(2))
    assert outcome == "sleep" and "It is woken by: w" in str(summary)


async def test_a_task_in_the_background_is_sleep(home: House) -> None:
    flow = await begin(home)
    with home.tx() as tx:
        tasks.add(
            tx, "t1", session_id=flow.session_id, run_id=RUN, step_key="tool#0.0", mode="background", task="count",
            model=None, due_at=None, now=home.clock.now(),
        )  # fmt: skip
    await say(home, flow, "It counts.")
    assert left(home) == ("sleep", 'Asked: "hello". Answered: "It counts.". It is woken by: t1.')


@pytest.mark.parametrize(("tool", "given"), [("push", {"what": "a"}), ("ask_user", {"question": "Which?"})])
async def test_while_a_person_is_asked_action_is_required(home: House, tool: str, given: dict[str, Any]) -> None:
    flow = await begin(home)
    await call(home, flow, tool, **given)
    outcome, summary = left(home)
    assert outcome == "requires_action" and str(summary).startswith("Waits for a person: ") and tool in str(summary)
    await begin(home, "never mind", "k2", run_id(2))
    assert left(home) == ("done", "A newer turn took its work over.")


async def test_waiting_for_the_model_is_sleep_and_going_on_is_nothing(home: House) -> None:
    flow = await begin(home)
    home.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 30.0)]
    await think(home.harness, flow, ask())
    assert left(home)[0] == "sleep"
    await call(home, flow, "look", 1)
    assert left(home) == (None, None)


async def test_failed_offered_and_broken_turns(home: House) -> None:
    await say(home, await begin(home), "I stopped.", state="failed")
    assert left(home) == ("done", 'Asked: "hello". Failed: I stopped.')
    await say(home, await begin(home, "a", "k2", run_id(2)), "Shall I go on?", state="offered")
    assert left(home, run_id(2))[0] == "requires_action"
    await begin(home, "b", "k3", run_id(3))
    await tell_failure(home.harness, {"run_id": run_id(3), "error": {"message": "disk"}})
    assert left(home, run_id(3)) == ("done", "It failed inside the service: disk")


async def test_it_is_shown_where_runs_are(home: House) -> None:
    class OneRun:
        async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
            return [{"id": RUN, "status": "Completed"}, {"id": "other", "status": "Completed"}]

        async def run(self, run: str) -> dict[str, Any]:
            return {"run": {"id": run, "status": "Completed"}, "steps": []}

    await say(home, await begin(home), "Hello.")
    app = FastAPI()
    app.include_router(api_router(home.harness, OneRun(), "embedded"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        listed = (await http.get("/api/runs")).json()["runs"]
        one = (await http.get(f"/api/runs/{RUN}")).json()
    assert listed[0]["outcome"] == "done" and "outcome" not in listed[1]
    assert "OUTCOME" in runs_table(listed) and "done" in runs_table(listed)
    assert 'Asked: "hello". Answered: "Hello.".' in run_page(one)
    with home.tx() as tx:
        notes = turn_notes(tx, RUN)
    assert (notes.outcome, notes.summary) == ("done", 'Asked: "hello". Answered: "Hello.".')
    assert notes.session_key == SESSION and home.rows(turn_rows.select())[0].outcome == "done"
