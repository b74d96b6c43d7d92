"""How a command in the background stands, in words: the end of its output, running or exit code."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from app.agent.output import clean, whole_characters
from app.errors import MoabError
from tools.background_records import FOLDER, Background, exit_code, is_running, output_path, reap
from tools.fence import open_regular
from tools.sniff import size

TAIL_BYTES = 12_000


@dataclass(frozen=True)
class Look:
    """What is to be told of a command; `is_well` is false once it has ended otherwise than with exit code 0."""

    text: str
    is_well: bool


def told_code(code: int) -> str:
    """An exit code in words. A shell reports a child killed by a signal as 128 + its number."""
    number = -code if code < 0 else code - 128
    try:
        return f"exit code {code}, killed by {signal.Signals(number).name}"
    except ValueError:
        return f"exit code {code}"


def look(workspace: Path, record: Background, lines: int) -> Look:
    """The last `lines` of a command's output (as many as fit), and whether it runs or how it ended. Blocks."""
    how, is_well = state(workspace, record)
    tail, total = _tail(output_path(workspace, record.id), record.id, lines)
    where = f"; {size(total)} of output in {FOLDER}/{record.id}.log" if total else ""
    return Look(f"{tail or '(no output)'}\n[{record.id}: {how}{where}]", is_well)


def state(workspace: Path, record: Background) -> tuple[str, bool]:
    """Whether it runs or how it ended, in words, and whether that is well. Blocks."""
    if is_running(workspace, record):
        return f"running since {record.since:%Y-%m-%d %H:%M} UTC", True
    reap(record)
    code = exit_code(workspace, record)
    if code is None:
        return f"{record.note or 'ended, nobody knows how: it was killed, or the machine was restarted'}", False
    return told_code(code) + (f"; {record.note}" if record.note else ""), code == 0


def _tail(path: Path, name: str, lines: int) -> tuple[str, int]:
    try:
        with open_regular(path, name) as file:
            total = os.fstat(file.fileno()).st_size
            file.seek(max(0, total - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
    except MoabError as error:
        return f"(its output cannot be read: {error})", 0
    kept = clean(whole_characters(data)).rstrip("\n").split("\n")
    # The first of them is half a line where the file is longer.
    is_cut = total > TAIL_BYTES and len(kept) > 1
    kept = kept[1:] if is_cut else kept
    shown = kept[-lines:]
    return "\n".join((["[... earlier output left out ...]"] if is_cut or len(shown) < len(kept) else []) + shown), total
