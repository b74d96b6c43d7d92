"""A goal is a tracked task: watched over from its start to its end, and found by the monitor when a step dies."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from app.agent.act import act
from app.agent.delegation import supervise
from app.agent.delegation.supervise import run_monitor
from app.agent.flow import Flow
from app.agent.goals import step as goal_step
from app.agent.goals.dispatch import start_event
from app.agent.goals.orders import cancel_goal, continue_goals, retry_goal
from app.agent.think import think
from app.agent.tool import Toolbox
from app.cli.goals_text import goals_table
from app.errors import NotFound, ServiceUnavailable
from app.events import SubagentSpawn
from app.goal_tables import goals as goal_rows
from app.goal_tables import tries
from app.migrate import SCRIPTS
from app.speech import Transcript
from app.tables import calls as call_rows
from app.tables import messages, observations
from app.work import goals, ledger, supervision, tracking
from app.work.observation import Branch, Kind, Observation
from app.work.projection import Truth
from app.work.supervision import Executor, Supervision
from tests.unit.house import SESSION, House, ScriptedModel, ask, begin, run_id, wishes
from tests.unit.work.goal_house import WORDS, Ears, Engine, make, put_pipeline, told, view
from tools.tracked import task_progress, task_reply

DEMO = """
steps:
  - {id: a, action: notify, content: "one"}
  - {id: b, action: notify, content: "two", needs: [a]}
"""
RISKY = """
steps:
  - {id: run, action: exec, command: "true"}
"""


async def demo(house: House, text: str = DEMO) -> str:
    put_pipeline(house, "demo", text)
    return (await make(house, "demo", identity="one")).goal.id


async def monitor(house: House, minutes: float = 0) -> dict[str, int]:
    house.clock.advance(minutes * 60)
    return dict((await run_monitor(house.harness))["kinds"])


async def die_at(house: House, engine: Engine, step: str) -> None:
    """A run takes a try of `step`, and is never heard of again."""
    await engine.run(until=lambda: any(spawn.task == step for _, _, spawn in engine.waiting()))
    claim = next(one for one in await house.db.read(goals.open_claims, house.clock.now()) if one.step == step)
    spawn = SubagentSpawn.from_data(start_event(claim)["data"])
    task = goal_step.Task.model_validate(await goal_step.begin(house.harness, run_id(9), spawn))
    assert not task.gone


def asked(house: House) -> list[str]:
    rows = house.rows(messages.select().where(messages.c.origin == supervise.ORIGIN).order_by(messages.c.id))
    return [row.text for row in rows]


async def watch(house: House, goal_id: str) -> Supervision | None:
    return await house.db.read(supervision.find, goal_id)


async def see(house: House, goal_id: str, kind: Kind, step: str | None = None, **data: Any) -> None:
    key = f"outside:{len(house.rows(observations.select()))}"
    seen = Observation(goal_id, kind, key, house.clock.now(), "operator", step, data=data)
    await house.db.write(tracking.reply if kind is Kind.OWNER_REPLY_RECORDED else tracking.record, seen)


async def check_indexes(house: House) -> None:
    """What the rows of goals and tries say follows from the ledger: nothing is kept twice that could differ."""
    for row in house.rows(goal_rows.select()):
        derived = await house.db.read(ledger.derived, row.id)
        seen = await house.db.read(ledger.of_task, row.id)
        assert (row.closed_at is not None) == derived.is_terminal, (row.id, derived.truth_state)
        ended = {
            (one.step, one.data.get("try")) for one in seen if one.kind in (Kind.STEP_COMPLETED, Kind.BLOCKED_CONFIRMED)
        }
        redone = {one.data["by"] for one in seen if one.kind is Kind.OWNER_RESUMED and "by" in one.data}
        for claim in house.rows(tries.select().where(tries.c.goal_id == row.id)):
            is_over = (claim.step, claim.number) in ended or claim.step in redone or derived.is_terminal
            assert (claim.ended_at is not None) == is_over, (claim.step, claim.number)


async def test_a_goal_is_watched_from_its_start_to_its_end(goal_house: House, engine: Engine) -> None:
    flow = await begin(goal_house, "do it")
    put_pipeline(goal_house, "demo", DEMO)
    goal_id = (await make(goal_house, "demo", session_id=flow.session_id)).goal.id
    held = await watch(goal_house, goal_id)
    assert held is not None and (held.executor, held.owner_key) == ("pipeline", SESSION)
    assert await monitor(goal_house) == {}, "nothing was observed of it since"
    await engine.run(until=lambda: engine.steps == ["a"])
    assert await monitor(goal_house) == {"OK": 1}
    await engine.run()
    assert await monitor(goal_house) == {"STOP_AND_DELETE": 1}
    assert await watch(goal_house, goal_id) is None and asked(goal_house) == []


async def test_a_step_that_died_in_silence_is_found_and_tried_again(goal_house: House, engine: Engine) -> None:
    goal_id = await demo(goal_house)
    await die_at(goal_house, engine, "b")
    await monitor(goal_house)
    assert await monitor(goal_house, 19) == {}, "its time limit has not passed"
    assert await monitor(goal_house, 1) == {"NUDGE_MAIN_AGENT": 1}
    shown = await view(goal_house, goal_id)
    assert (shown["life"], "nobody is at it any more" in shown["reason"]) == ("FAILED", True)
    assert await monitor(goal_house) == {"RETRY": 1}, "shown; the pipeline does it by itself"
    await engine.run()
    assert (await view(goal_house, goal_id))["life"] == "COMPLETED"
    assert (await goal_house.db.read(ledger.derived, goal_id)).inconsistencies == ()
    assert asked(goal_house) == [] and told(goal_house) == ["one", "two"]
    await check_indexes(goal_house)


async def test_progress_of_another_step_does_not_hide_a_dead_one(goal_house: House, engine: Engine) -> None:
    goal_id = await demo(goal_house, DEMO.replace(", needs: [a]", ""))
    await die_at(goal_house, engine, "b")
    goal_house.clock.advance(19 * 60)
    await engine.run()  # step a
    assert await monitor(goal_house, 1) == {"NUDGE_MAIN_AGENT": 1}
    assert (await goal_house.db.read(ledger.derived, goal_id)).blocks[0].step == "b"


async def test_a_command_that_may_have_run_is_not_run_again(goal_house: House, engine: Engine) -> None:
    goal_id = await demo(goal_house, RISKY)
    await die_at(goal_house, engine, "run")
    lifetime = goal_house.harness.settings.approval_lifetime.total_seconds() / 60
    assert await monitor(goal_house, lifetime + 19) == {"OK": 1}, "a person may be asked as long as that"
    assert await monitor(goal_house, 1) == {"NUDGE_MAIN_AGENT": 1}
    assert (await view(goal_house, goal_id))["life"] == "FAILED_PERMANENT"
    assert len(told(goal_house)) == 1 and "nobody is at it any more" in told(goal_house)[0]
    assert await monitor(goal_house) == {"STOP_AND_DELETE": 1}
    await check_indexes(goal_house)


async def test_a_retry_is_the_pipelines_alone(goal_house: House, engine: Engine, recording: Path) -> None:
    """What it failed to do is a block with a reason that passes, and the monitor asks and tells nobody."""
    await begin(goal_house, "hello")
    away(goal_house)
    goal_id = (await make(goal_house, "podcast_from_audio", recording)).goal.id
    await engine.run(until=lambda: len(engine.steps) == 1)
    again = await view(goal_house, goal_id)
    assert again["nextTryAt"] > goal_house.clock.now().isoformat()
    assert f"(tried again at {again['nextTryAt'][:19].replace('T', ' ')}Z)" in goals_table([again])
    assert [await monitor(goal_house, minutes) for minutes in (0, 0.1)] == [{"RETRY": 1}, {}]
    await engine.run()
    assert asked(goal_house) == [] and len(told(goal_house)) == 1
    assert (await view(goal_house, goal_id))["life"] == "FAILED_PERMANENT"
    await check_indexes(goal_house)


async def test_two_monitors_at_once_fail_a_dead_step_once(goal_house: House, engine: Engine) -> None:
    goal_id = await demo(goal_house)
    await die_at(goal_house, engine, "b")
    goal_house.clock.advance(20 * 60)
    await asyncio.gather(*(run_monitor(goal_house.harness) for _ in range(3)))
    failed = [one for one in await goal_house.db.read(ledger.of_task, goal_id) if one.kind is Kind.BLOCKED_CONFIRMED]
    assert len(failed) == 1


async def test_a_goal_that_does_not_begin_for_days_is_told_of_once(goal_house: House) -> None:
    await begin(goal_house, "hello")
    await demo(goal_house)
    kinds = [await monitor(goal_house, 24 * 60) for _ in range(6)]
    assert kinds[:3] == [{"NUDGE_MAIN_AGENT": 1}] * 3 and kinds[3:] == [{"STALE_PROGRESS": 1}] * 3
    assert len(told(goal_house)) == 1 and asked(goal_house) == []


async def test_what_contradicts_itself_is_asked_about_where_the_goal_belongs(goal_house: House, engine: Engine) -> None:
    await begin(goal_house, "hello")
    goal_id = await demo(goal_house)
    await see(goal_house, goal_id, Kind.TASK_COMPLETED)
    assert await monitor(goal_house) == {"OWNER_RECONCILE": 1}
    (question,) = asked(goal_house)
    assert "not its steps: a, b" in question and "A pipeline is at it" in question
    assert (await view(goal_house, goal_id))["life"] == "CREATED", "it did not end by that"
    await see(goal_house, goal_id, Kind.OWNER_REPLY_RECORDED, branch=Branch.WORKING)
    await engine.run()
    assert (await view(goal_house, goal_id))["life"] == "COMPLETED"
    await check_indexes(goal_house)


@pytest.mark.parametrize(("branch", "life"), [(Branch.DONE, "COMPLETED"), (Branch.GIVEN_UP, "CANCELLED")])
async def test_the_owners_word_ends_a_goal(goal_house: House, engine: Engine, branch: Branch, life: str) -> None:
    goal_id = await demo(goal_house)
    await see(goal_house, goal_id, Kind.OWNER_REPLY_RECORDED, branch=branch)
    assert (await view(goal_house, goal_id))["life"] == life
    await engine.run()
    assert told(goal_house) == [], "a run that comes late has nothing to do"
    await check_indexes(goal_house)


async def test_a_goal_that_an_observation_opens_again_goes_on(goal_house: House, engine: Engine) -> None:
    goal_id = await demo(goal_house)
    await engine.run()
    await monitor(goal_house)
    await see(goal_house, goal_id, Kind.OWNER_RESUMED, "b")
    held = await watch(goal_house, goal_id)
    assert held is not None and held.executor == "pipeline"
    await continue_goals(goal_house.harness)
    await engine.run()
    assert engine.steps == ["a", "b", "b"] and (await view(goal_house, goal_id))["life"] == "COMPLETED"
    await check_indexes(goal_house)


def away(house: House) -> None:
    object.__setattr__(house.harness, "speech", Ears([ServiceUnavailable("nobody listens")]))


async def test_cancelled_and_tried_again_the_rows_follow_the_ledger(
    goal_house: House, engine: Engine, recording: Path
) -> None:
    first = await demo(goal_house)
    await engine.run(until=lambda: engine.steps == ["a"])
    await cancel_goal(goal_house.harness, first)
    with pytest.raises(NotFound, match="CANCELLED"):
        await cancel_goal(goal_house.harness, first)
    await check_indexes(goal_house)
    away(goal_house)
    failed = (await make(goal_house, "podcast_from_audio", recording)).goal.id
    await engine.run()
    await monitor(goal_house)
    await check_indexes(goal_house)
    await retry_goal(goal_house.harness, failed)
    assert await watch(goal_house, failed) is not None
    await check_indexes(goal_house)


async def test_the_agent_answers_and_does_not_observe(goal_house: House, engine: Engine) -> None:
    flow = await begin(goal_house, "hello")
    goal_id = await demo(goal_house)
    object.__setattr__(goal_house.harness, "toolbox", Toolbox.of(task_progress, task_reply))
    assert "its pipeline observes it" in await call(
        goal_house, flow, 0, "task_progress", task_id=goal_id, step="a", summary="did it"
    )
    await die_at(goal_house, engine, "a")
    assert "ABANDONED" in await call(goal_house, flow, 1, "task_reply", task_id=goal_id, branch="E", summary="enough")
    assert goal_house.sender.of("agent.task.cancelled")[-1]["data"]["taskId"] == f"{goal_id}/a/1"
    assert (await goal_house.db.read(ledger.derived, goal_id)).truth_state is Truth.ABANDONED
    await check_indexes(goal_house)


async def call(house: House, flow: Flow, number: int, tool: str, **given: Any) -> str:
    model = ScriptedModel(wishes((tool, given)))
    harness = replace(house.harness, llm=model)
    await think(harness, flow, ask(number))
    await act(harness, flow, {"key": f"tool#{number}.0", "name": tool})
    return str(house.rows(call_rows.select().order_by(call_rows.c.id.desc()))[0].result)


class Patient(Ears):
    """Hears a recording of so many minutes, a piece a minute; what happens meanwhile is told it."""

    def __init__(self, house: House, minutes: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.house, self.minutes, self.meanwhile = house, minutes, meanwhile

    async def transcribe(self, path: Path, **given: Any) -> Transcript:
        for minute in range(1, self.minutes + 1):
            self.house.clock.advance(60)
            await given["progress"](minute * 60.0, self.minutes * 60.0)
            await given["progress"](minute * 60.0 + 1, self.minutes * 60.0)
            await self.meanwhile()
        return Transcript(WORDS, "en", self.minutes * 60.0, 0.9)


async def test_four_hours_of_listening_are_never_asked_about(
    goal_house: House, engine: Engine, recording: Path
) -> None:
    decided: set[str] = set()
    times = 0.0
    loop = asyncio.get_running_loop()
    real = loop.time

    async def meanwhile() -> None:
        nonlocal times
        times += 600  # ten minutes of the machine's own time for each of the recording: ten times its time limit
        decided.update(await monitor(goal_house))
        await asyncio.sleep(0)

    loop.time = lambda: real() + times  # type: ignore[method-assign]
    object.__setattr__(goal_house.harness, "speech", Patient(goal_house, 240, meanwhile))
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run(until=lambda: "transcribe" in engine.steps)
    del loop.time  # type: ignore[misc]
    seen = await goal_house.db.read(ledger.of_task, made.goal.id)
    heard = [one for one in seen if one.step == "transcribe" and one.summary.endswith("min heard")]
    assert decided == {"OK"} and len(heard) == 240, "a line a minute, however many pieces"
    assert heard[119].summary == "120 of 240 min heard"
    assert (await view(goal_house, made.goal.id))["steps"][0]["state"] == "done"


async def test_without_a_sign_of_listening_the_step_ends(goal_house: House, engine: Engine, recording: Path) -> None:
    times = 0.0
    loop = asyncio.get_running_loop()
    real = loop.time

    async def meanwhile() -> None:
        nonlocal times
        times += 5 * 3600
        await asyncio.sleep(3600)

    loop.time = lambda: real() + times  # type: ignore[method-assign]
    object.__setattr__(goal_house.harness, "speech", Patient(goal_house, 1, meanwhile))
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run(until=lambda: "transcribe" in engine.steps)
    del loop.time  # type: ignore[misc]
    assert "it did not get on within 14400 seconds" in (await view(goal_house, made.goal.id))["reason"]


def test_goals_of_an_older_database_are_watched_over_once_it_is_migrated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    migrate_to(url, "0011")
    old = create_engine(url)
    with old.begin() as tx:
        tx.execute(text("INSERT INTO sessions (id, key, created_at) VALUES ('S', 'test:chat', '2026-01-05 12:00:00')"))
        goal = text(
            "INSERT INTO goals (id, pipeline, template, facts, rank, session_id, created_at, closed_at) "
            "VALUES (:id, 'demo', '{}', '{}', 0, :session, '2026-01-05 12:00:00', :closed)"
        )
        for name, session, closed in (("g1", "S", None), ("g2", None, None), ("g3", "S", "2026-01-05 13:00:00")):
            tx.execute(goal, {"id": name, "session": session, "closed": closed})
    migrate_to(url, "head")
    with old.begin() as tx:
        held = {one.task_id: one for one in supervision.everything(tx)}
    assert {name: (one.owner_key, one.executor) for name, one in held.items()} == {
        "g1": ("test:chat", "pipeline"),
        "g2": (None, "pipeline"),
    }
    assert {one.limits for one in held.values()} == {supervision.LIMITS[Executor.PIPELINE]}


def migrate_to(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.set_main_option("path_separator", "os")
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
