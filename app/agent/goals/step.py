"""The first and the last step of a try: taken by one run, and ended with what came of it."""

from typing import Any

from app.agent.announce import announce
from app.agent.flow import Flow, Frozen
from app.agent.goals.dispatch import claim_of, session_key, standing_of
from app.agent.goals.end import PIPELINE, Failure, end_done, end_failed, end_redo
from app.agent.harness import Harness
from app.agent.models.chosen import choose_models
from app.agent.receive import policy_now
from app.db import Tx
from app.events import SubagentSpawn, WorkStepDone
from app.failpoints import reach
from app.ids import new_id
from app.sessions import session, turns
from app.work import goals, ledger
from app.work.desk import Desk
from app.work.goals import Claim, Goal
from app.work.life import Life
from app.work.observation import Kind, Observation
from app.work.pipeline import ASKING, Action, Step
from app.work.standing import Standing

MARGIN_S = 600
"""How much longer than its time limit a step may be idle before nobody is believed to be at it."""

PROTECTED = frozenset({"policy.toml"})


class Task(Frozen):
    """What a run is to do: `action` of a try, under the conditions `flow`; or nothing (`gone`)."""

    task_id: str
    flow: Flow
    action: Action | None = None
    gone: bool = False


class Worked(Frozen):
    """What came of the work of a try. `malformed` and `refused` are answers of a model that another try may better;
    `long` is a text that is to be read in `parts` of `size` characters.
    """

    kind: str
    product: str = ""
    summary: str = ""
    reason: str = ""
    hopeless: bool = False
    cause: str = "EXECUTION_ERROR"
    retry_after_s: float = 0.0
    redo: str = ""
    parts: int = 0
    size: int = 0

    @classmethod
    def failed(cls, reason: str, *, hopeless: bool = False) -> "Worked":
        return cls(kind="failed", reason=reason, hopeless=hopeless)


async def begin(harness: Harness, run_id: str, spawn: SubagentSpawn) -> dict[str, Any]:
    """A Task as JSON: the try is this run's, or there is nothing to do. Safe to repeat."""
    policy = await policy_now(harness, "machine")
    taken = await harness.db.write(_take, harness, run_id, spawn.task_id)
    reach("goal.begun")
    flow = Flow(run_id=run_id, session_key=spawn.sub_session_key, policy=policy, delegates=False)
    if taken is None:
        return Task(task_id=spawn.task_id, flow=flow, gone=True).wire()
    step, session_id = taken
    models = choose_models(harness.settings, step.tool, "", delegates=False)
    model = step.tool if step.tool and step.action in (Action.LLM, Action.CHECK, Action.AGENT) else models.main
    conditions = {
        "session_id": session_id,
        "model": model,
        "fallback": models.fallback if models.fallback != model else "",
        "summary_model": models.summary,
        "max_iterations": harness.settings.agent_max_iterations,
        "code_version": harness.code_version,
    }
    return Task(task_id=spawn.task_id, flow=flow.model_copy(update=conditions), action=step.action).wire()


def _take(tx: Tx, harness: Harness, run_id: str, task_id: str) -> tuple[Step, str] | None:
    """The step and the session of the try, now of this run; None if it has another, has ended, or its goal has."""
    claim, now = claim_of(tx, task_id), harness.clock.now()
    goal = goals.find(tx, claim.goal_id) if claim is not None else None
    if claim is None or goal is None or goal.closed_at is not None or not goals.begin(tx, claim, run_id):
        return None
    step = goal.pipeline.step(claim.step)
    asking_s = harness.settings.approval_lifetime.total_seconds() if step.action in ASKING else 0
    data = {"try": claim.number, "run": run_id, "idle_s": step.timeout + asking_s + MARGIN_S}
    key = f"{claim.step}#{claim.number}:begun"
    ledger.append(tx, Observation(goal.id, Kind.STEP_PROGRESS, key, now, PIPELINE, claim.step, "", data))
    session_id = session.open_session(tx, session_key(claim), new_id(harness.clock), now)
    if step.action is not Action.AGENT:  # a sub-agent's turn begins with its message
        turns.start(
            tx,
            run_id,
            session_id,
            message_key=task_id,
            origin="machine",
            model=step.tool or harness.settings.model,
            boot_id=harness.boot_id,
            now=now,
        )
        session.claim(tx, session_id, run_id, boot_id=harness.boot_id, now=now)
    return step, session_id


def note_progress(tx: Tx, harness: Harness, task_id: str, line: str) -> None:
    """Note that the work of a try gets on, at most once a minute."""
    claim, now = claim_of(tx, task_id), harness.clock.now()
    if claim is None or claim.ended_at is not None:
        return
    key = f"{claim.step}#{claim.number}:{now:%Y-%m-%dT%H:%M}"
    data = {"try": claim.number}
    ledger.append(tx, Observation(claim.goal_id, Kind.STEP_PROGRESS, key, now, PIPELINE, claim.step, line, data))


async def end(harness: Harness, task: Task, worked: Worked) -> dict[str, Any]:
    """Write down what came of a try, once; then the events that start what follows, and a line in the daily log."""
    reach("goal.worked")
    events, goal_id = await harness.db.write(_end, harness, task, worked)
    reach("goal.ended")
    await _note(harness, goal_id)
    done = WorkStepDone(session_key=f"goal:{goal_id}", step_id=task.task_id)
    await announce(harness, [*events, done.to_wire(f"{task.task_id}:done:{new_id(harness.clock)}")])
    harness.notifier.publish(f"goal:{goal_id}")
    reach("goal.announced")
    return worked.wire()


def _end(tx: Tx, harness: Harness, task: Task, worked: Worked) -> tuple[list[dict[str, Any]], str]:
    claim = claim_of(tx, task.task_id)
    if claim is None or claim.run_id != task.flow.run_id or worked.kind == "stopped":
        return [], task.task_id.partition("/")[0]
    if worked.kind == "done":
        return end_done(tx, harness, claim, worked.product, worked.summary), claim.goal_id
    if worked.redo:
        return end_redo(tx, harness, claim, worked.redo, worked.reason), claim.goal_id
    failure = Failure(worked.reason, worked.hopeless, worked.cause, worked.retry_after_s)
    return end_failed(tx, harness, claim, failure), claim.goal_id


async def _note(harness: Harness, goal_id: str) -> None:
    """A line in the daily log about a goal that has come to its end, once."""
    goal = await harness.db.read(goals.find, goal_id)
    if goal is None or goal.closed_at is None:
        return
    stands = await harness.db.read(standing_of, goal)
    if stands.life is Life.COMPLETED:
        text = f"Done by itself: {goal.title} ({goal.pipeline.name}, {goal.id})."
    else:
        text = f"Not done: {goal.title} ({goal.pipeline.name}, {goal.id}): {stands.reason}"
    await harness.daily_log.remember(text, f"goal/{goal.id}/{stands.life}/{len(stands.tries)}")


def desk_of(harness: Harness, stands: Standing) -> Desk:
    """The files of a goal."""
    root = harness.workspace.root
    return Desk(root, harness.settings.delivery_folder, PROTECTED, stands.goal, stands.products)


def at_work(tx: Tx, task_id: str) -> tuple[Claim, Step, Standing] | None:
    """The try with its step and its goal's standing; None if its goal has come to an end."""
    claim = claim_of(tx, task_id)
    goal: Goal | None = goals.find(tx, claim.goal_id) if claim is not None else None
    if claim is None or goal is None or goal.closed_at is not None:
        return None
    return claim, goal.pipeline.step(claim.step), standing_of(tx, goal)
