"""Tools whose results come from outside: the turn waits durably, and the first result that is given counts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.agent.act import act
from app.agent.approvals.decision import Person, decide
from app.agent.approvals.request import prompt
from app.agent.flow import Flow
from app.agent.heartbeat.sweep import send_unsent, sweep
from app.agent.models.llm import Completion
from app.agent.outside import MARK, MAX_RESULT_CHARS, give_result, open_calls
from app.agent.think import think
from app.agent.tool import Toolbox
from app.errors import ConfigError, NotFound
from app.tables import approvals, deliveries, messages, turns
from app.tables import calls as call_rows
from app.web.api import api_router, explain_errors
from tests.unit.agent.test_agent_commands import say
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import RUN, House, ask, begin, kill_at, message, run_id, wishes
from tools.outside import outside_tools
from tools.toolbox import make_toolbox

TEXT = """
[label_photo]
description = "Has people say what is on a photo."
arguments = { photo = "Path of the photo", "hint?" = "What to look for" }
"""


@pytest.fixture
def tools(tmp_path: Path) -> Toolbox:
    path = tmp_path / "tools.toml"
    path.write_text(TEXT)
    return Toolbox.of(*outside_tools(path))


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None, tools: Toolbox) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, toolbox=tools, heartbeat_cron="0 0 1 1 *") as one:
        yield one


def service(house: House) -> httpx.AsyncClient:
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(house.harness, None, "embedded"))  # type: ignore[arg-type]  # no runs are asked for
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


LABEL = wishes(("label_photo", {"photo": "a.png"}))


async def test_a_run_waits_for_its_result_over_a_restart_and_goes_on(life: Embedded) -> None:
    life.house.model.answers = [LABEL, Completion("It is a cat.")]
    await life.send(message())
    assert life.house.channel.sent == [], "nobody is asked in the chat"
    (turn,) = life.house.rows(turns.select())
    assert turn.outcome == "requires_action" and turn.summary.startswith("Waits for a result from outside: outside ")
    await life.restart()
    async with service(life.house) as http:
        (waiting,) = (await http.get("/api/calls")).json()["calls"]
        assert (waiting["tool"], waiting["arguments"], waiting["runId"]) == (
            "label_photo", '{"photo": "a.png"}', turn.run_id,
        )  # fmt: skip
        assert (await http.get("/api/approvals")).json() == {"approvals": []}
        path = f"/api/calls/{waiting['id']}/result"
        given = (await http.post(path, json={"result": {"label": "cat"}})).json()
        assert given["done"] is True
        await life.link.engine.idle()
        again = (await http.post(path, json={"result": "dog"})).json()
        assert again["done"] is False and (await http.get("/api/calls")).json() == {"calls": []}
    await life.link.engine.idle()
    assert life.house.channel.sent == ["It is a cat."]
    shown = life.house.model.requests[-1][1][-1]
    assert shown["role"] == "tool" and shown["content"] == f'{MARK}\n{{"label": "cat"}}'
    (run,) = await life.runs("handle-message")
    assert run.status == "Completed" and life.house.rows(turns.select())[0].outcome == "done"


async def call(house: House, tools: Toolbox, run: str = RUN, key: str = "k1") -> tuple[Flow, str]:
    """A turn that waits for a result; its flow and the id of the call."""
    object.__setattr__(house.harness, "toolbox", tools)
    flow = await begin(house, "hello", key, run)
    house.model.answers = [LABEL]
    await think(house.harness, flow, ask())
    seen = await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"})
    return flow, str((seen.get("ask") or {}).get("id", ""))


def result(house: House) -> Any:
    return house.rows(call_rows.select().order_by(call_rows.c.id))[0]


async def test_a_failure_and_a_long_result(house: House, tools: Toolbox) -> None:
    flow, name = await call(house, tools)
    given = await give_result(house.harness, name.lower(), "x" * (MAX_RESULT_CHARS + 1), False)
    assert given.done and result(house).ok is False
    assert result(house).result.endswith("x\n[The result was longer.]")
    assert await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"}) == {"kind": "done", "ok": False}


async def test_killed_after_it_was_taken_the_same_once_more_wakes_the_turn(house: House, tools: Toolbox) -> None:
    flow, name = await call(house, tools)
    with kill_at("outside.given"):
        await give_result(house.harness, name, "a cat", True)
    assert house.sender.of("agent.approval.decided") == []
    again = await give_result(house.harness, name, "a dog", True)
    assert not again.done and len(house.sender.of("agent.approval.decided")) == 1
    assert (await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"}))["kind"] == "done"
    assert result(house).result == f"{MARK}\na cat"


async def test_a_call_that_nobody_made_is_refused(house: House, tools: Toolbox) -> None:
    with pytest.raises(NotFound, match="There is no call 'K3F9'"):
        await give_result(house.harness, "K3F9", "x", True)


def inputs(house: House) -> list[Any]:
    return house.rows(messages.select().where(messages.c.origin == "outside"))


async def test_what_comes_after_a_newer_message_is_put_before_the_conversation_once(
    house: House, tools: Toolbox
) -> None:
    _, name = await call(house, tools)
    await begin(house, "never mind", "k2", run_id(2))
    for number in range(2):
        given = await give_result(house.harness, name, "a cat" if not number else "a dog", True)
        assert given.done is (number == 0) and ("came late" in given.text)
    (late,) = inputs(house)
    assert f"The result of label_photo (call {name})" in late.text and f"{MARK}\na cat" in late.text
    assert '{"photo": "a.png"}' in late.text and (late.destination["chatId"], late.state) == ("7", "open")
    (event,) = [e for e in house.sender.of("agent.message.received") if e["data"]["origin"] == "outside"]
    assert event["data"]["steers"] is False
    assert result(house).result is None and house.rows(approvals.select())[0].state == "superseded"


async def test_killed_before_its_event_a_late_result_is_still_heard(house: House, tools: Toolbox) -> None:
    _, name = await call(house, tools)
    await begin(house, "never mind", "k2", run_id(2))
    with kill_at("outside.given"):
        await give_result(house.harness, name, "a cat", False)
    await send_unsent(house.rebooted().harness)
    (event,) = [e for e in house.sender.of("agent.message.received") if e["data"]["origin"] == "outside"]
    assert "has come: it failed" in event["data"]["message"]


async def test_after_new_the_person_is_told_of_a_late_result(house: House, tools: Toolbox) -> None:
    _, name = await call(house, tools)
    await say(house, "new", "c1")
    with house.tx() as tx:
        tx.exec_driver_sql("""UPDATE messages SET channel_meta = '{"languageCode": "fr"}'""")
    for number in range(2):
        given = await give_result(house.harness, name, "a cat", True)
        assert given.done is (number == 0)
    assert inputs(house) == []
    (told,) = [row.text for row in house.rows(deliveries.select()) if "label_photo" in row.text]
    assert told.startswith("Le résultat de label_photo") and "a cat" in told


async def test_it_expires_and_the_model_is_told(house: House, tools: Toolbox) -> None:
    flow, name = await call(house, tools)
    house.clock.advance(13 * 3600)
    assert (await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"}))["kind"] == "done"
    assert "expired" in result(house).result
    given = await give_result(house.harness, name, "a cat", True)
    assert given.done and "a cat" in inputs(house)[0].text
    assert "expired" in result(house).result, "what the model was told stays as it was"


async def test_as_long_as_a_turn_waits_its_result_counts(house: House, tools: Toolbox) -> None:
    _, name = await call(house, tools)
    house.clock.advance(13 * 3600)
    assert (await give_result(house.harness, name, "a cat", True)).done
    assert result(house).result == f"{MARK}\na cat" and inputs(house) == []


async def test_where_the_policy_asks_a_person_decides_before_anybody_outside_hears_of_it(
    house: House, tools: Toolbox
) -> None:
    ask_first(house)
    flow, name = await call(house, tools)
    with house.tx() as tx:
        assert open_calls(tx) == []
    assert house.rows(approvals.select())[0].kind == "approval"
    with pytest.raises(NotFound):
        await give_result(house.harness, name, "x", True)
    await prompt(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"})
    assert any("May I run **label_photo**?" in row.text for row in house.rows(deliveries.select()))
    with house.tx() as tx:
        assert decide(tx, house.harness, name, "approve", "", Person("terminal", "me")).done
    for _ in range(2):  # every wake looks again
        seen = await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"})
        assert seen["kind"] == "ask" and seen["ask"]["id"] != name and not seen["ask"]["prompt"]
    with house.tx() as tx:
        (waiting,) = open_calls(tx)
    assert (waiting["id"], waiting["arguments"]) == (seen["ask"]["id"], '{"photo": "a.png"}')
    assert (await give_result(house.harness, waiting["id"], "a cat", True)).done
    assert (await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"}))["kind"] == "done"
    assert result(house).result == f"{MARK}\na cat"
    states = {row.kind: (row.state, row.decided_by) for row in house.rows(approvals.select())}
    assert states == {"approval": ("used", "me"), "outside": ("answered", "outside")}


async def test_what_a_person_denies_nobody_outside_hears_of(house: House, tools: Toolbox) -> None:
    ask_first(house)
    flow, name = await call(house, tools)
    with house.tx() as tx:
        assert decide(tx, house.harness, name, "deny", "", Person("terminal", "me")).done
        assert open_calls(tx) == []
    assert (await act(house.harness, flow, {"key": "tool#0.0", "name": "label_photo"}))["kind"] == "done"
    assert "denied" in result(house).result and len(house.rows(approvals.select())) == 1


def ask_first(house: House) -> None:
    settings = house.harness.settings.model_copy(update={"tool_policy": (("label_photo", "ask"),)})
    object.__setattr__(house.harness, "settings", settings)


async def test_the_heartbeat_ends_what_is_overdue(house: House, tools: Toolbox) -> None:
    await call(house, tools)
    house.clock.advance(13 * 3600)
    await sweep(house.harness)
    assert house.rows(approvals.select())[0].state == "expired"


async def test_no_person_decides_on_it(house: House, tools: Toolbox) -> None:
    _, name = await call(house, tools)
    with house.tx() as tx:
        outcome = decide(tx, house.harness, name, "approve", "", Person("terminal", "me"))
    assert not outcome.done and f"POST /api/calls/{name}/result" in outcome.text
    assert house.rows(approvals.select())[0].state == "pending"


async def test_a_policy_may_forbid_it(house: House, tools: Toolbox) -> None:
    settings = house.harness.settings.model_copy(update={"tool_policy": (("label_photo", "deny"),)})
    object.__setattr__(house.harness, "settings", settings)
    _, name = await call(house, tools)
    assert name == "" and "not allowed here" in result(house).result


def test_the_schema_that_a_model_is_shown(tools: Toolbox) -> None:
    (schema,) = tools.schemas()
    parameters = schema["function"]["parameters"]
    assert parameters["required"] == ["photo"] and set(parameters["properties"]) == {"photo", "hint"}
    assert "Has people say" in schema["function"]["description"]


@pytest.mark.parametrize(
    "text",
    ["x", "[Label]\ndescription='x'", "[a]\ndescription=''", "[a]\ndescription='x'\nurl='y'",
     "[a]\ndescription='x'\narguments={b=1}", "a = 1"],
)  # fmt: skip
def test_a_file_with_a_fault_is_refused_with_the_accepted_form(tmp_path: Path, text: str) -> None:
    (tmp_path / "tools.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"accepted: \[label_photo\]"):
        outside_tools(tmp_path / "tools.toml")


def test_no_file_is_no_tool_and_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    assert outside_tools(tmp_path / "tools.toml") == []
    (tmp_path / "tools.toml").write_text("[bash]\ndescription='x'")
    with pytest.raises(ConfigError, match="bash"):
        make_toolbox(environment={}, own=outside_tools(tmp_path / "tools.toml"))
