"""The compact step: a summary record takes the place of the older part of a transcript; nothing is deleted."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.agent.announce import announce, notice
from app.agent.attend import attend
from app.agent.context.build import build_context
from app.agent.context.coverage import Range, plan, weight
from app.agent.context.pruning import size
from app.agent.context.summary import accepted, request, stand_in
from app.agent.context.window import CHARS_PER_TOKEN, window_of, worth_chars
from app.agent.flow import Compaction, Flow
from app.agent.harness import Harness
from app.agent.models import spending
from app.agent.models.llm import Asking, Completion, Facts, ModelFailure, Trouble
from app.agent.recovery import SUMMARY_TRIES, pause_s
from app.channels import outbox
from app.db import Tx
from app.failpoints import reach
from app.sentences import Sentence, say
from app.sessions import branch, deposit, session, transcript, turns, usage
from app.sessions.session import Claim
from app.sessions.transcript import SUMMARY, Entry

log = logging.getLogger("moab.agent")

MUST_LEAVE = 0.9
"""A summary that leaves more than this part of what the model is shown does not help."""

READ_AT_MOST = 0.5
"""The part of the summary model's window that is filled with what it is to summarise."""

SHORTENED = Sentence(
    "This conversation has become too long for the model, and a summary of its older part could not be made. I go on "
    "with the newer part and short notes of the older one; nothing is deleted, and /new starts afresh."
)


@dataclass(frozen=True)
class Found:
    """What is to be summarised: the transcript as it stood at `head`, and the part of it."""

    head: int
    entries: Sequence[Entry]
    part: Range


async def compact(harness: Harness, flow: Flow, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A Compaction as JSON. `asked` has key, model and attempt (from 0)."""
    facts = await harness.llm.facts(str(asked["model"]))
    found = await harness.db.write(_look, harness, flow, asked, facts)
    if isinstance(found, Compaction):
        return found.wire()
    answer: Completion | None = None
    text: str | None = stand_in(found.part)
    if asked["attempt"] < SUMMARY_TRIES:
        window = window_of(harness.settings.context_tokens, facts.window)
        wanted = request(found.part, int(window * CHARS_PER_TOKEN * READ_AT_MOST))
        asking = Asking(urgent=flow.policy.is_of_person)
        reply = await attend(harness, flow, harness.llm.complete(str(asked["model"]), wanted, asking=asking))
        if not isinstance(reply, Completion):
            return (await _failed(harness, flow, asked, reply)).wire()
        answer, text = reply, accepted(reply.text)
    reach("compact.answered")
    before, after = _measure(found, text)
    helps = text is not None and after < before * (MUST_LEAVE if answer else 1.0)
    log.info("A summary leaves %d of %d characters; it %s.", after, before, "is taken" if helps else "does not help")
    record = (text or "", {"model": asked["model"] if answer else None, "before": before, "after": after})
    done, events = await harness.db.write(
        _record, harness, flow, asked, found, facts, answer, record if helps else None
    )
    reach("compact.committed")
    if events:
        await announce(harness, events)
    harness.notifier.publish(flow.session_key)
    return done.wire()


def _look(tx: Tx, harness: Harness, flow: Flow, asked: Mapping[str, Any], facts: Facts) -> Compaction | Found:
    """Our own record if this step ran before; else what is to be summarised, with what that may cost reserved."""
    now = harness.clock.now()
    key, model = str(asked["key"]), str(asked["model"])
    if transcript.find_step(tx, flow.run_id, key) is not None:
        return Compaction(kind="done")
    doing = {"activity": "thinking", "tool": None}
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now, doing=doing)
    if claim is not Claim.HELD:
        return Compaction(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    head = _head(tx, flow, asked)
    entries = transcript.load(tx, flow.session_id, head)
    worth = worth_chars(window_of(harness.settings.context_tokens, facts.window))
    part = plan(entries, worth) or plan(entries, 1)
    if part is None or head is None:
        return Compaction(kind="nothing")
    if asked["attempt"] < SUMMARY_TRIES:
        tokens = (len(part.summary) + sum(map(weight, part.entries))) // CHARS_PER_TOKEN
        if spending.reserve(tx, harness, flow, key, model, facts, tokens, now) is not None:
            return Compaction(kind="failed")
    return Found(head, entries, part)


def _head(tx: Tx, flow: Flow, asked: Mapping[str, Any]) -> int | None:
    if flow.start_head is None:
        return session.head_of(tx, flow.session_id)
    return branch.head_for(tx, flow.session_id, flow.run_id, flow.start_head, asked.get("head"))


def _measure(found: Found, text: str | None) -> tuple[int, int]:
    """Characters that the model is shown before and after."""
    before = size(build_context(found.entries, ""))
    if text is None:
        return before, before
    covers = {"covers": [found.part.first, found.part.last]}
    summary = Entry(-1, SUMMARY, text, found.entries[-1].at, data=covers)
    return before, size(build_context([*found.entries, summary], ""))


async def _failed(harness: Harness, flow: Flow, asked: Mapping[str, Any], reply: ModelFailure | None) -> Compaction:
    """Stopped meanwhile (None), or a model failure as a value; one that passes by itself is worth a wait."""
    until = None
    if reply is not None:
        log.info("The summary failed (%s): %s", reply.trouble, reply.message, extra={"run": flow.run_id})
        if reply.trouble in (Trouble.OVERLOADED, Trouble.UNAVAILABLE):
            until = harness.clock.now() + timedelta(seconds=pause_s(int(asked["attempt"]), reply.retry_after_s))

    def give_back(tx: Tx) -> None:
        usage.release(tx, flow.run_id, str(asked["key"]))
        if until is not None:
            turns.wait_until(tx, flow.run_id, until)

    await harness.db.write(give_back)
    if reply is None:
        return Compaction(kind="stopped")
    return Compaction(kind="failed", wait_until=until.isoformat() if until else None)


def _record(
    tx: Tx,
    harness: Harness,
    flow: Flow,
    asked: Mapping[str, Any],
    found: Found,
    facts: Facts,
    answer: Completion | None,
    record: tuple[str, dict[str, Any]] | None,
) -> tuple[Compaction, list[dict[str, Any]]]:
    """Only the holder records, and only behind the transcript that was summarised; the call is paid in any case."""
    now = harness.clock.now()
    if answer is not None:
        spending.settle(tx, flow, str(asked["key"]), str(asked["model"]), facts, answer, now)
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
    if claim is not Claim.HELD:
        return Compaction(kind=claim.value), []  # type: ignore[arg-type]  # busy needs steers=False
    if record is None or _head(tx, flow, asked) != found.head:
        return Compaction(kind="nothing" if answer is None else "failed"), []
    text, measured = record
    transcript.record_summary(
        tx,
        flow.session_id,
        run_id=flow.run_id,
        step_key=str(asked["key"]),
        parent=found.head,
        text=text,
        data={"covers": [found.part.first, found.part.last], **measured},
        now=now,
        moves_head=flow.start_head is None,
    )
    return Compaction(kind="done"), _tell(tx, harness, flow) if answer is None else []


def _tell(tx: Tx, harness: Harness, flow: Flow) -> list[dict[str, Any]]:
    """Say once in a session that its older part was cut without a summary; the event that says so."""
    key = f"{flow.session_id}/shortened"
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None or place.channel not in harness.channels or outbox.exists(tx, key):
        return []
    text = say(SHORTENED, outbox.language_of(tx, flow.session_id))
    return notice(tx, harness, key, flow.session_id, place, text, flow.run_id)
