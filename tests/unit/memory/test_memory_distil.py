"""Distilling: which logs are due, and what may become of MEMORY.md."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from app.agent.housekeeping import distil_log, look_around, prune_logs, settle
from app.agent.llm import Completion, ModelFailure, Trouble
from app.memory import distil
from app.memory.daily_log import LogFile
from app.memory.distil import KEEP_LOGS_FOR, LONG_LOG_BYTES, MAX_MEMORY_CHARS, accepted, due, outdated
from app.sessions import turns
from tests.unit.house import RUN, House, begin, make_house

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
    assert await look_around(house.harness, None) == {"distil": ["2026-01-04.md"], "prune": []}
    house.model.answers = [Completion("```\nlikes tea\n```")]
    assert (await distil_log(house.harness, yesterday.name))["kind"] == "distilled"
    assert memory(house) == "likes tea\n"
    assert await look_around(house.harness, None) == {"distil": [], "prune": []}
    add(yesterday, "- 13:00 and coffee\n")
    assert (await look_around(house.harness, None))["distil"] == ["2026-01-04.md"]


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
    assert (await look_around(house.harness, None))["distil"] == ["2026-01-04.md"]


async def test_what_a_person_writes_meanwhile_is_not_overwritten(house: House, yesterday: Path) -> None:
    async def answer() -> Completion:
        (house.harness.workspace.root / "MEMORY.md").write_text("written by hand\n")
        return Completion("from the old one")

    house.model.answers = [answer]
    assert (await distil_log(house.harness, yesterday.name))["kind"] == "changed"
    assert memory(house) == "written by hand\n"
    assert (await look_around(house.harness, None))["distil"] == ["2026-01-04.md"]


async def test_a_log_that_is_gone_is_no_failure(house: House) -> None:
    assert await distil_log(house.harness, "2020-01-01.md") == {"log": "2020-01-01.md", "kind": "gone"}
    assert house.model.requests == []


async def test_old_logs_go_once_they_are_distilled(house: House) -> None:
    path = house.harness.daily_log.folder / "2025-11-01.md"
    path.write_text("- 12:00 likes tea\n")
    assert await look_around(house.harness, None) == {"distil": [path.name], "prune": []}
    await distil_log(house.harness, path.name)
    assert await look_around(house.harness, None) == {"distil": [], "prune": [path.name]}
    assert await prune_logs(house.harness, [path.name, "2020-01-01.md"]) == {"pruned": 2}
    assert not path.exists()


async def test_a_tiny_model_distils_nothing(tmp_path: Path, template: Path, clean_environment: None) -> None:
    house = make_house(tmp_path / "h", template, agent_model="")
    (house.harness.daily_log.folder / "2026-01-04.md").write_text("- 12:00 tea\n")
    assert await look_around(house.harness, None) == {"distil": [], "prune": []}
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
