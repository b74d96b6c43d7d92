"""What the service asks all the time takes no longer with its years: no statement of it goes through a whole table."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from app.agent.approvals.closing import sweep_approvals
from app.agent.heartbeat.sweep import send_unsent, sweep
from app.channels import outbox
from app.sessions import calls
from app.tables import metadata
from app.web.conversations import conversation
from app.work import goals
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import HOME, SESSION, message, wishes

SMALL = {"rounds", "supervision", "distillations", "seen_files", "backups", "album_parts", "chain"}
"""Tables that hold only what there is now, and the chain of messages of one conversation."""

OF_OPEN_ROWS = (
    "messages_open deliveries_unsent turns_live calls_started approvals_pending tasks_waiting notices_untold"
).split()


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    limits = {"budget_session_tokens": 10**9, "budget_session_usd": 100.0, "heartbeat_cron": "* * * * *"}
    async with embedded(tmp_path / "house", template, **limits) as one:
        yield one


@contextmanager
def plans() -> Iterator[dict[str, list[str]]]:
    """What SQLite does for each statement that is asked in the block: the details of its query plan."""
    found: dict[str, list[str]] = {}

    def note(connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if statement.split(None, 1)[0] in ("SELECT", "UPDATE", "DELETE", "WITH") and not many:
            rows = connection.connection.driver_connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found[statement] = [row[3] for row in rows.fetchall()]

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


GIVEN_STATE = re.compile(r"\b(messages|turns|calls|deliveries|approvals|tasks)\.state = \?")
"""SQLite prepares a statement anew for each execution if such a value decides about an index (`app/open_rows.py`)."""


def scanned(plan: list[str]) -> set[str]:
    """The tables that a plan goes through from the first row to the last."""
    scans = [detail.split() for detail in plan if detail.startswith("SCAN ")]
    return {words[1] for words in scans if not set(words) & set(OF_OPEN_ROWS)} & set(metadata.tables) - SMALL


async def test_turns_and_beats_go_through_no_table_as_a_whole(life: Embedded) -> None:
    life.house.model.answers = ["Hello.", wishes(("delegate_task", {"task": "count"})), "One, two.", "Done."]
    with plans() as found:
        await life.send(message("hello"))
        await life.send(message("count, please", message_key="test:2"))
        await life.pass_time(5 * 60, 60)
        await sweep(life.house.harness)
        await life.restart()
    assert life.house.channel.sent[-1] == "Done."
    assert len(found) > 60
    assert {statement: bad for statement, plan in found.items() if (bad := scanned(plan))} == {}
    assert [statement for statement in found if GIVEN_STATE.search(statement)] == []


async def test_a_page_and_a_new_goal_go_through_no_table_as_a_whole(life: Embedded) -> None:
    await life.send(message("hello"))
    with plans() as found:
        await life.house.harness.db.read(conversation, SESSION)
        await life.house.harness.db.read(goals.has_slug, "a-talk", "2026-01-05")
    assert len(found) > 3
    assert {statement: bad for statement, plan in found.items() if (bad := scanned(plan))} == {}


async def test_a_start_goes_through_no_table_as_a_whole(life: Embedded) -> None:
    """Moab serve healthy in two seconds, also after years."""
    harness = life.house.harness
    with plans() as found:
        await harness.db.write(calls.close_dead, HOME, "boot9", life.clock.now())
        await harness.db.write(outbox.close_dead, HOME, "boot9", life.clock.now())
        await send_unsent(harness)
        await harness.db.write(sweep_approvals, harness)
    assert len(found) > 5
    assert {statement: bad for statement, plan in found.items() if (bad := scanned(plan))} == {}
