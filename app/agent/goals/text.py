"""What people read about goals. Pure."""

from collections.abc import Mapping
from typing import Any

from app.sentences import retell, say
from app.work.life import Life, Outcome
from app.work.standing import Standing


def failed(stands: Standing, language: str = "") -> str:
    """The one message about a goal that is given up: why, what was done, and where it lies."""
    made = [f"{step}: {product.path or product.summary}" for step, product in stands.products.items()]
    goal = stands.goal
    lines = (
        say('I could not finish "{title}" ({pipeline}).', language, title=goal.title, pipeline=goal.pipeline.name),
        retell(stands.reason, language) or say("Nobody knows why.", language),
        say("Done so far: {done}.", language, done="; ".join(made))
        if made
        else say("Nothing was done so far.", language),
        say("`moab goals retry {id}` tries again what is left.", language, id=goal.id),
    )
    return "\n".join(lines)


def line(stands: Standing) -> str:
    """A goal in one line, its id first."""
    goal = stands.goal
    done = sum(one.outcome is Outcome.DONE and not one.void for one in stands.tries)
    told = f"{goal.id} {stands.life} {goal.pipeline.name} ({done} of {len(goal.pipeline.steps)} steps): {goal.title}"
    is_stuck = stands.life in (Life.FAILED, Life.RETRY, Life.FAILED_PERMANENT)
    return f"{told}. {stands.reason}" if is_stuck and stands.reason else told


def page(stands: Standing) -> str:
    """A goal in one line, and a line for each of its steps."""
    return "\n".join([line(stands), *map(_step_line, view(stands)["steps"])])


def _step_line(step: Mapping[str, Any]) -> str:
    tries = f" after {step['tries']} tries" if step["tries"] > 1 else ""
    made = f": {step['product'] or step['summary']}" if step["product"] or step["summary"] else ""
    return f"- {step['id']} ({step['action']}) {step['state']}{tries}{made}"


def view(stands: Standing) -> dict[str, Any]:
    """A goal as JSON: what it is, its life, every step with its tries and product."""
    goal, ended = stands.goal, stands.derived.ended_at
    return {
        "id": goal.id,
        "pipeline": goal.pipeline.name,
        "title": goal.title,
        "source": goal.facts["source"] or None,
        "life": stands.life,
        "reason": stands.reason or None,
        "createdAt": goal.created_at.isoformat(),
        "closedAt": ended.isoformat() if ended else None,
        "truth": stands.derived.truth_state,
        "steps": [_step(stands, step.id) for step in goal.pipeline.steps],
    }


def _step(stands: Standing, step: str) -> dict[str, Any]:
    tries = [one for one in stands.tries if one.step == step]
    current = [one for one in tries if not one.void]
    product = stands.products.get(step)
    last = max(current, key=lambda one: one.number, default=None)
    if last is None:
        state = "waiting"
    elif last.outcome is not None:
        state = last.outcome.value
    else:
        state = "running" if last.begun else "starting"
    return {
        "id": step,
        "action": stands.goal.pipeline.step(step).action,
        "state": state,
        "tries": len(tries),
        "product": product.path if product else None,
        "summary": product.summary if product else None,
    }
