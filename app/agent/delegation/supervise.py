"""Carrying out what the monitor decides: asking the owner, ordering a retry, telling a person, ending the watch."""

import logging
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select

from app.agent import quiet
from app.agent.announce import announce, machine_input, start_message
from app.agent.goals.orders import nudge
from app.agent.harness import Harness
from app.agent.heartbeat.telling import home_chat, tell
from app.channels import outbox
from app.clock import milliseconds
from app.db import Tx
from app.events import MessageReceived
from app.failpoints import reach
from app.sentences import Sentence, retell, say
from app.tables import messages, sessions
from app.work import ledger, overview, supervision
from app.work.monitor import Action, Do, decide, next_check
from app.work.observation import EVIDENCE
from app.work.projection import Derived
from app.work.supervision import Executor, Supervision

log = logging.getLogger("moab.agent")

ORIGIN = quiet.MONITOR
SHOWN = 50

ASK = """{reason}
{state} Its goal: {goal}
Look how it really stands, then answer with task_reply (task_id {id}), which takes one branch:
A still working (name the step), B done, C blocked (with the reason), D waiting outside (with the job and evidence: \
one of {evidence}), E give up.
Question {attempt} of {limit}. It is not from the user. {hint}"""
PIPELINE = " A pipeline is at it: goal_status shows it."
DELEGATED = " A sub-agent is at it: list_tasks shows it, cancel_task ends it."
AT_IT = {Executor.SUB_AGENT: DELEGATED, Executor.PIPELINE: PIPELINE}
RETRY = """{reason} This may pass: try {what} again now. This is retry {attempt} of {limit}.
{state} Its goal: {goal}
Note what comes of it with task_progress or, if it is blocked again, with task_block (task_id {id}). {hint}"""
TOLD = Sentence("{goal}\nThis does not get on by itself: {reason}\n(task {id}; `moab task show {id}` shows all of it)")


@dataclass(frozen=True)
class Chat:
    """Where the owner of a task can be reached."""

    session_id: str
    session_key: str
    channel: str
    destination: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """What one look at a task came to: the decision, and what is to be sent because of it."""

    task_id: str
    action: Action
    asked: MessageReceived | None = None
    events: tuple[dict[str, Any], ...] = ()


async def run_monitor(harness: Harness, *, everything: bool = False, task_id: str = "") -> dict[str, Any]:
    """Look at every tracked task whose time has come (or at `everything` watched, or of that at the task `task_id`)
    and do what the monitor decides.

    For the heartbeat's step: repeated, it does nothing twice, and with nothing due it is one read. Answers with
    `{"looked": how many, "kinds": {decision: how many}, "decided": the first of those that are not OK}`, as JSON.
    """
    now = harness.clock.now()
    if everything:
        watches = await harness.db.read(supervision.everything)
    else:
        watches = await harness.db.read(supervision.due, now)
    watches = [watch for watch in watches if task_id in ("", watch.task_id)]
    looked = [await harness.db.write(_look, harness, watch.task_id, now) for watch in watches]
    done = [one for one in looked if one is not None]
    reach("monitor.committed")
    for one in done:
        if one.asked is not None:
            await start_message(harness, one.asked, str(one.asked.message_key))
        if one.events:
            await announce(harness, one.events)
    news = [one for one in done if one.action.kind is not Do.OK]
    return {
        "looked": len(done),
        "kinds": dict(Counter(one.action.kind.value for one in done)),
        "decided": [{"id": one.task_id, "action": overview.action(one.action)} for one in news[:SHOWN]],
    }


def _look(tx: Tx, harness: Harness, task_id: str, now: datetime) -> Done | None:
    """Decide on a task and do it; None if nobody watches over it any more."""
    watch = supervision.find(tx, task_id)
    if watch is None:
        return None
    chat = chat_of(tx, harness, watch.owner_key)
    derived = ledger.derived(tx, task_id)
    reachable = watch if chat is not None else replace(watch, owner_key=None)
    action = decide(derived, reachable, now)
    if action.kind is Do.STOP_AND_DELETE:
        supervision.end(tx, task_id)
        return Done(task_id, action)
    changes = _changes(action, reachable, now) if action.is_due(now) else {}
    after = replace(reachable, **changes)
    changes["next_check_at"] = next_check(derived, after, decide(derived, after, now), now)
    if not supervision.change(tx, watch, **changes):
        return None  # another beat was faster
    if action.kind is Do.NUDGE_MAIN_AGENT and watch.executor == Executor.PIPELINE:
        return Done(task_id, action, None, tuple(nudge(tx, harness, task_id, action.subject)))
    asked = _ask(tx, harness, chat, derived, watch, action, now) if chat and _is_asking(changes) else None
    events = _tell(tx, harness, chat, derived, action, now) if "escalated_at" in changes else ()
    return Done(task_id, action, asked, tuple(events))


def _changes(action: Action, watch: Supervision, now: datetime) -> dict[str, Any]:
    """What is noted about an action that is carried out now; nothing for one that is none.

    A pipeline tries again by itself, and counts in the ledger: what it failed to do is a block, what it does progress.
    """
    if action.tells:
        return {"escalated_at": now}
    if watch.executor == Executor.PIPELINE and (action.subject or action.kind is Do.RETRY):
        return {}
    if action.kind in (Do.OWNER_RECONCILE, Do.NUDGE_MAIN_AGENT):
        return {"asks": action.attempt, "asked_at": now}
    if action.kind is Do.RETRY:
        return {"retries": dict(watch.retries) | {action.subject: action.attempt}, "retried_at": now}
    return {}


def _is_asking(changes: dict[str, Any]) -> bool:
    return "asked_at" in changes or "retried_at" in changes


def chat_of(tx: Tx, harness: Harness, owner_key: str | None) -> Chat | None:
    """The conversation of a key, if an answer of it can go anywhere; after `/new` it is still the same chat."""
    query = (
        select(messages.c.session_id, sessions.c.key.label("session_key"), messages.c.channel, messages.c.destination)
        .join(sessions, sessions.c.id == messages.c.session_id)
        .where(sessions.c.key == owner_key, messages.c.channel.in_(list(harness.channels)))
        .order_by(messages.c.id.desc())
        .limit(1)
    )
    row = tx.execute(query).first()
    return None if row is None else Chat(**row._mapping)


def _ask(
    tx: Tx, harness: Harness, chat: Chat, derived: Derived, watch: Supervision, action: Action, now: datetime
) -> MessageReceived:
    """The question or the retry as an input of the owner's session, which steers nobody."""
    is_retry = action.kind is Do.RETRY
    text = (RETRY if is_retry else ASK).format(
        reason=action.reason,
        state=overview.in_words(derived) + AT_IT.get(Executor(watch.executor), ""),
        goal=derived.goal,
        id=derived.task_id,
        hint=quiet.HINT,
        what=action.subject or "it",
        evidence=", ".join(EVIDENCE),
        attempt=action.attempt,
        limit=watch.limits.retries if is_retry else watch.limits.asks,
    )
    key = f"monitor:{derived.task_id}:{milliseconds(now)}"
    return machine_input(tx, harness, key, chat.session_key, chat, text, ORIGIN)


def _tell(
    tx: Tx, harness: Harness, chat: Chat | None, derived: Derived, action: Action, now: datetime
) -> list[dict[str, Any]]:
    """A notice to the person: in the owner's chat, else where a person spoke last."""
    home = None if chat is not None else home_chat(tx, harness)
    place = chat if chat is not None else home
    if place is None:
        log.warning("Task %s: %s Nobody can be told; `moab task show` shows it.", derived.task_id, action.reason)
        return []
    language = outbox.language_of(tx, place.session_id)
    reasons = derived.inconsistencies if action.kind is Do.TRUTH_INCONSISTENT else (action.reason,)
    reason = " ".join(retell(one, language) for one in reasons)
    text = say(TOLD, language, goal=derived.goal, reason=reason, id=derived.task_id)
    return tell(tx, harness, f"tracked/{derived.task_id}/{milliseconds(now)}", place.session_id, place, text)
