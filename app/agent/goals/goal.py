"""Goals as people, tools and folders make them: once for the same wish, and once for the same content."""

import asyncio
import re
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.agent.announce import announce
from app.agent.goals.dispatch import dispatch, start_again
from app.agent.goals.end import PIPELINE, give_up
from app.agent.goals.watched import is_watched
from app.agent.harness import Harness
from app.agent.heartbeat.telling import home_chat
from app.db import Tx
from app.errors import BadInput, NotFound
from app.failpoints import reach
from app.sessions import session
from app.work import goals, tracking
from app.work.goals import WATCHED, Goal
from app.work.life import Priority
from app.work.observation import Kind, Observation
from app.work.pipeline import Pipeline
from app.work.supervision import Executor
from app.work.watcher import digest_of

MAX_TITLE = 120
MAX_SLUG = 60
TOO_SMALL = "needs a real model, and only the small local one is here: set AGENT_MODEL, and the key of its provider."


@dataclass(frozen=True)
class GoalWish:
    """A goal to be made. The same `identity` makes it once; `again`: also if this content became one before.

    `source` is an absolute path, "" for none; its `digest` is found out where it is not given. A `fault` says why the
    source cannot become work. `watched` is whether it lies in a watched folder; `make_goal` finds that out.
    """

    pipeline: str
    identity: str
    source: str = ""
    title: str = ""
    priority: Priority = Priority.PERSON
    session_id: str | None = None
    digest: str = ""
    fault: str = ""
    again: bool = False
    watched: bool = False


@dataclass(frozen=True)
class Made:
    """What came of a wish: the goal, and whether it is new."""

    goal: Goal
    fresh: bool
    events: tuple[dict[str, Any], ...] = ()


async def make_goal(harness: Harness, wish: GoalWish) -> Made:
    """A goal with its first steps started. Raises NotFound or BadInput for a pipeline or source that does not fit."""
    pipeline = await asyncio.to_thread(harness.library.find, wish.pipeline)
    if pipeline.needs_model and harness.settings.is_local_model:
        raise BadInput(f"{pipeline.name} {TOO_SMALL}")
    _check(pipeline, wish)
    digest = wish.digest or (await asyncio.to_thread(_digest, wish.source) if wish.source else "")
    if wish.source:
        wish = replace(wish, watched=await asyncio.to_thread(is_watched, harness, wish.source))
    made = await harness.db.write(create, harness, pipeline, wish, digest)
    reach("goal.created")
    if made.events:
        await announce(harness, made.events)
    return made


def _check(pipeline: Pipeline, wish: GoalWish) -> None:
    if pipeline.needs_source and not wish.source:
        raise BadInput(f"The pipeline {pipeline.name} begins with a file; name one.")
    ending = Path(wish.source).suffix.removeprefix(".").lower()
    accepted = [one.removeprefix(".").lower() for one in pipeline.accepts]
    if wish.source and accepted and ending not in accepted:
        raise BadInput(f"{Path(wish.source).name}: {pipeline.name} does not take it; accepted: {', '.join(accepted)}.")


def _digest(source: str) -> str:
    path = Path(source)
    if not path.is_file():
        raise NotFound(f"There is no file {source}.")
    if path.stat().st_size == 0:
        raise BadInput(f"{source} is empty.")
    try:
        return digest_of(path)
    except OSError as error:
        raise BadInput(f"{source} cannot be read ({error.strerror}).") from error


def create(tx: Tx, harness: Harness, pipeline: Pipeline, wish: GoalWish, digest: str) -> Made:
    """The goal's row and its first line in the ledger, once; a source that cannot become work fails it at once."""
    goal_id = goals.goal_id(wish.identity)
    known = goals.find(tx, goal_id)
    if known is None and digest and not wish.again:
        known = goals.of_digest(tx, pipeline.name, digest)
    if known is not None:
        return Made(known, False, tuple(start_again(tx, harness, known.id)))
    now = harness.clock.now()
    home = home_chat(tx, harness)
    goal = Goal(
        id=goal_id,
        pipeline=pipeline,
        facts=_facts(tx, harness, goal_id, wish),
        digest=digest or None,
        rank=wish.priority.rank,
        session_id=wish.session_id or (home.session_id if home is not None else None),
        created_at=now,
    )
    goals.add(tx, goal)
    steps = [step.id for step in pipeline.steps]
    owner = session.key_of(tx, goal.session_id) if goal.session_id is not None else None
    data = {"goal": goal.title, "steps": steps, "pipeline": pipeline.name, "priority": wish.priority, "owner": owner}
    opening = Observation(goal_id, Kind.STARTED, "started", now, PIPELINE, data=data)
    tracking.start(tx, opening, executor=Executor.PIPELINE)
    events = give_up(tx, harness, goal, wish.fault) if wish.fault else dispatch(tx, harness)
    return Made(goal, True, tuple(events))


def _facts(tx: Tx, harness: Harness, goal_id: str, wish: GoalWish) -> dict[str, str]:
    name = _plain(Path(wish.source).name)
    title = _plain(wish.title) or _plain(Path(wish.source).stem) or wish.pipeline
    day = f"{harness.daily_log.local(harness.clock.now()):%Y-%m-%d}"
    slug = slug_of(title)
    if goals.has_slug(tx, slug, day):  # the pages of another goal have this name
        slug = f"{slug}-{goal_id[1:]}"
    names = {"goal": goal_id, "title": title, "slug": slug, "date": day, "source": wish.source, "file": name}
    return names | {WATCHED: "yes" if wish.watched else "no"}


def _plain(text: str) -> str:
    """`text` on one line, without what could end a quoted value or be taken for markup."""
    kept = "".join(c for c in text if unicodedata.category(c)[0] != "C" and c not in '"\\<>[]`')
    return " ".join(kept.split())[:MAX_TITLE]


def slug_of(title: str) -> str:
    """A short name for files: small letters, digits and dashes."""
    letters = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:MAX_SLUG].strip("-") or "untitled"
