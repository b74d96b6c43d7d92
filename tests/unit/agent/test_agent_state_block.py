"""The pinned block: what is open by the records reaches every thought, whatever a summary left out."""

from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from app.agent.act import act
from app.agent.context.state_block import MAX_LINES, open_work, state_note
from app.agent.think import think
from app.sessions import session, transcript
from app.tables import approvals, tasks
from tests.unit.house import RUN, House, ask, begin, run_id, wishes


def add_task(house: House, session_id: str, name: str, **changes: Any) -> None:
    row = {
        "id": name,
        "session_id": session_id,
        "run_id": RUN,
        "step_key": name,
        "mode": "background",
        "task": "count the owls " * 30,
        "state": "running",
        "created_at": house.clock.now(),
    }
    with house.tx() as tx:
        tx.execute(insert(tasks).values(row | changes))


# TRAPS, Context: "After compaction the agent forgets running children -> pinned state block from records".
async def test_after_a_summary_running_children_are_not_forgotten(house: House) -> None:
    """After compaction the agent forgets running children: the block is made of records."""
    older = await begin(house)
    house.model.answers = [wishes(("delegate_task", {"task": "look for the fox"})), "Still waiting."]
    thought = await think(house.harness, older, ask())
    await act(house.harness, older, thought["calls"][0])
    with house.tx() as tx:
        session.open_session(tx, f"task:{RUN}:tool#0.0", "CHILD", house.clock.now())
    newer = await begin(house, "and?", "k2", run_id(2))
    await think(house.harness, newer, ask())
    shown = house.model.requests[-1][1]
    assert "Still running as task" in str(shown) and "Open work" not in str(shown), "said once is enough"
    with house.tx() as tx:
        head = session.head_of(tx, newer.session_id)
        assert head is not None
        ids = [entry.id for entry in transcript.load(tx, newer.session_id, head)]
        transcript.record_summary(
            tx,
            newer.session_id,
            run_id=run_id(2),
            step_key="compact#0",
            parent=head,
            text="## Goal\n- nothing said of it",
            data={"covers": [ids[0], ids[-2]]},
            now=house.clock.now(),
        )
    await think(house.harness, newer, ask(1))
    shown = house.model.requests[-1][1]
    assert "tool_calls" not in str(shown), "the call itself is covered"
    assert f"sub-agent task:{RUN}:tool#0.0 is running" in shown[-1]["content"]
    assert "look for the fox" in shown[-1]["content"]


async def test_tasks_and_requests_that_are_open(house: House) -> None:
    conditions = await begin(house)
    now = house.clock.now()
    add_task(house, conditions.session_id, "T1")
    add_task(house, conditions.session_id, "T2", state="waiting", due_at=now + timedelta(hours=1))
    add_task(house, conditions.session_id, "T3", state="done", ended_at=now)
    with house.tx() as tx:
        row = {"id": "K3F9", "session_id": conditions.session_id, "run_id": RUN, "step_key": "tool#0.0"}
        row |= {"kind": "approval", "tool": "bash", "digest": "d", "request": {}, "state": "pending"}
        tx.execute(insert(approvals).values(row | {"created_at": now, "expires_at": now}))
        lines = list(open_work(tx, conditions.session_id).values())
        assert open_work(tx, "another") == {}
    assert len(lines) == 3 and all(len(line) < 260 for line in lines)
    assert lines[0].startswith("- task T1 is running: count the owls") and "due 20" in lines[1]
    assert lines[2] == "- approval K3F9 (bash) waits for a person"


def test_nothing_open_is_no_block_and_much_is_cut() -> None:
    assert state_note([]) is None
    many = state_note([f"- task {number}" for number in range(40)])
    assert many is not None and many.count("\n") == MAX_LINES + 1 and many.endswith("- and 28 more")
