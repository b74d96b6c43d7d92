"""Somebody is forgotten: of what was kept of him nothing is left, in no table, file, record of a run or free page."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Table, func, select

from app.agent.accept import accept
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.events import Attachment, Destination, MessageReceived, Sender
from app.goal_tables import goals, tries
from app.memory.memory_file import versions
from app.sessions import person_records
from app.sessions.people import Newcomer, add_code, folder_of, pair, principal_of
from app.sessions.person_records import IMPERSONAL
from app.sessions.person_words import DELETED
from app.tables import (
    album_parts,
    approvals,
    backups,
    distillations,
    learnings,
    messages,
    metadata,
    notices,
    observations,
    pairings,
    sessions,
    supervision,
    tasks,
    turns,
    usage,
    wakes,
)
from app.web.api import explain_errors
from app.web.people import people_router
from app.web.runs import EmbeddedRuns
from tests.acceptance.rules import check_messages
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message, wishes

MARK = "Zanzibarquokka"
NUMBER = "550187341"
"""A word that only one person says, and his number: neither may be left anywhere."""
ID = OWN_KEY = f"test:{NUMBER}"
GROUP_KEY = "test:-7"


@pytest.fixture
async def life(
    tmp_path: Path, template: Path, clean_environment: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Embedded]:
    monkeypatch.setattr("app.sessions.people.OPERATORS", ("terminal", "http"))  # who speaks here is not the operator
    async with embedded(tmp_path / "house", template) as one:
        yield one


@pytest.fixture
async def http(life: Embedded) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    explain_errors(app)
    app.include_router(people_router(life.house.harness, EmbeddedRuns(life.link.engine)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


def said(text: str, number: int, who: str = NUMBER, group: bool = False, **changes: Any) -> MessageReceived:
    fields: dict[str, Any] = {
        "key": f"{GROUP_KEY if group else f'test:{who}'}:{number}",
        "session_key": GROUP_KEY if group else f"test:{who}",
        "sender": Sender(id=who, name=f"{MARK} Person" if who == NUMBER else "Bo"),
        "destination": Destination(chat_id="-7" if group else who, message_id=str(number)),
        "channel_meta": {"group": True, "languageCode": "de"} if group else {},
    }
    return message(text, **fields | changes)


async def say_much(life: Embedded) -> None:
    """What a person leaves behind who has said and done everything: rows in every table, files, and an open run."""
    house, now = life.house, life.clock.now()
    house.channel.files["F1"] = f"{MARK} file".encode()
    with house.tx() as tx:
        pair(tx, Newcomer(ID, "person", OWN_KEY, f"{MARK} Person"), "member", "the operator", now)
        add_code(tx, "CODE", "member", "the operator", now)
        tx.execute(pairings.update().values(used_by=ID, used_at=now))
    house.model.answers = [wishes(("look", {"at": MARK})), Completion(f"I saw {MARK}.")]
    file = Attachment(kind="document", ref="F1", name="a.txt")
    await life.send(said(f"I am {MARK}", 1, attachments=(file,)))
    make_rows(life)
    house.model.answers = [f"Hello {MARK[:4]}."]
    await life.send(said(f"@bot {MARK}", 3, group=True, attachments=(file,)))
    quote = f'In answer to the message of {MARK} Person: "{MARK}"'
    await life.send(said("@bot and I?", 4, who="6", group=True, marks=(quote,)))
    house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 3000.0), Completion("never")]
    await life.send(said(f"still open {MARK}", 2))


def make_rows(life: Embedded) -> None:
    """What a turn of the tests does not leave behind by itself."""
    now = life.clock.now()
    (session,) = life.house.rows(sessions.select().where(sessions.c.key == OWN_KEY))
    (turn,) = life.house.rows(turns.select().where(turns.c.session_id == session.id))
    of = {"session_id": session.id, "run_id": turn.run_id}
    made = {"created_at": now}
    place = {"channel": "test", "destination": {"chatId": NUMBER}}
    group_part = said(MARK, 9, group=True).model_dump(by_alias=True, mode="json")
    asked = {"kind": "approval", "tool": "bash", "digest": "d", "request": {"x": MARK}, "requester": ID}
    watch = {"owner_key": OWN_KEY, "executor": "person", "limits": {}, "retries": {}}
    seen = {"key": "o", "kind": "seen", "source": "owner", "summary": MARK, "data": {}, "at": now}
    wake = {"step_key": "w", "reason": MARK, "zone": "UTC", "state": "open", "due_at": now}
    goal = {"pipeline": "p", "template": {"name": "p", "steps": []}, "facts": {"title": MARK}, "rank": 1}
    lesson = {"scope": "general", "text": MARK, "words": MARK.lower(), "seen": [f"{turn.run_id}/x"], "count": 1}
    tokens = {"model": "m", "input_tokens": 1, "output_tokens": 1}
    rows: list[tuple[Table, dict[str, Any]]] = [
        (usage, of | tokens | {"step_key": "u", "at": now}),
        (approvals, of | made | asked | {"id": "A1", "step_key": "a", "state": "allowed", "expires_at": now}),
        (tasks, of | made | {"id": "T1", "step_key": "t", "mode": "background", "task": MARK, "state": "open"}),
        (sessions, made | {"id": "S-task", "key": "task:T1"}),
        (messages, made | {"session_id": "S-task", "role": "user", "text": MARK, "data": {}}),
        (wakes, of | made | place | wake | {"id": "W1", "session_key": OWN_KEY}),
        (notices, made | place | {"key": "n", "session_id": session.id, "text": MARK}),
        (supervision, made | watch | {"task_id": "T2", "next_check_at": now + timedelta(days=1)}),
        (observations, seen | {"task_id": "T2"}),
        (goals, made | goal | {"id": "g1", "session_id": session.id, "closed_at": now}),
        (tries, {"goal_id": "g1", "step": "s", "number": 1, "due_at": now, "ended_at": now}),
        (learnings, lesson | {"id": "l1", "state": "kept", "first_at": now, "last_at": now}),
        (distillations, {"log": f"{folder_of(ID)}/2026-01-01.md", "digest": "d", "at": now}),
        (album_parts, made | {"message_key": "p", "session_key": GROUP_KEY, "album": "a", "event": group_part}),
        (backups, of | made | {"path": MARK, "kept": f".moab/backups/{turn.run_id}/x"}),
    ]
    with life.house.tx() as tx:
        for table, row in rows:
            tx.execute(table.insert().values(row))
    make_files(life, turn.run_id)


def make_files(life: Embedded, run: str) -> None:
    whole = life.house.harness.workspace
    own = whole.of(folder_of(ID)).root
    memory = f"- {MARK} <!-- learned l1 -->\n- other <!-- learned l2 -->\n"
    texts = {
        own / "MEMORY.md": MARK,
        own / f".moab/backups/{run}/x": MARK,
        own / f".moab/artifacts/{run}-tool.txt": MARK,
        whole.root / f".moab/goals/g1/{MARK}.txt": MARK,
        whole.root / "MEMORY.md": memory,
        versions(whole.root) / "MEMORY-20260101T000000000000.md": memory,
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def places_of(life: Embedded, word: str) -> list[str]:
    """The files of the home, databases among them, that have the word in their bytes or in their name."""
    home = life.house.harness.settings.moab_home
    files = [path for path in sorted(home.rglob("*")) if path.is_file()]
    return [
        str(path.relative_to(home))
        for path in files
        if word.lower().encode() in path.read_bytes().lower() or word.lower() in str(path.relative_to(home)).lower()
    ]


def test_every_table_is_about_people_or_says_why_not(life: Embedded) -> None:
    about = {table.name for table in person_records.conditions(person_records.Holdings(ID))}
    assert about | set(IMPERSONAL) == set(metadata.tables) and not about & set(IMPERSONAL)


async def test_nothing_is_left_anywhere(life: Embedded, http: httpx.AsyncClient) -> None:
    await say_much(life)
    with life.house.tx() as tx:
        of = person_records.holdings(tx, ID)
        counts = {
            table.name: tx.scalar(select(func.count()).select_from(table).where(mine))
            for table, mine in person_records.conditions(of).items()
        }
    assert [name for name, count in counts.items() if not count] == [], "a table that this test does not try"
    assert {"moab", "engine"} <= {Path(name).name.partition(".")[0] for name in places_of(life, MARK)}
    (still,) = [run for run in await life.runs("handle-message") if run.status == "Running"]

    gone = (await http.post(f"/api/people/{ID}/forget")).json()
    assert (gone["memory"], gone["openRuns"]) == ("deleted", 0) and gone["runs"] >= 6
    assert places_of(life, MARK) == []
    assert places_of(life, NUMBER) == []
    assert still.id not in [run.id for run in await life.runs("handle-message")]
    left = [row.session_id for row in life.house.rows(usage.select())]
    assert "forgotten" in left and not set(of.sessions) & set(left), "what was paid stays, and not by whom"
    assert life.house.harness.workspace.text_of("MEMORY.md") == "- other <!-- learned l2 -->\n"
    await life.pass_time(4000, 500)
    assert "never" not in life.house.channel.sent and await life.runs("failure-handler") == []
    assert places_of(life, MARK) == []


async def test_a_group_goes_on_without_what_was_said_in_it(life: Embedded, http: httpx.AsyncClient) -> None:
    await say_much(life)
    (group,) = life.house.rows(sessions.select().where(sessions.c.key == GROUP_KEY))
    with life.house.tx() as tx:
        covers = {"covers": [1, group.head_id]}
        row = {"session_id": group.id, "role": "summary", "parent_id": group.head_id, "text": MARK, "data": covers}
        summary = tx.execute(messages.insert().values(row | {"attached": True, "created_at": life.clock.now()}))
        tx.execute(sessions.update().where(sessions.c.id == group.id).values(head_id=summary.inserted_primary_key[0]))
    await http.post(f"/api/people/{ID}/forget")
    life.house.model.answers = ["Fine."]
    await life.send(said("@bot still there?", 5, who="6", group=True))
    shown = life.house.model.requests[-1][1]
    check_messages(shown)
    assert DELETED in str(shown) and "and I?" in str(shown) and "still there?" in str(shown)
    assert life.house.channel.sent[-1] == "Fine."


async def test_where_only_he_has_spoken_the_group_keeps_to_its_own_memory(
    life: Embedded, http: httpx.AsyncClient
) -> None:
    """And does not fall to the operator's, as what nobody said would."""
    await life.send(said(f"@bot {MARK}", 3, group=True))
    await http.post(f"/api/people/{ID}/forget")
    (group,) = life.house.rows(sessions.select().where(sessions.c.key == GROUP_KEY))
    with life.house.tx() as tx:
        assert principal_of(tx, group.id, ()).folder == folder_of(GROUP_KEY)
    assert places_of(life, MARK) == []


async def test_a_group_is_forgotten_with_all_that_was_said_in_it(life: Embedded, http: httpx.AsyncClient) -> None:
    await life.send(said(f"@bot {MARK}", 3, group=True))
    assert (await http.post("/api/people/test:-7/forget")).json()["sessions"] == 1
    assert places_of(life, MARK) == []


async def test_what_is_exported_is_what_would_be_deleted(life: Embedded, http: httpx.AsyncClient) -> None:
    await say_much(life)
    found = (await http.get(f"/api/people/{ID}/export")).json()
    tables = {table.name for table in person_records.conditions(person_records.Holdings(ID))}
    assert {name for name, rows in found.items() if rows} == {*tables, "saidInGroups", "files"}
    assert [row["text"] for row in found["saidInGroups"]] == [f"@bot {MARK}"]


async def test_a_thought_that_comes_late_brings_nothing_back(life: Embedded, http: httpx.AsyncClient) -> None:
    """The model is at it while everything is deleted: what it says then has no place any more."""
    thinking, go = asyncio.Event(), asyncio.Event()

    async def late() -> str:
        thinking.set()
        await go.wait()
        return f"I know {MARK}."

    life.house.model.answers = [late, "Hello again."]
    await accept(life.house.harness, said(f"I am {MARK}", 1))
    await thinking.wait()
    assert (await http.post(f"/api/people/{ID}/forget")).status_code == 200
    go.set()
    await life.link.engine.idle()
    await life.pass_time(120, 30)
    await life.house.db.scrub()
    assert places_of(life, MARK) == [] and rows_of(life, messages) == rows_of(life, turns) == []
    assert life.house.channel.sent == [] and await life.runs("failure-handler") == []
    await life.send(said("hello", 2))
    assert life.house.channel.sent == ["Hello again."], "and a new conversation begins from nothing"


def rows_of(life: Embedded, table: Table) -> list[Any]:
    return list(life.house.rows(table.select()))
