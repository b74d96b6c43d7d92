"""Distilling daily logs into MEMORY.md: which are due is a pure decision; the words come from a model."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

from sqlalchemy import delete, insert, select

from app.db import Tx
from app.memory.daily_log import LogFile
from app.tables import distillations

LONG_LOG_BYTES = 6_000
KEEP_LOGS_FOR = timedelta(days=30)
MAX_MEMORY_CHARS = 20_000
SMALL_MEMORY_CHARS = 500
MUST_KEEP = 0.5
"""A memory that is not small never shrinks below this part at once."""

_FENCED = re.compile(r"```\w*\n(.*)```", re.DOTALL)

INSTRUCTION = """\
You keep the long-term memory of an assistant. Below are the present MEMORY.md and the notes of one day.
Write the new MEMORY.md: keep what is still true, add what will matter later (facts, decisions, preferences, open
work), merge what says the same, drop what is done and what was only of the day. Markdown, short lines, at most
{limit} characters. Answer with the file's content only."""


def due(logs: Sequence[LogFile], distilled: Mapping[str, str], today: date) -> list[LogFile]:
    """Logs to distil, oldest first: changed since the last time, and either over a day old or already long."""
    changed = [log for log in logs if distilled.get(log.name) != log.digest and log.size > 0]
    return [log for log in changed if log.day < today or log.size > LONG_LOG_BYTES]


def outdated(logs: Sequence[LogFile], distilled: Mapping[str, str], today: date) -> list[LogFile]:
    """Logs to delete: older than KEEP_LOGS_FOR and distilled as they are."""
    return [log for log in logs if log.day < today - KEEP_LOGS_FOR and distilled.get(log.name) == log.digest]


def request(memory: str, notes: str) -> list[dict[str, str]]:
    """The messages for the model, in OpenAI format."""
    return [
        {"role": "system", "content": INSTRUCTION.format(limit=MAX_MEMORY_CHARS)},
        {"role": "user", "content": f"## MEMORY.md\n\n{memory or '(empty)'}\n\n## Notes\n\n{notes}"},
    ]


def accepted(answer: str, present: str = "") -> str | None:
    """The new content of MEMORY.md, or None when the answer cannot be it: empty, too long, or so much shorter than
    what is there at `present` that something was lost.
    """
    fenced = _FENCED.fullmatch(answer.strip())
    text = (fenced[1] if fenced else answer).strip()
    known = len(present.strip())
    if known > SMALL_MEMORY_CHARS and len(text) < known * MUST_KEEP:
        return None
    return text + "\n" if 0 < len(text) <= MAX_MEMORY_CHARS else None


DONE = select(distillations.c.log, distillations.c.digest)


def done(tx: Tx) -> dict[str, str]:
    """Digest of each log's content when it was last distilled, by file name."""
    rows = tx.execute(DONE).all()
    return {row.log: row.digest for row in rows}


def note_done(tx: Tx, log: LogFile, now: datetime) -> None:
    tx.execute(delete(distillations).where(distillations.c.log == log.name))
    tx.execute(insert(distillations).values(log=log.name, digest=log.digest, at=now))
