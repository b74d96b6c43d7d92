"""Learnings: what says about the same is one of them, counted once a call; a line of MEMORY.md in the end."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.agent.act import act
from app.agent.flow import Flow
from app.agent.heartbeat.beat import CHORES
from app.agent.heartbeat.look import look_around
from app.agent.think import think
from app.agent.tool import Toolbox
from app.memory.learnings import (
    HEADING,
    PROMOTE_AT,
    Learning,
    is_alike,
    record,
    with_lines,
    without_line,
    words_of,
)
from app.memory.memory_file import versions
from app.tables import calls as call_rows
from app.tables import learnings
from app.web.api import api_router, explain_errors
from tests.unit.house import RUN, House, ask, begin, make_house, run_id, wishes
from tools.learnings import record_learning

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
TEA = "The user likes green tea in the morning."


@pytest.fixture
async def home(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "home", template)
    yield replace(built, harness=replace(built.harness, toolbox=Toolbox.of(record_learning)))
    await built.db.close()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (TEA, "the user LIKES green tea in the mornings", True),
        (TEA, "User likes a green tea, in the morning!", True),
        (TEA, "The user likes green tea in the evening.", False),
        (TEA, "The user does not like green tea in the morning.", False),
        (TEA, "The user doesn't like green tea in the morning.", False),
        ("Deploys go to port 8080 of the server.", "Deploys go to port 8081 of the server.", False),
        ("Le café est fermé lundi", "le cafe est ferme lundi", True),
        ("Run the tests with make test before each push", "Run tests with make test before every push", False),
        ("日本語", "日本語", True),
        ("The user prefers tea over coffee", "The user prefers coffee over tea", False),
        ("Files move from inbox to archive", "Files move from archive to inbox", False),
        (
            "Send the weekly report of the sales team every Monday morning in English",
            "Send the weekly report of the sales team every Monday morning in German",
            False,
        ),
        (
            "Deploy the blue service of the shop on a Friday evening after the tests",
            "Don\u2019t deploy the blue service of the shop on a Friday evening after the tests",
            False,
        ),
        (
            "Den Bericht des Vertriebs am Montag früh an alle Leiter der Filialen schicken",
            "Den Bericht des Vertriebs am Montag früh nicht an alle Leiter der Filialen schicken",
            False,
        ),
        (
            "Reports of the northern branch go out every week to the head of sales",
            "Reports of the northern branch go out only every week to the head of sales",
            False,
        ),
        ("👍", "!!!", False),
        ("👍", "👍", True),
        ("a", "b", False),
    ],
)
def test_what_says_about_the_same(one: str, other: str, same: bool) -> None:
    assert is_alike(words_of(one), words_of(other)) is same and is_alike(words_of(other), words_of(one)) is same


def test_a_long_one_may_have_one_word_more() -> None:
    short = "Backups of photos run on the old server in the cellar"
    assert is_alike(words_of(short), words_of(short + " nightly"))


def learning(name: str, text: str = TEA, **changes: Any) -> Learning:
    fields: dict[str, Any] = {"seen": (), "count": 3, "state": "kept", "first_at": NOW, "last_at": NOW}
    return Learning(name, "general", text, words_of(text), **fields | changes)


def test_a_line_stands_under_a_heading_of_its_own_and_what_people_wrote_stays() -> None:
    hand = "# Memory\n\n- by hand\n\n## More\n- also by hand\n"
    text, taken = with_lines(hand, [learning("l1"), learning("l2", "Second.")], 1_000)
    assert taken == ["l1", "l2"]
    assert text == hand + (f"\n{HEADING}\n\n- {TEA} <!-- learned l1 -->\n- Second. <!-- learned l2 -->\n")
    again, taken = with_lines(text, [learning("l1"), learning("l3", "Third.")], 1_000)
    assert taken == ["l1", "l3"] and again == text + "- Third. <!-- learned l3 -->\n"


def test_a_line_goes_to_the_end_of_its_section_also_in_the_middle_of_a_file() -> None:
    text, _ = with_lines(f"{HEADING}\n\n- by hand\n\n## More\n- b\n", [learning("l1", "First.")], 1_000)
    assert text == f"{HEADING}\n\n- by hand\n- First. <!-- learned l1 -->\n\n## More\n- b\n"


def test_an_empty_memory_gets_its_first_line() -> None:
    assert with_lines("", [learning("l1", "First.")], 1_000)[0] == f"{HEADING}\n\n- First. <!-- learned l1 -->\n"


def test_room_is_made_of_older_lines_of_ours_and_never_of_what_people_wrote() -> None:
    hand = "- by hand " + "x" * 60 + "\n"
    text, _ = with_lines(hand, [learning("l1", "First.")], 140)
    text, taken = with_lines(text, [learning("l2", "Second.")], 140)
    assert taken == ["l2"] and "First." not in text and text.startswith(hand)
    full = "- by hand " + "x" * 200 + "\n"
    assert with_lines(full, [learning("l3", "Third.")], 150) == (full, [])


def test_a_line_can_be_taken_out() -> None:
    text, _ = with_lines("- by hand\n", [learning("l1"), learning("l2", "Second.")], 1_000)
    assert without_line(text, "l1") == f"- by hand\n\n{HEADING}\n\n- Second. <!-- learned l2 -->\n"
    assert without_line("- by hand l1\n", "l1") == "- by hand l1\n"


async def call(house: House, flow: Flow, number: int = 0, **given: Any) -> str:
    house.model.answers = [wishes(("record_learning", given))]
    await think(house.harness, flow, ask(number))
    await act(house.harness, flow, {"key": f"tool#{number}.0", "name": "record_learning"})
    return str(house.rows(call_rows.select().order_by(call_rows.c.id.desc()))[0].result)


def rows(house: House) -> list[Any]:
    return house.rows(learnings.select().order_by(learnings.c.scope, learnings.c.id))


async def test_the_tool_keeps_merges_and_counts(home: House) -> None:
    flow = await begin(home)
    assert (await call(home, flow, 0, text=TEA)).startswith("Kept as l")
    said = await call(home, flow, 1, text="User likes green tea in the mornings", scope="General")
    assert "found 2 times now" in said and TEA in said
    await call(home, flow, 2, text=TEA, scope="kitchen")
    assert [(row.scope, row.count) for row in rows(home)] == [("general", 2), ("kitchen", 1)]
    assert "should match pattern" in await call(home, flow, 3, text=TEA, scope="two words")


async def test_attempted_again_a_call_counts_once(home: House) -> None:
    flow = await begin(home)
    await call(home, flow, text=TEA)
    with home.tx() as tx:
        tx.execute(call_rows.update().values(state="planned", result=None))
    await act(home.harness, flow, {"key": "tool#0.0", "name": "record_learning"})
    assert [row.count for row in rows(home)] == [1]


def see(house: House, times: int, text: str = TEA, name: str = "l1") -> None:
    with house.tx() as tx:
        for number in range(times):
            record(tx, name, text, "general", f"{run_id(number)}/tool#{name}", house.clock.now())


def memory(house: House) -> str:
    path = house.harness.workspace.root / "MEMORY.md"
    return path.read_text() if path.exists() else ""


async def beat(house: House) -> bool:
    chores = (await look_around(house.harness, None))["chores"]
    if {"step": "promote", "of": ""} not in chores:
        return False
    await CHORES["promote"](house.harness, RUN, "")
    return True


async def test_the_heartbeat_promotes_what_was_found_often_once(house: House) -> None:
    (house.harness.workspace.root / "MEMORY.md").write_text("- by hand\n")
    see(house, PROMOTE_AT - 1)
    assert not await beat(house) and memory(house) == "- by hand\n"
    see(house, PROMOTE_AT)
    assert await beat(house)
    assert memory(house) == f"- by hand\n\n{HEADING}\n\n- {TEA} <!-- learned l1 -->\n"
    assert [row.state for row in rows(house)] == ["promoted"] and house.model.requests == []
    (kept,) = versions(house.harness.workspace.root).iterdir()
    assert kept.read_text() == "- by hand\n"
    house.clock.advance(86_000)
    assert not await beat(house)


async def test_killed_between_the_file_and_the_row_the_line_is_there_once(house: House) -> None:
    see(house, PROMOTE_AT)
    assert await beat(house)
    with house.tx() as tx:
        tx.execute(learnings.update().values(state="kept"))
    house.clock.advance(3_600)
    assert await beat(house)
    assert memory(house).count(TEA) == 1 and rows(house)[0].state == "promoted"


async def test_where_there_is_no_room_it_waits_for_an_hour(house: House) -> None:
    full = "x" * 19_990 + "\n"
    (house.harness.workspace.root / "MEMORY.md").write_text(full)
    see(house, PROMOTE_AT)
    assert await beat(house) and not await beat(house)
    assert memory(house) == full and rows(house)[0].state == "kept"


@pytest.fixture
def http(house: House) -> httpx.AsyncClient:
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(house.harness, None, "embedded"))  # type: ignore[arg-type]  # no runs are asked for
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_people_see_promote_and_drop_them(house: House, http: httpx.AsyncClient) -> None:
    see(house, 1)
    see(house, 2, "Second lesson about ships.", "l2")
    async with http:
        listed = (await http.get("/api/learnings")).json()["learnings"]
        assert [(one["id"], one["count"], one["state"]) for one in listed] == [("l2", 2, "kept"), ("l1", 1, "kept")]
        assert (await http.post("/api/learnings/l1/promote")).json()["text"] == "l1 is a line of MEMORY.md now."
        assert TEA in memory(house)
        assert (await http.post("/api/learnings/l1/drop")).json() == {"id": "l1", "text": "l1 is dropped."}
        assert TEA not in memory(house)
        assert (await http.post("/api/learnings/l9/drop")).status_code == 404
        assert (await http.post("/api/learnings/l2/sell")).status_code == 422
        assert [one["id"] for one in (await http.get("/api/learnings")).json()["learnings"]] == ["l2"]
        (house.harness.workspace.root / "MEMORY.md").write_text("x" * 19_999)
        refused = await http.post("/api/learnings/l2/promote")
    assert refused.status_code == 400 and "MEMORY.md is full" in refused.json()["error"]


async def test_what_was_dropped_stays_dropped_however_often_it_is_found(house: House) -> None:
    see(house, 1)
    with house.tx() as tx:
        tx.execute(learnings.update().values(state="dropped"))
    see(house, 5)
    assert not await beat(house) and rows(house)[0].state == "dropped"
