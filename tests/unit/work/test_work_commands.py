"""Commands in the background are tracked tasks: they begin, print, end and vanish in the same ledger."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.context.state_block import open_work
from app.agent.delegation.commands import observe_commands
from app.agent.delegation.supervise import run_monitor
from app.agent.heartbeat.beat import run_beat
from app.agent.think import think
from app.agent.tool import Toolbox
from app.sessions import calls
from app.tables import messages, observations
from app.web.state import state
from app.work import ledger, supervision
from app.work.observation import Kind
from app.work.projection import Truth
from app.work.watching import Watching
from tests.unit.house import HOME, SESSION, DirectSteps, House, ask, begin, make_house, run_id, wishes
from tests.unit.work.test_work_tools import Turn
from tools.background import end_background
from tools.background_records import find
from tools.background_tools import background_tools
from tools.background_watch import GONE, NO_TRACE, Commands
from tools.hiding import hiding
from tools.shell import bash_tool

SECRET = "correct-horse-battery"
GATE = "until [ -e gate ]; do sleep 0.05; done"


@pytest.fixture
async def home(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "home", template)
    tools = Toolbox.of(bash_tool({"PATH": os.environ["PATH"]}, [SECRET]), *background_tools([SECRET]))
    yield replace(built, harness=replace(built.harness, toolbox=tools, commands=Commands(hiding([SECRET]))))
    await end_background(built.harness.workspace.root)
    await built.db.close()


async def start(house: House, command: str) -> tuple[Turn, str]:
    turn = Turn(house, await begin(house))
    await turn.call("bash", command=command, background=True)
    return turn, str(house.rows(observations.select())[0].task_id)


async def kinds(house: House, task_id: str) -> list[Kind]:
    return [one.kind for one in await house.db.read(ledger.of_task, task_id)]


async def truth(house: House, task_id: str) -> Truth:
    return (await house.db.read(ledger.derived, task_id)).truth_state


async def gone(house: House, name: str) -> None:
    """Open the gate, and wait for the end of the process, whatever ends it."""
    (house.harness.workspace.root / "gate").touch()
    record = find(house.harness.workspace.root, name)
    await asyncio.to_thread(os.waitpid, record.pid, 0)


async def beat(house: House) -> list[str]:
    """The steps of a beat."""
    steps = DirectSteps(house)
    await run_beat(steps, house.harness, run_id(900))
    return steps.ids


def told(house: House) -> list[str]:
    return [row.text for row in house.rows(messages.select()) if str(row.message_key).startswith("command:")]


async def test_it_runs_with_evidence_and_nobody_is_asked_as_long_as_it_does(home: House) -> None:
    _, task_id = await start(home, f"echo {SECRET}; sleep 1000")
    assert await kinds(home, task_id) == [Kind.STARTED, Kind.EXTERNAL_OBSERVED]
    derived = await home.db.read(ledger.derived, task_id)
    (pending,) = derived.pending_external
    assert derived.truth_state is Truth.WAITING_EXTERNAL and pending.evidence["job_id"].startswith("process ")
    assert derived.goal == "background command b1: echo ***; sleep 1000"
    decided: set[str] = set()
    for _ in range(48):
        home.clock.advance(1800)
        assert "commands" in await beat(home)
        decided |= set((await run_monitor(home.harness, everything=True))["kinds"])
    assert decided == {"OK"} and told(home) == []
    assert len(await kinds(home, task_id)) == 2 + 24, "that it runs is written down once an hour"


async def test_it_is_in_the_state_and_in_what_every_turn_knows(home: House) -> None:
    turn, task_id = await start(home, "sleep 1000")
    with home.tx() as tx:
        (shown,) = state(tx, home.harness, Watching())["tasks"]
        assert (shown["id"], shown["kind"], shown["state"]) == (task_id, "command", "WAITING_EXTERNAL")
        assert "background command b1: sleep 1000" in open_work(tx, turn.flow.session_id)[task_id]
        held = supervision.find(tx, task_id)
    assert held is not None and (held.owner_key, held.executor) == (SESSION, "command")


async def test_output_that_grows_is_progress_at_most_every_ten_minutes(home: House) -> None:
    _, task_id = await start(home, "sleep 1000")
    log = home.harness.workspace.root / ".moab" / "background" / "b1.log"
    for minute in range(1, 31):
        home.clock.advance(60)
        log.write_text("line\n" * minute)
        await observe_commands(home.harness)
    seen = await home.db.read(ledger.of_task, task_id)
    assert [one.data.get("bytes") for one in seen[2:]] == [50, 100, 150]
    assert {one.kind for one in seen[2:]} == {Kind.HEARTBEAT}
    derived = await home.db.read(ledger.derived, task_id)
    assert derived.progressed_at == home.clock.now()


@pytest.mark.parametrize(
    ("command", "end", "how"),
    [("true", Truth.COMPLETED, "exit code 0"), ("echo no such thing; exit 3", Truth.FAILED, "exit code 3")],
)
async def test_an_end_that_nobody_saw_is_told_its_conversation_once(
    home: House, command: str, end: Truth, how: str
) -> None:
    _, task_id = await start(home, f"{GATE}; {command}")
    await gone(home, "b1")
    for _ in range(2):
        await observe_commands(home.harness)
    assert await truth(home, task_id) is end
    (text,) = told(home)
    assert f"b1: {GATE}; {command} has ended: {how}" in text and "NO_REPLY" in text
    assert ("no such thing\n" in text) == (end is Truth.FAILED)
    assert dict((await run_monitor(home.harness))["kinds"]) == {"STOP_AND_DELETE": 1}


async def test_one_that_vanished_is_noticed(home: House) -> None:
    _, task_id = await start(home, "sleep 1000")
    os.killpg(find(home.harness.workspace.root, "b1").pid, signal.SIGKILL)
    await gone(home, "b1")
    assert await beat(home) == ["look", "commands", "monitor"]
    derived = await home.db.read(ledger.derived, task_id)
    assert derived.truth_state is Truth.FAILED and GONE in told(home)[0]


async def test_one_that_ended_with_the_service_is_told_after_the_restart(home: House) -> None:
    _, task_id = await start(home, "sleep 1000")
    await end_background(home.harness.workspace.root)
    again = home.rebooted()
    await observe_commands(replace(again.harness, commands=home.harness.commands))
    assert await truth(home, task_id) is Truth.FAILED and "ended when the service stopped" in told(home)[0]


async def killed_in_the_call(house: House, monkeypatch: pytest.MonkeyPatch, before: str) -> tuple[House, str]:
    """A call to start a command, whose process dies before `before`; what the next process finds."""
    monkeypatch.setattr(f"tools.shell.{before}", die)
    turn = Turn(house, await begin(house))
    house.model.answers = [wishes(("bash", {"command": f"{GATE}; true", "background": True}))]
    await think(house.harness, turn.flow, ask())
    with pytest.raises(Killed):
        await turn.again("bash")
    monkeypatch.undo()
    again = house.rebooted()
    again = replace(again, harness=replace(again.harness, commands=house.harness.commands))
    return again, str(house.rows(observations.select())[0].task_id)


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def die(*_: Any) -> Any:
    raise Killed


async def close_dead(house: House) -> None:
    await house.db.write(calls.close_dead, HOME, house.harness.boot_id, house.clock.now())


async def test_killed_before_it_ran_the_ledger_has_it_and_its_conversation_is_told(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, task_id = await killed_in_the_call(home, monkeypatch, "start")
    assert await kinds(home, task_id) == [Kind.STARTED]
    assert await observe_commands(again.harness) == {"looked": 0, "ended": 0}, "its call may still be at it"
    await close_dead(again)
    await observe_commands(again.harness)
    assert await truth(home, task_id) is Truth.FAILED and NO_TRACE in told(home)[0]


async def test_killed_before_its_call_ended_it_is_known_with_its_process(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, task_id = await killed_in_the_call(home, monkeypatch, "look")
    await close_dead(again)
    await observe_commands(again.harness)
    assert await truth(home, task_id) is Truth.WAITING_EXTERNAL
    await gone(home, "b1")
    await observe_commands(again.harness)
    assert await truth(home, task_id) is Truth.COMPLETED and len(told(home)) == 1


async def test_one_that_cannot_be_started_has_failed_and_its_call_tells_it(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no process is left")

    monkeypatch.setattr("tools.shell.start", broken)
    _, task_id = await start(home, "true")
    assert await kinds(home, task_id) == [Kind.STARTED, Kind.BLOCKED_CONFIRMED]
    await observe_commands(home.harness)
    assert await truth(home, task_id) is Truth.FAILED and told(home) == []


async def test_one_whose_record_is_gone_has_ended(home: House) -> None:
    _, task_id = await start(home, f"{GATE}; true")
    await gone(home, "b1")
    (home.harness.workspace.root / ".moab" / "background" / "b1.json").unlink()
    await observe_commands(home.harness)
    assert await truth(home, task_id) is Truth.FAILED


@pytest.mark.parametrize(("command", "end"), [("true", Truth.COMPLETED), ("exit 3", Truth.FAILED)])
async def test_an_end_that_the_call_saw_is_not_told_again(home: House, command: str, end: Truth) -> None:
    _, task_id = await start(home, command)
    assert await truth(home, task_id) is end
    await observe_commands(home.harness)
    assert told(home) == []


async def test_what_the_agent_looks_at_and_ends_is_observed(home: House) -> None:
    turn, task_id = await start(home, "sleep 1000")
    await turn.call("bash_output", id="b1")
    await turn.call("bash_kill", id="b1")
    assert await kinds(home, task_id) == [
        Kind.STARTED, Kind.EXTERNAL_OBSERVED, Kind.EXTERNAL_OBSERVED, Kind.OWNER_REPLY_RECORDED,
    ]  # fmt: skip
    assert await truth(home, task_id) is Truth.ABANDONED
    await turn.call("bash_output", id="b1")
    await observe_commands(home.harness)
    assert await truth(home, task_id) is Truth.ABANDONED and told(home) == []


async def test_what_runs_on_another_machine_is_left_alone(home: House) -> None:
    _, task_id = await start(home, "sleep 1000")
    other = replace(home.harness, boot_id="elsewhere:1")
    assert await observe_commands(other) == {"looked": 0, "ended": 0}
    assert await truth(home, task_id) is Truth.WAITING_EXTERNAL


async def test_a_sub_agents_command_is_observed_and_told_nobody(home: House) -> None:
    flow = await begin(home, "count", "t1", run_id(3), session_key="task:t1", channel="task", origin="task")
    turn = Turn(home, flow)
    await turn.call("bash", command=GATE, background=True)
    task_id = str(home.rows(observations.select())[0].task_id)
    await gone(home, "b1")
    await observe_commands(home.harness)
    assert await truth(home, task_id) is Truth.COMPLETED and told(home) == []


def test_one_that_an_older_version_started_has_no_task(tmp_path: Path) -> None:
    found: Any = Commands(hiding([])).seen(tmp_path, "b0")
    assert [one.kind for one in found] == ["BLOCKED_CONFIRMED"]


@pytest.mark.parametrize("origin", ["wake", "a background command"])
async def test_what_a_machine_started_is_watched_and_its_end_told_nobody(home: House, origin: str) -> None:
    """Else an end could start what ends again, for ever."""
    turn = Turn(home, await begin(home, "go on", "k", run_id(2), origin=origin, steers=False))
    await turn.call("bash", command=GATE, background=True)
    task_id = str(home.rows(observations.select())[0].task_id)
    await gone(home, "b1")
    await observe_commands(home.harness)
    assert await truth(home, task_id) is Truth.COMPLETED and told(home) == []
