"""Tool calls as rows: each state once, dead boots closed, never two tools of one session at once."""

from datetime import timedelta

import pytest

from app.db import moment
from app.sessions import calls, deposit, transcript
from app.sessions.calls import MAY_HAVE_HAPPENED, CallRecord, CallState
from app.sessions.transcript import NewCall
from tests.unit.house import RUN, SESSION, House, message, run_id

EFFECTS = ("read", "idempotent", "unsafe")


async def plan(house: House, *effects: str, run: str = RUN, session: str = "S", key: str = "k1") -> list[CallRecord]:
    """One assistant message with a call of each effect; the records."""
    with house.tx() as tx:
        now = house.clock.now()
        event = message(key=key, session_key=f"{SESSION}:{session}")
        deposit.deposit(tx, event, key, new_session_id=session, now=now)
        head = deposit.attach_open(tx, session)
        transcript.record_assistant(
            tx,
            session,
            run_id=run,
            step_key="think#0",
            parent=head,
            text="",
            new_calls=[NewCall(f"tool#0.{i}", "call_1", "look", "{}", effect) for i, effect in enumerate(effects)],
            data={},
            now=now,
        )
        return [await get(house, tx, run, i) for i in range(len(effects))]


async def get(house: House, tx: object, run: str = RUN, number: int = 0) -> CallRecord:
    found = calls.find(tx, run, f"tool#0.{number}")  # type: ignore[arg-type]
    assert found is not None
    return found


async def start(house: House, call: CallRecord, boot: str = "home:boot1", child: str | None = None) -> None:
    with house.tx() as tx:
        calls.start(tx, call.id, boot, house.clock.now(), child)


async def now_is(house: House, call: CallRecord) -> CallRecord:
    with house.tx() as tx:
        found = calls.find(tx, call.run_id, call.step_key)
    assert found is not None
    return found


async def test_a_call_is_planned_then_started_then_finished(house: House) -> None:
    (call,) = await plan(house, "read")
    assert (call.state, call.result, call.seen_at, call.boot_id) == (CallState.PLANNED, None, None, None)
    await start(house, call)
    started = await now_is(house, call)
    assert (started.state, started.boot_id) == (CallState.STARTED, "home:boot1")
    assert moment(started.seen_at) == house.clock.now()
    with house.tx() as tx:
        calls.finish(tx, call.id, ok=True, result="done\ud800\x00", now=house.clock.now(), artifact="a.txt")
    finished = await now_is(house, call)
    assert (finished.state, finished.ok, finished.result) == (CallState.FINISHED, True, "done?")


async def test_the_first_finish_stays(house: House) -> None:
    (call,) = await plan(house, "read")
    with house.tx() as tx:
        calls.finish(tx, call.id, ok=True, result="first", now=house.clock.now())
        calls.finish(tx, call.id, ok=False, result="second", now=house.clock.now())
        calls.interrupt(tx, call.id, house.clock.now())
    assert (await now_is(house, call)).result == "first"


async def test_a_late_result_replaces_the_doubt(house: House) -> None:
    """A child that outlived its parent's doubt still reports a fact."""
    (call,) = await plan(house, "unsafe")
    await start(house, call)
    with house.tx() as tx:
        calls.interrupt(tx, call.id, house.clock.now())
    assert (await now_is(house, call)).result == MAY_HAVE_HAPPENED
    with house.tx() as tx:
        calls.finish(tx, call.id, ok=True, result="it did", now=house.clock.now())
    assert (await now_is(house, call)).result == "it did"


async def test_only_a_started_call_is_interrupted(house: House) -> None:
    (call,) = await plan(house, "unsafe")
    with house.tx() as tx:
        calls.interrupt(tx, call.id, house.clock.now())
    assert (await now_is(house, call)).state == CallState.PLANNED


async def test_a_dead_boot_leaves_no_started_call(house: House) -> None:
    read, idempotent, unsafe = await plan(house, *EFFECTS)
    for call in (read, idempotent, unsafe):
        await start(house, call)
    with house.tx() as tx:
        assert calls.close_dead(tx, "home", "home:boot2", house.clock.now()) == 1
        assert calls.close_dead(tx, "home", "home:boot2", house.clock.now()) == 0
    assert (await now_is(house, read)).state == CallState.PLANNED
    assert (await now_is(house, idempotent)).state == CallState.PLANNED
    closed = await now_is(house, unsafe)
    assert (closed.state, closed.ok, closed.result) == (CallState.INTERRUPTED, False, MAY_HAVE_HAPPENED)


@pytest.mark.parametrize("boot", ["home:boot2", "other:boot1", "home_x:boot1", "homes:boot1"])
async def test_what_the_living_and_other_homes_run_is_left_alone(house: House, boot: str) -> None:
    (call,) = await plan(house, "unsafe")
    await start(house, call, boot)
    with house.tx() as tx:
        assert calls.close_dead(tx, "home", "home:boot2", house.clock.now()) == 0
    assert (await now_is(house, call)).state == CallState.STARTED


async def test_a_home_with_a_wildcard_in_its_id_closes_its_own_only(house: House) -> None:
    (call,) = await plan(house, "unsafe")
    await start(house, call, "hxme:boot1")
    with house.tx() as tx:
        assert calls.close_dead(tx, "h_me", "h_me:boot2", house.clock.now()) == 0


async def test_a_delegated_task_outlives_its_boot(house: House) -> None:
    (call,) = await plan(house, "unsafe")
    await start(house, call, child="task:1")
    with house.tx() as tx:
        assert calls.close_dead(tx, "home", "home:boot2", house.clock.now()) == 0
    started = await now_is(house, call)
    assert (started.state, started.child_key) == (CallState.STARTED, "task:1")


async def test_a_tool_of_another_turn_is_waited_for_while_its_owner_is_seen(house: House) -> None:
    (call,) = await plan(house, "unsafe")
    await start(house, call)
    with house.tx() as tx:
        assert calls.running_elsewhere(tx, "S", RUN, house.clock.now()) is None
        running = calls.running_elsewhere(tx, "S", run_id(9), house.clock.now())
        assert running is not None and running.id == call.id
    house.clock.advance(50)
    with house.tx() as tx:
        calls.seen(tx, call.id, house.clock.now())
    house.clock.advance(59)
    with house.tx() as tx:
        assert calls.running_elsewhere(tx, "S", run_id(9), house.clock.now()) is not None
    house.clock.advance(1)
    with house.tx() as tx:
        assert calls.running_elsewhere(tx, "S", run_id(9), house.clock.now()) is None
    assert (await now_is(house, call)).state == CallState.INTERRUPTED


async def test_tools_of_other_sessions_and_delegated_tasks_hold_nobody_up(house: House) -> None:
    (other,) = await plan(house, "unsafe", session="T", key="k2")
    (child,) = await plan(house, "unsafe", run=run_id(5))
    await start(house, other)
    await start(house, child, child="task:1")
    with house.tx() as tx:
        assert calls.running_elsewhere(tx, "S", run_id(9), house.clock.now()) is None
    assert (await now_is(house, child)).state == CallState.STARTED


async def test_results_of_one_message_are_counted_together(house: House) -> None:
    one, two, three = await plan(house, *EFFECTS)
    (other,) = await plan(house, "read", run=run_id(5), key="k3")
    with house.tx() as tx:
        assert calls.result_bytes(tx, three) == 0
        calls.finish(tx, one.id, ok=True, result="x" * 10, now=house.clock.now())
        calls.finish(tx, two.id, ok=True, result="y" * 5, now=house.clock.now())
        calls.finish(tx, other.id, ok=True, result="z" * 99, now=house.clock.now())
        assert calls.result_bytes(tx, three) == 15


async def test_a_step_knows_its_own_call_only(house: House) -> None:
    await plan(house, "read")
    with house.tx() as tx:
        assert calls.find(tx, RUN, "tool#0.1") is None
        assert calls.find(tx, run_id(5), "tool#0.0") is None


async def test_seen_moves_the_moment(house: House) -> None:
    (call,) = await plan(house, "unsafe")
    await start(house, call)
    later = house.clock.now() + timedelta(seconds=20)
    with house.tx() as tx:
        calls.seen(tx, call.id, later)
    assert moment((await now_is(house, call)).seen_at) == later


async def test_times_of_a_record_have_a_zone(house: House) -> None:
    (record,) = await plan(house, "read")
    with house.tx() as tx:
        calls.start(tx, record.id, "home:boot1", house.clock.now())
        started = calls.find(tx, RUN, record.step_key)
    assert started is not None and started.seen_at == house.clock.now()
