"""What every turn begins with: goals, what changed since the last turn here, the next wake, the heartbeat."""

from datetime import timedelta
from typing import Any

from sqlalchemy import event, insert

from app.agent.context.bootstrap import MAX_CHARS, TITLE, standing
from app.agent.context.state_block import MAX_CHARS as BLOCK_CHARS
from app.agent.context.state_block import state_note
from app.agent.finish import finish
from app.agent.think import think
from app.goal_tables import goals, tries
from app.sessions import session
from app.tables import tasks
from app.work import ledger, rounds, wakes
from app.work.observation import Kind, Observation
from tests.unit.house import RUN, SESSION, House, ask, begin, make_house, run_id


def add_goal(house: House, name: str, title: str, rank: int = 0, **changes: Any) -> None:
    row = {"id": name, "pipeline": "p", "template": {}, "facts": {"title": title}, "rank": rank}
    with house.tx() as tx:
        tx.execute(insert(goals).values(row | {"created_at": house.clock.now()} | changes))


def begin_try(house: House, goal: str) -> None:
    now = house.clock.now()
    row = {"goal_id": goal, "step": "a", "number": 1, "due_at": now, "run_id": "r"}
    with house.tx() as tx:
        tx.execute(insert(tries).values(row))


def beat(house: House) -> None:
    now = house.clock.now()
    with house.tx() as tx:
        rounds.note(tx, "beat", now, None)


def block(house: House, session_id: str = "S") -> str:
    with house.tx() as tx:
        return standing(tx, house.harness, session_id, SESSION)


async def whole_turn(house: House, text: str, number: int) -> str:
    """A turn from its message to its answer; what the model was shown last."""
    flow = await begin(house, text, f"k{number}", run_id(number))
    house.model.answers = ["Hello."]
    thought = await think(house.harness, flow, ask())
    await finish(house.harness, flow, {"key": "finish#1", "state": "finished", "text": "", "head": thought["head"]})
    return str(house.model.requests[-1][1])


async def test_before_the_first_beat_there_is_nothing_to_tell(house: House) -> None:
    assert block(house) == "" and TITLE not in await whole_turn(house, "hello", 1)


async def test_it_is_in_what_the_model_is_shown_in_every_turn(house: House) -> None:
    beat(house)
    for number in (1, 2):
        shown = await whole_turn(house, "hello", number)
        assert shown.count(TITLE) == 1 and "Heartbeat: last 2026-01-05 12:00, next 12:30." in shown


async def test_goals_the_next_wake_and_the_heartbeat(house: House) -> None:
    add_goal(house, "g1", "The podcast of\n today")
    begin_try(house, "g1")
    for number in range(2, 7):
        add_goal(house, f"g{number}", f"Number {number}", rank=number)
    flow = await begin(house)
    now = house.clock.now()
    wake: dict[str, Any] = {"id": "w1", "session_id": flow.session_id, "session_key": SESSION, "run_id": RUN}
    wake |= {"step_key": "tool#0.0", "reason": "x", "zone": "UTC", "channel": "test", "destination": {}}
    with house.tx() as tx:
        wakes.add(tx, wakes.Wake(due_at=now + timedelta(hours=1), created_at=now, **wake))
    beat(house)
    assert block(house, flow.session_id).splitlines() == [
        TITLE,
        "Active goals: g1 The podcast of today.",
        "Pending goals (5): g2 Number 2, g3 Number 3, g4 Number 4 and 2 more.",
        "Next wake of this conversation: 2026-01-05 13:00.",
        "Heartbeat: last 2026-01-05 12:00, next 12:30.",
    ]


async def test_the_difference_since_the_last_turn_of_this_session(house: House) -> None:
    add_goal(house, "g1", "Old")
    add_goal(house, "g2", "Done")
    add_goal(house, "g3", "Failed")
    add_goal(house, "g5", "Dropped")
    house.clock.advance(60)
    await whole_turn(house, "hello", 1)
    session_id = house.scalar(session.sessions.select().with_only_columns(session.sessions.c.id))
    assert "Since your last turn" not in block(house, session_id)
    house.clock.advance(60)
    add_goal(house, "g4", "New")
    now = house.clock.now()
    with house.tx() as tx:
        tx.execute(goals.update().where(goals.c.id.in_(["g2", "g3", "g5"])).values(closed_at=now))
        for name, kind, data in (
            ("g2", Kind.TASK_COMPLETED, {}),
            ("g3", Kind.BLOCKED_CONFIRMED, {"reason": "EXECUTION_ERROR", "final": True}),
            ("g5", Kind.OWNER_REPLY_RECORDED, {"branch": "E"}),
        ):
            ledger.append(tx, Observation(name, Kind.STARTED, "s", now, "pipeline", data={"goal": name}))
            ledger.append(tx, Observation(name, kind, "k", now, "pipeline", data=data))
    told = block(house, session_id)
    since = "Since your last turn here (2026-01-05 12:01): "
    assert f"{since}new g4 New; done g2 Done; failed g3 Failed; cancelled g5 Dropped." in told
    house.clock.advance(60)
    await whole_turn(house, "and?", 2)
    assert "Since your last turn" not in block(house, session_id), "told once"
    assert "Since your last turn" not in block(house, "another session")


async def test_it_is_two_queries_and_only_when_a_turn_begins(house: House) -> None:
    beat(house)
    seen: list[str] = []
    with house.tx() as tx:
        event.listen(tx, "before_cursor_execute", lambda _c, _cur, statement, *_: seen.append(statement))
        standing(tx, house.harness, "S", SESSION)
    assert len(seen) == 2
    flow = await begin(house)
    beat(house)
    house.clock.advance(600)
    house.model.answers = ["Hello."]
    await think(house.harness, flow, ask())
    assert "Heartbeat: last 2026-01-05 12:00" in str(house.model.requests[-1][1]), "as the turn began"


def test_it_stays_short_whatever_there_is(house: House) -> None:
    for number in range(20):
        add_goal(house, f"g{number:02}", "long " * 100, rank=number)
        begin_try(house, f"g{number:02}")
    beat(house)
    told = block(house)
    assert len(told) <= MAX_CHARS
    lines = [f"- task t{number} is running: {'x' * 110}" for number in range(30)]
    whole = state_note(lines, told)
    assert whole is not None and len(whole) <= BLOCK_CHARS == 1_200
    assert whole.startswith(TITLE) and "- task t0 " in whole and whole.rstrip().splitlines()[-1].startswith("- and ")


async def test_open_work_and_this_are_one_block(house: House) -> None:
    beat(house)
    flow = await begin(house)
    row = {"id": "T1", "session_id": flow.session_id, "run_id": RUN, "step_key": "x", "mode": "background"}
    with house.tx() as tx:
        tx.execute(insert(tasks).values(row | {"task": "count", "state": "running", "created_at": house.clock.now()}))
    house.model.answers = ["Hello."]
    await think(house.harness, flow, ask())
    shown = str(house.model.requests[-1][1])
    assert shown.count("[System note: ") == 1 and TITLE in shown and "task T1 is running" in shown


async def test_a_tiny_model_is_not_told(tmp_path: Any, template: Any, clean_environment: None) -> None:
    house = make_house(tmp_path / "h", template, agent_model="")
    beat(house)
    flow = await begin(house)
    assert flow.standing == "" and flow.compact
    await house.db.close()
