"""`moab task` against the real API on a real port: what is written, what is shown, and what is refused."""

import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.web.tasks import tasks_router
from tests.unit.house import SESSION, House, whole_turn
from tests.unit.work.typed import Moab, typing


@pytest.fixture
async def moab(house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moab]:
    async with typing(house, monkeypatch, tasks_router(house.harness)) as run:
        yield functools.partial(run, "task")


async def shown(moab: Moab, *arguments: str) -> dict[str, Any]:
    done = await moab(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


async def begin_task(moab: Moab, *more: str) -> dict[str, Any]:
    return await shown(moab, "init", "film", "--goal", "cut the film", "--step", "a", "--step", "b", *more)


async def test_the_examples_of_the_manual(moab: Moab) -> None:
    await begin_task(moab)
    await shown(moab, "checkpoint", "film", "--event-type", "STEP_PROGRESS", "--step", "a", "--summary", "half of it")
    page = await shown(moab, "show", "film")
    assert page["derived"] == page["derived"] | {
        "workflow": ["a", "b"],
        "current_step": "a",
        "step_states": {"a": "RUNNING", "b": "PENDING"},
        "pending_external": [],
        "truth_state": "RUNNING",
        "inconsistencies": [],
    }
    assert [(one["kind"], one["step"], one["summary"]) for one in page["observed"]] == [
        ("STARTED", None, ""),
        ("STEP_PROGRESS", "a", "half of it"),
    ]
    assert page["action"]["kind"] == "OK" and page["supervision"]["executor"] == "owner"


async def test_every_verb_writes_what_it_says(moab: Moab) -> None:
    await begin_task(moab)
    await shown(moab, "checkpoint", "film", "--event-type", "step_completed", "--step", "a")
    job = ("external-job", "film", "--job", "render", "--source", "render.example", "--step", "b")
    page = await shown(moab, *job, "--job-id", "42", "--status-url", "https://render.example/42")
    (pending,) = page["derived"]["pending_external"]
    assert (pending["source"], pending["step"]) == ("render.example", "b")
    assert pending["evidence"] == {"job_id": "42", "status_url": "https://render.example/42"}
    assert page["derived"]["truth_state"] == "WAITING_EXTERNAL"
    await shown(moab, *job, "--status", "completed")
    load = ("download-observed", "film", "--path", "film.mp4", "--source", "curl", "--step", "b")
    page = await shown(moab, *load, "--bytes", "10", "--expected-bytes", "20", "--status", "incomplete")
    assert page["derived"]["blocks"][0]["reason"] == "DOWNLOAD_INCOMPLETE" and page["action"]["kind"] == "RETRY"
    await shown(moab, *load, "--bytes", "20", "--status", "completed")
    page = await shown(moab, "block", "film", "--step", "b", "--reason", "NEEDS_A_KEY", "--summary", "no key")
    assert page["action"] == page["action"] | {
        "kind": "BLOCKED_ESCALATE",
        "reason": "b is blocked: NEEDS_A_KEY. no key",
    }
    page = await shown(moab, "owner-reply", "film", "--branch", "b", "--summary", "it was there")
    assert (page["derived"]["truth_state"], page["action"]["kind"]) == ("COMPLETED", "STOP_AND_DELETE")


async def test_a_heartbeat_says_whether_something_was_done(moab: Moab, house: House) -> None:
    await begin_task(moab)
    house.clock.advance(60)
    page = await shown(moab, "checkpoint", "film", "--event-type", "HEARTBEAT", "--alive")
    assert page["derived"]["progressed_at"] == "2026-01-05T12:00:00+00:00"
    page = await shown(moab, "checkpoint", "film", "--event-type", "HEARTBEAT")
    assert page["derived"]["progressed_at"] == "2026-01-05T12:01:00+00:00"


async def test_a_repeat_under_the_same_key_adds_nothing(moab: Moab) -> None:
    for _ in range(2):
        await begin_task(moab, "--key", "once")
        page = await shown(
            moab, "checkpoint", "film", "--event-type", "STEP_COMPLETED", "--step", "a", "--key", "a is done"
        )
    assert len(page["observed"]) == 2 and page["derived"]["inconsistencies"] == []


async def test_the_monitor_says_what_it_would_do_and_does_it_when_told(moab: Moab, house: House) -> None:
    await whole_turn(house)
    page = await begin_task(moab, "--session", SESSION, "--nudge-after", "600")
    assert (page["owner"], page["supervision"]["limits"]["stale_s"]) == (SESSION, 400)
    house.clock.advance(600)
    before = len(house.sender.events)
    assert "film  NUDGE_MAIN_AGENT: No progress since" in (await moab("monitor")).output
    (decided,) = (await shown(moab, "monitor", "film"))["decided"]
    assert decided["action"]["kind"] == "NUDGE_MAIN_AGENT" and len(house.sender.events) == before
    assert (await shown(moab, "monitor", "other"))["decided"] == []
    assert (await shown(moab, "monitor", "other", "--apply"))["decided"] == []
    assert len(house.sender.events) == before, "only what was named"
    assert len((await shown(moab, "monitor", "film", "--apply"))["decided"]) == 1
    assert house.sender.events[-1]["data"]["origin"] == "the monitor"


async def test_what_people_read(moab: Moab) -> None:
    assert (await moab("list")).output == "No tasks are tracked.\n"
    assert (await moab("monitor")).output == "No task is watched over.\n"
    await begin_task(moab)
    assert (await moab("monitor")).output.startswith("film  OK")
    assert (await moab("monitor", "film", "--apply")).output == "Nothing had to be done.\n"
    await moab("external-job", "film", "--job", "render", "--source", "a friend")
    text = (await moab("show", "film")).output
    assert text.startswith("film  INCONSISTENT  cut the film\n  a: PENDING\n  b: PENDING\n")
    assert "  waits outside for render, as a friend said (no evidence)\n" in text
    assert "  ! render is said to be pending outside, without evidence.\n" in text
    assert "monitor: TRUTH_INCONSISTENT" in text and "EXTERNAL_OBSERVED (a friend)" in text
    assert (await moab("list")).output == "film  INCONSISTENT (a)  TRUTH_INCONSISTENT  cut the film\n"
    await moab("init", "song", "--goal", "sing")
    assert (await moab("list", "--limit", "1")).output.startswith("song")
    assert len((await moab("list", "--limit", "1")).output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "nothing"), "There is no task nothing; `moab task list` shows"),
        (("init", "a/b", "--goal", "g"), "'a/b' is no task id; accepted: up to 100 letters"),
        (("init", "film", "--goal", "g"), "There is a task film already"),
        (("init", "x", "--goal", "g", "--step", "a", "--step", "a"), "two steps share a name"),
        (("checkpoint", "film", "--event-type", "DONE"), "--event-type 'DONE' is not accepted: STEP_PROGRESS,"),
        (("checkpoint", "film", "--event-type", "STEP_PROGRESS"), "needs the name of its step"),
        (("checkpoint", "film", "--event-type", "STEP_PROGRESS", "--step", "c"), "no step 'c'; accepted: a, b"),
        (("external-job", "film", "--job", "j", "--source", "s", "--status", "maybe"), "pending, completed, failed"),
        (("owner-reply", "film", "--branch", "F"), "branch"),
        (("owner-reply", "film", "--branch", "C"), "needs a reason"),
        (("owner-reply", "nothing", "--branch", "A"), "There is no task nothing"),
    ],
)
async def test_what_is_refused_says_what_is_accepted_and_writes_nothing(
    moab: Moab, arguments: tuple[str, ...], sentence: str
) -> None:
    await begin_task(moab)
    done = await moab(*arguments)
    assert done.exit_code == 1 and sentence in str(done.exception)
    assert len((await shown(moab, "show", "film"))["observed"]) == 1
    assert len((await shown(moab, "list"))["tasks"]) == 1
