"""Distilling: which logs are due, and what may become of MEMORY.md."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from app.agent.heartbeat.distillation import LEASE, LONGEST_PAUSE, PAUSE, distil_log
from app.agent.heartbeat.housekeeping import prune_log, settle
from app.agent.heartbeat.look import look_around
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.memory import distil
from app.memory.daily_log import LogFile
from app.memory.distil import KEEP_LOGS_FOR, LONG_LOG_BYTES, MAX_MEMORY_CHARS, accepted, due, outdated
from app.memory.memory_file import versions
from app.sessions import turns
from app.tables import usage
from app.web.usage import usage_report
from tests.unit.house import RUN, House, begin, make_house, run_id

TODAY = date(2026, 1, 5)


def entry(day: date, size: int = 10, digest: str = "d") -> LogFile:
    return LogFile(f"{day}.md", day, size, digest)


YESTERDAY = entry(date(2026, 1, 4))
OLD = entry(TODAY - KEEP_LOGS_FOR)
OLDER = entry(date(2025, 12, 5))


@pytest.mark.parametrize(
    ("log", "distilled", "expected"),
    [
        (YESTERDAY, {}, True),
        (YESTERDAY, {"2026-01-04.md": "d"}, False),
        (YESTERDAY, {"2026-01-04.md": "before it changed"}, True),
        (entry(date(2026, 1, 4), size=0), {}, False),
        (entry(TODAY), {}, False),
        (entry(TODAY, size=LONG_LOG_BYTES), {}, False),
        (entry(TODAY, size=LONG_LOG_BYTES + 1), {}, True),
        (entry(TODAY, size=LONG_LOG_BYTES + 1), {"2026-01-05.md": "d"}, False),
        (entry(date(2026, 1, 6), size=10), {}, False),
    ],
)
def test_what_is_due(log: LogFile, distilled: dict[str, str], expected: bool) -> None:
    assert (due([log], distilled, TODAY) == [log]) is expected


@pytest.mark.parametrize(
    ("log", "distilled", "expected"),
    [
        (OLDER, {OLDER.name: "d"}, True),
        (OLDER, {OLDER.name: "before it changed"}, False),
        (OLDER, {}, False),
        (OLD, {OLD.name: "d"}, False),
        (YESTERDAY, {YESTERDAY.name: "d"}, False),
    ],
)
def test_what_is_outdated(log: LogFile, distilled: dict[str, str], expected: bool) -> None:
    assert (outdated([log], distilled, TODAY) == [log]) is expected


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("# Memory\n- tea", "# Memory\n- tea\n"),
        ("\n\n# Memory  \n", "# Memory\n"),
        ("```markdown\n# Memory\n```", "# Memory\n"),
        ("```md\n# Memory\n```\n", "# Memory\n"),
        ("```\n# Memory\n```", "# Memory\n"),
        ("# Memory\n```\ncode\n```", "# Memory\n```\ncode\n```\n"),
        ("", None),
        (" \n", None),
        ("```\n```", None),
        ("x" * MAX_MEMORY_CHARS, "x" * MAX_MEMORY_CHARS + "\n"),
        ("x" * (MAX_MEMORY_CHARS + 1), None),
    ],
)
def test_what_may_be_the_new_memory(answer: str, content: str | None) -> None:
    assert accepted(answer) == content


def test_the_model_is_shown_the_memory_and_the_notes() -> None:
    system, user = distil.request("Likes tea.", "- 12:00 coffee")
    assert "20000" in system["content"] and "Likes tea." in user["content"] and "coffee" in user["content"]
    assert "(empty)" in distil.request("", "x")[1]["content"]


async def chores(house: House) -> list[str]:
    found = await look_around(house.harness, None)
    return [f"{chore['step']} {chore['of']}" for chore in found["chores"]]


@pytest.fixture
def yesterday(house: House) -> Path:
    """The log of the day before, and a MEMORY.md."""
    (house.harness.workspace.root / "MEMORY.md").write_text("old\n")
    path = house.harness.daily_log.folder / "2026-01-04.md"
    path.write_text("- 12:00 likes tea\n")
    return path


def add(log: Path, line: str) -> None:
    log.write_text(log.read_text() + line)


def memory(house: House) -> str:
    return (house.harness.workspace.root / "MEMORY.md").read_text()


async def test_a_log_becomes_memory_once(house: House, yesterday: Path) -> None:
    assert await chores(house) == ["distil 2026-01-04.md"]
    house.model.answers = [Completion("```\nlikes tea\n```")]
    assert (await distil_log(house.harness, yesterday.name))["kind"] == "distilled"
    assert memory(house) == "likes tea\n"
    assert await chores(house) == []
    add(yesterday, "- 13:00 and coffee\n")
    assert await chores(house) == ["distil 2026-01-04.md"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ModelFailure(Trouble.OVERLOADED, "busy"), "failed"),
        (Completion(""), "refused"),
        (Completion("x" * 20_001), "refused"),
    ],
)
async def test_what_fails_keeps_the_old_memory_and_stays_due(
    house: House, yesterday: Path, answer: Any, kind: str
) -> None:
    house.model.answers = [answer]
    assert (await distil_log(house.harness, yesterday.name))["kind"] == kind
    assert memory(house) == "old\n"
    assert await chores(house) == [], "not at once: a model that fails is not asked every minute"
    house.clock.advance(PAUSE.total_seconds())
    assert await chores(house) == ["distil 2026-01-04.md"]


# TRAPS, Life and death: "Heartbeat burned 248 dollars on an idle session -> stop after N failed beats".
async def test_the_pause_grows_with_every_failure_and_ends_with_a_success(house: House, yesterday: Path) -> None:
    """Heartbeat burned 248 dollars on an idle session."""
    house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy")]
    asked = []
    for minute in range(20 * 60):
        if await chores(house):
            asked.append(minute)
            await distil_log(house.harness, yesterday.name, run_id(minute))
        house.clock.advance(60)
    assert asked == [0, 30, 90, 210, 450, 810, 1170] and LONGEST_PAUSE.total_seconds() == 360 * 60
    house.model.answers = [Completion("likes tea")]
    await distil_log(house.harness, yesterday.name)
    add(yesterday, "- 13:00 and coffee\n")
    assert await chores(house) == ["distil 2026-01-04.md"]


async def test_one_beat_distils_and_another_leaves_it_alone(house: House, yesterday: Path) -> None:
    assert await chores(house) == ["distil 2026-01-04.md"]
    assert await chores(house) == []
    house.clock.advance(LEASE.total_seconds())
    assert await chores(house) == ["distil 2026-01-04.md"], "the first one may have died"


async def test_done_before_the_step_asks_nobody_again(house: House, yesterday: Path) -> None:
    house.model.answers = [Completion("likes tea")]
    for _ in range(2):
        assert (await distil_log(house.harness, yesterday.name, RUN))["kind"] == "distilled"
    assert len(house.model.requests) == 1


async def test_it_is_counted_in_what_models_cost(house: House, yesterday: Path) -> None:
    house.model.answers = [Completion("likes tea", input_tokens=900, output_tokens=30, cost_usd=0.02)]
    await distil_log(house.harness, yesterday.name, RUN)
    (row,) = (await usage_report(house.harness, "session", 1))["rows"]
    assert (row["name"], row["input_tokens"], row["output_tokens"], row["cost_usd"]) == ("heartbeat", 900, 30, 0.02)


async def test_what_failed_costs_nothing_and_a_used_up_day_asks_nobody(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    house = make_house(tmp_path / "h", template, budget_day_tokens=10)
    (house.harness.daily_log.folder / "2026-01-04.md").write_text("- 12:00 tea\n")
    done = await distil_log(house.harness, "2026-01-04.md", RUN)
    assert (done["kind"], done["reason"]) == ("failed", "quota") and house.model.requests == []
    assert house.rows(usage.select()) == []
    await house.db.close()


async def test_the_version_before_is_kept(house: House, yesterday: Path) -> None:
    house.model.answers = [Completion("likes tea")]
    await distil_log(house.harness, yesterday.name)
    (kept,) = versions(house.harness.workspace.root).iterdir()
    assert kept.read_text() == "old\n"


async def test_a_much_shorter_memory_is_refused(house: House, yesterday: Path) -> None:
    (house.harness.workspace.root / "MEMORY.md").write_text("- what matters\n" * 100)
    house.model.answers = [Completion("likes tea")]
    assert (await distil_log(house.harness, yesterday.name))["kind"] == "refused"
    assert memory(house) == "- what matters\n" * 100


@pytest.mark.parametrize(
    ("new", "present", "is_taken"),
    [(250, 501, False), (251, 501, True), (10, 500, True), (10_000, 20_000, True), (9_999, 20_000, False)],
)
def test_how_much_shorter_it_may_be(new: int, present: int, is_taken: bool) -> None:
    assert (accepted("x" * new, "y" * present) is not None) is is_taken


async def test_what_a_person_writes_meanwhile_is_not_overwritten(house: House, yesterday: Path) -> None:
    async def answer() -> Completion:
        (house.harness.workspace.root / "MEMORY.md").write_text("written by hand\n")
        return Completion("from the old one")

    house.model.answers = [answer]
    assert (await distil_log(house.harness, yesterday.name))["kind"] == "changed"
    assert memory(house) == "written by hand\n"
    assert await chores(house) == ["distil 2026-01-04.md"]


async def test_a_log_that_is_gone_is_no_failure(house: House) -> None:
    assert await distil_log(house.harness, "2020-01-01.md") == {"log": "2020-01-01.md", "kind": "gone"}
    assert house.model.requests == []


async def test_old_logs_go_once_they_are_distilled(house: House) -> None:
    path = house.harness.daily_log.folder / "2025-11-01.md"
    path.write_text("- 12:00 likes tea\n")
    assert await chores(house) == [f"distil {path.name}"]
    await distil_log(house.harness, path.name)
    assert await chores(house) == [f"prune {path.name}"]
    for name in (path.name, "2020-01-01.md"):
        assert await prune_log(house.harness, RUN, name) == {"pruned": name}
    assert not path.exists()


async def test_a_tiny_model_distils_nothing(tmp_path: Path, template: Path, clean_environment: None) -> None:
    house = make_house(tmp_path / "h", template, agent_model="")
    (house.harness.daily_log.folder / "2026-01-04.md").write_text("- 12:00 tea\n")
    assert await chores(house) == []
    await house.db.close()


async def test_a_turn_with_nothing_to_follow_is_settled_at_once(house: House) -> None:
    await begin(house)
    await look_around(house.harness, RUN)
    with house.tx() as tx:
        turn = turns.find(tx, RUN)
    assert turn is not None and turn.settled_at is not None


async def test_a_turn_with_something_to_follow_is_settled_behind_it(house: House, yesterday: Path) -> None:
    await begin(house)
    await look_around(house.harness, RUN)
    with house.tx() as tx:
        turn = turns.find(tx, RUN)
        assert turn is not None and turn.settled_at is None
    assert await settle(house.harness, RUN) == {"settled": RUN}
    with house.tx() as tx:
        turn = turns.find(tx, RUN)
        assert turn is not None and turn.settled_at is not None
