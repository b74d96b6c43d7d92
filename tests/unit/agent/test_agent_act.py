"""The act step: a call runs once, its result is a fact, and an unsafe one is never run again in doubt."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.agent import attend
from app.agent.act import STOPPED_BY_USER, act
from app.agent.flow import Flow, Observation
from app.agent.think import think
from app.agent.tool import Effect, Toolbox, ToolContext, tool
from app.errors import BadInput
from app.sessions import calls, session
from app.sessions.calls import MAY_HAVE_HAPPENED
from app.tables import calls as call_rows
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, ask, begin, kill_at, run_id, wishes


async def planned(house: House, *wanted: tuple[str, Mapping[str, Any] | str], run: str = RUN, key: str = "k1") -> Flow:
    """A turn whose first thought wished for these calls."""
    house.model.answers = [wishes(*wanted)]
    flow = await begin(house, key=key, run=run)
    await think(house.harness, flow, ask())
    return flow


async def do(house: House, flow: Flow, number: int = 0) -> Observation:
    row = house.rows(call_rows.select().where(call_rows.c.run_id == flow.run_id))[number]
    call = {"key": row.step_key, "name": row.name}
    return Observation.model_validate(await act(house.harness, flow, call))


def results(house: House, run: str = RUN) -> list[tuple[str, bool | None, str | None]]:
    query = call_rows.select().where(call_rows.c.run_id == run).order_by(call_rows.c.id)
    return [(row.state, row.ok, row.result) for row in house.rows(query)]


def equip(house: House, *tools: Any) -> House:
    """The same house with other tools."""
    return replace(house, harness=replace(house.harness, toolbox=Toolbox.of(*tools)))


async def test_a_call_runs_and_is_recorded(house: House) -> None:
    flow = await planned(house, ("look", {"at": "the door"}))
    assert await do(house, flow) == Observation(kind="done", ok=True)
    assert house.log == ["look the door"] and results(house) == [("finished", True, "saw the door")]
    turn = house.rows(turn_rows.select())[0]
    assert (turn.activity, turn.tool) == ("tool", "look")


async def test_a_call_with_a_record_is_not_run_again(house: House) -> None:
    flow = await planned(house, ("push", {"what": "wall"}))
    first = await do(house, flow)
    assert await do(house, flow) == first == Observation(kind="done", ok=False)
    assert house.log == ["push wall"]


@pytest.mark.parametrize("name", ["look", "note", "push"])
@pytest.mark.parametrize("point", ["tool.started", "tool.done", "tool.recorded"])
async def test_killed_and_attempted_again(house: House, name: str, point: str) -> None:
    """Row 3 and 7: what only reads or is idempotent may run again; the unsafe is reported, not repeated."""
    arguments = {"look": {}, "note": {"text": "x"}, "push": {"what": "x"}}[name]
    flow = await planned(house, (name, arguments))
    with kill_at(point):
        await do(house, flow)
    ran = len(house.log)
    house = house.rebooted()
    observation = await do(house, flow)
    ((state, ok, result),) = results(house)
    if point == "tool.recorded":
        assert (state, ok, len(house.log)) == ("finished", True, ran)
    elif name == "push":
        assert (state, ok, result, len(house.log)) == ("interrupted", False, MAY_HAVE_HAPPENED, ran)
        assert not observation.ok
    else:
        assert (state, ok, len(house.log)) == ("finished", True, ran + 1)
    assert observation.kind == "done" and await do(house, flow) == observation


async def test_a_superseded_turn_starts_no_tool(house: House) -> None:
    flow = await planned(house, ("push", {"what": "x"}))
    await begin(house, "newer", "k2", run_id(2))
    assert (await do(house, flow)).kind == "superseded"
    assert house.log == [] and results(house) == [("planned", None, None)]


async def test_a_result_is_recorded_also_when_a_newer_turn_took_over_meanwhile(house: House) -> None:
    """Row 1: a finished tool result is a fact."""

    @tool(Effect.UNSAFE)
    async def push(context: ToolContext) -> str:
        """Push."""
        await begin(house, "newer", "k2", run_id(2))
        return "pushed"

    flow = await planned(house, ("push", {}))
    assert (await do(equip(house, push), flow)).kind == "done"
    assert results(house) == [("finished", True, "pushed")]


async def test_stopping_kills_the_tool_and_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "LOOK_EVERY_S", 0.01)
    ended = []

    @tool(Effect.UNSAFE)
    async def push(context: ToolContext) -> str:
        """Push."""
        with house.tx() as tx:
            session.stop(tx, context.session_id, house.clock.now())
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return "never"

    flow = await planned(house, ("push", {}))
    assert (await do(equip(house, push), flow)) == Observation(kind="done", ok=False)
    assert ended == [True] and results(house) == [("finished", False, STOPPED_BY_USER)]


async def test_shutdown_leaves_the_call_started_and_passes_on(house: House) -> None:
    started = asyncio.Event()
    ended = []

    @tool(Effect.UNSAFE)
    async def push(context: ToolContext) -> str:
        """Push."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return "never"

    flow = await planned(house, ("push", {}))
    running = asyncio.ensure_future(do(equip(house, push), flow))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == [True] and results(house) == [("started", None, None)]


async def test_long_work_stays_owned(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "LOOK_EVERY_S", 0.005)
    monkeypatch.setattr(attend, "SEEN_EVERY_LOOKS", 1)

    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Look."""
        house.clock.advance(300)
        for _ in range(400):
            (row,) = house.rows(call_rows.select())
            if row.seen_at.replace(tzinfo=house.clock.now().tzinfo) == house.clock.now():
                return "owned"
            await asyncio.sleep(0.005)
        return "forgotten"

    flow = await planned(house, ("look", {}))
    await do(equip(house, look), flow)
    assert results(house)[0][2] == "owned"
    with house.tx() as tx:
        assert session.is_live(tx, RUN, house.clock.now())


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("ghost", "{}", "There is no tool 'ghost'. Available: broken, delegate_task, look, note, push."),
        ("look", "{oops", "not valid JSON"),
        ("look", "[1]", "not a JSON object but list"),
        ("look", "[" * 90_000, "not valid JSON"),
        ("look", '{"at": 5}', "at: Input should be a valid string"),
        ("look", '{"where": "x"}', "where: Extra inputs are not permitted"),
        ("note", "", "text: Field required"),
        ("broken", "{}", "broken failed: KeyError: 'a fault of the tool'"),
        ("delegate_task", "{}", "task: Field required"),
    ],
)
async def test_what_the_model_can_mend_is_told_to_it(house: House, name: str, arguments: str, said: str) -> None:
    flow = await planned(house, (name, arguments))
    assert await do(house, flow) == Observation(kind="done", ok=False)
    ((state, ok, result),) = results(house)
    assert (state, ok) == ("finished", False) and said in str(result) and house.log == []


async def test_an_error_of_ours_is_its_sentence(house: House) -> None:
    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Look."""
        raise BadInput("Look somewhere else.")

    flow = await planned(house, ("look", {}))
    await do(equip(house, look), flow)
    assert results(house) == [("finished", False, "Look somewhere else.")]


async def test_a_tool_that_hangs_is_given_up(house: House) -> None:
    @tool(Effect.READ, timeout_s=0.02)
    async def look(context: ToolContext) -> str:
        """Look."""
        await asyncio.sleep(60)
        return "never"

    flow = await planned(house, ("look", {}))
    await do(equip(house, look), flow)
    ((_, ok, result),) = results(house)
    assert not ok and "did not end within" in str(result)


async def test_a_tool_knows_what_it_needs(house: House) -> None:
    seen: list[ToolContext] = []

    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context)
        return str(await context.notes.remember("tea", "key"))

    flow = await planned(house, ("look", {}))
    await do(equip(house, look), flow)
    (context,) = seen
    assert (context.run_id, context.step_key, context.session_id) == (RUN, "tool#0.0", flow.session_id)
    assert context.workspace == house.harness.workspace.root and "tea" in _log_of(house)


def _log_of(house: House) -> str:
    return "".join(path.read_text() for path in house.harness.daily_log.folder.iterdir())


async def test_a_huge_result_is_spilled_to_a_file(house: House) -> None:
    text = "line\n" * 20_000

    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Look."""
        return text

    flow = await planned(house, *[("look", {})] * 4)
    house = equip(house, look)
    for number in range(4):
        await do(house, flow, number)
    sizes = [len(str(result).encode()) for _, _, result in results(house)]
    assert max(sizes) <= 16 * 1024 and sum(sizes) <= 48 * 1024 + 1024
    rows = house.rows(call_rows.select())
    assert (house.harness.workspace.root / rows[0].artifact).read_text() == text
    assert rows[0].artifact in rows[0].result and f"{RUN}-tool-0.0.txt" in rows[0].artifact


async def test_screens_are_cleaned(house: House) -> None:
    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Look."""
        return "\x1b[31mred\x1b[0m 10%\r100%\x00"

    flow = await planned(house, ("look", {}))
    await do(equip(house, look), flow)
    assert results(house)[0][2] == "100%"


async def test_a_tool_waits_for_that_of_an_older_turn(house: House) -> None:
    """Row 2: never two tools of one session at once; after a minute without a sign of life it goes on."""
    older = await planned(house, ("push", {"what": "a"}), run=run_id(1), key="k1")
    newer = await planned(house, ("push", {"what": "b"}), run=run_id(2), key="k2")
    with house.tx() as tx:
        call = calls.find(tx, older.run_id, "tool#0.0")
        assert call is not None
        calls.start(tx, call.id, "home:boot1", house.clock.now())
    waiting = asyncio.ensure_future(do(house, newer))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done and house.log == []
    house.clock.advance(60)
    house.harness.notifier.publish(SESSION)
    assert (await waiting).kind == "done" and house.log == ["push b"]
    assert results(house, older.run_id) == [("interrupted", False, MAY_HAVE_HAPPENED)]


async def test_a_call_nobody_planned_is_a_fault_of_ours(house: House) -> None:
    flow = await planned(house, ("look", {}))
    with pytest.raises(Exception, match=r"tool#9\.9"):
        await act(house.harness, flow, {"key": "tool#9.9", "name": "look"})


async def test_an_old_call_of_a_dead_boot_is_stale(house: House) -> None:
    flow = await planned(house, ("look", {}))
    house.clock.advance(601)
    assert (await do(house.rebooted(), flow)).kind == "stale"
