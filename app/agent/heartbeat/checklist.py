"""HEARTBEAT.md: a checklist that the model looks at now and then, by day only and with small context."""

import asyncio
import hashlib
import json
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from app.agent import quiet
from app.agent.announce import announce, machine_input, start_message
from app.agent.harness import Harness
from app.agent.heartbeat.night import is_night
from app.agent.heartbeat.telling import home_chat, tell, zone_of
from app.agent.models.llm import ModelFailure
from app.agent.people.aside import ask_aside
from app.channels import outbox
from app.db import Tx
from app.events import MessageReceived
from app.sentences import Sentence, retell, say
from app.sessions import turns
from app.work import rounds

log = logging.getLogger("moab.agent")

FILE = "HEARTBEAT.md"
ROUND = "checklist"
ORIGIN = quiet.HEARTBEAT
EVERY = timedelta(minutes=30)
LONGEST = timedelta(hours=4)
QUIET_BEFORE_PAUSE = 3
"""After so many quiet looks in a row the pause doubles, and again after as many more."""

MAX_FAILURES = 5
MAX_CHARS = 8_000
NOTES_CHARS = 1_500

INSTRUCTION = """\
You look at a checklist on behalf of an assistant and decide whether anything on it needs attention now. You have no
tools: if something needs doing or telling, speak, and the assistant will do it. Speak only of what is due now; do not
repeat what the notes say was done. Answer with one JSON object and nothing else:
{"say": "quiet"} or {"say": "speak", "text": "what is to be done or told, in full"}"""

FOUND = f"The checklist HEARTBEAT.md was looked at, and this needs attention now: {{text}}\n({quiet.HINT})"
CALL_FAILED = Sentence("the model call failed ({trouble})")
NO_VERDICT = Sentence("no verdict in it")
STOPPED = Sentence(
    "I have stopped looking at HEARTBEAT.md: {count} looks in a row failed, the last one because of this: {reason}. "
    "I begin again when the file changes, or after `moab heartbeat --now`."
)


class Verdict(BaseModel):
    """What a look came to."""

    model_config = ConfigDict(frozen=True)

    say: Literal["quiet", "speak"]
    text: str = ""


def has_items(text: str) -> bool:
    """Whether there is anything on a checklist besides headings and comments."""
    lines = (line.strip() for line in _without_comments(text).splitlines())
    return any(line and not line.startswith("#") for line in lines)


def _without_comments(text: str) -> str:
    before, begun, rest = text.partition("<!--")
    return before + _without_comments(rest.partition("-->")[2]) if begun else before


def verdict_of(answer: str) -> Verdict | None:
    """The verdict in a model's answer; None if there is none, or nothing is said in it."""
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        found = Verdict.model_validate(json.loads(answer[begin : end + 1]))
    except (ValueError, ValidationError, RecursionError):
        return None
    return None if found.say == "speak" and not found.text.strip() else found


def pause_after(quiet: int) -> timedelta:
    """How long until the next look after so many quiet ones in a row."""
    factor: int = 2 ** min(quiet // QUIET_BEFORE_PAUSE, 10)
    return min(EVERY * factor, LONGEST)


def read_checklist(root: Path) -> str:
    """The checklist of the workspace `root`; empty if there is nothing on it. Blocks."""
    path = root / FILE
    text = path.read_text("utf-8", errors="replace")[:MAX_CHARS] if path.is_file() else ""
    return text if has_items(text) else ""


def take_look(tx: Tx, harness: Harness, text: str) -> bool:
    """Whether this beat is to look: by day, if it is time, and if there is somebody to tell.

    Who had stopped after failures begins again once the checklist has changed.
    """
    now = harness.clock.now()
    if not text or harness.settings.is_local_model:
        return False
    chat = home_chat(tx, harness)
    if chat is None or is_night(now, zone_of(tx, harness, chat.session_id), harness.settings.quiet):
        return False
    before = rounds.find(tx, ROUND)
    if before is not None and before.next_at is None and before.note != _digest(text):
        rounds.note(tx, ROUND, before.last_at, now, quiet=0, failures=0)
    return rounds.take(tx, ROUND, now, now + EVERY)


def look_now(tx: Tx, now: datetime) -> None:
    """Let the next beat look, whatever the pause; failures are forgotten."""
    if (before := rounds.find(tx, ROUND)) is not None:
        rounds.note(tx, ROUND, before.last_at, now, failures=0, quiet=0)


async def look_at_checklist(harness: Harness, run_id: str, _of: str) -> dict[str, Any]:
    """Ask the model once; what it wants to say becomes an input of the chat in which a person has written last.

    `{"say": quiet, speak or failed}`.
    """
    text = await asyncio.to_thread(read_checklist, harness.workspace.root)
    answer = await ask_aside(harness, run_id, "checklist", await _question(harness, text))
    found = verdict_of(answer.text) if not isinstance(answer, ModelFailure) else None
    reason = CALL_FAILED.format(trouble=answer.trouble) if isinstance(answer, ModelFailure) else NO_VERDICT
    if found is None:
        log.info("The look at %s failed: %s.", FILE, reason, extra={"run": run_id})
        events = await harness.db.write(_note_failure, harness, text, reason)
        if events:
            await announce(harness, events)
        return {"say": "failed"}
    event = await harness.db.write(_note_verdict, harness, run_id, found)
    if event is not None:
        await start_message(harness, event, str(event.message_key))
    return {"say": found.say}


async def _question(harness: Harness, text: str) -> list[dict[str, str]]:
    today = harness.daily_log.today()
    notes = (await asyncio.to_thread(harness.workspace.read, today)).today[-NOTES_CHARS:]
    now = harness.daily_log.local(harness.clock.now())
    content = f"It is {now:%A, %Y-%m-%d %H:%M} ({harness.settings.timezone}).\n\n## Checklist\n\n{text}"
    content += f"\n\n## Notes of today\n\n{notes or '(none)'}"
    return [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": content}]


def _note_verdict(tx: Tx, harness: Harness, run_id: str, found: Verdict) -> MessageReceived | None:
    now = harness.clock.now()
    key = f"{ORIGIN}:{run_id}"
    if turns.for_message(tx, key) is not None:  # this step ran before
        return None
    before = rounds.find(tx, ROUND)
    quiet = (before.quiet if before else 0) + 1 if found.say == "quiet" else 0
    rounds.note(tx, ROUND, now, now + pause_after(quiet), quiet=quiet, failures=0)
    chat = home_chat(tx, harness) if found.say == "speak" else None
    if chat is None:
        return None
    return machine_input(tx, harness, key, chat.session_key, chat, FOUND.format(text=found.text.strip()), ORIGIN)


def _note_failure(tx: Tx, harness: Harness, text: str, reason: str) -> list[dict[str, Any]]:
    now = harness.clock.now()
    before = rounds.find(tx, ROUND)
    failures = (before.failures if before else 0) + 1
    stops = failures >= MAX_FAILURES
    rounds.note(tx, ROUND, now, None if stops else now + EVERY, failures=failures, note=_digest(text))
    chat = home_chat(tx, harness) if stops else None
    if chat is None:
        return []
    language = outbox.language_of(tx, chat.session_id)
    said = say(STOPPED, language, count=failures, reason=retell(reason, language))
    return tell(tx, harness, f"checklist/{now.isoformat()}", chat.session_id, chat, said)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
