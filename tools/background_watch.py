"""What is observed of a command in the background, as its tracked task says it."""

from pathlib import Path

from app.agent.tool import Sighting
from app.errors import MoabError
from tools.background_look import look, told_code
from tools.background_records import Background, exit_code, is_running, output_path, reap, records
from tools.hiding import Hide

SOURCE = "bash"
SHOWN_LINES = 10
SHOWN_CHARS = 2_000
GONE = "it ended, and nobody knows how: it was killed, or the machine was restarted"
NO_TRACE = "nothing is left of it: it never began, or its record was deleted"


def begins(record: Background, hide: Hide) -> Sighting:
    """That it is started; its task is named after what it is and does."""
    goal = hide(f"background command {record.id}: {' '.join(record.command.split())}")[:SHOWN_CHARS]
    return Sighting(record.task, "STARTED", source=SOURCE, data={"goal": goal, "command": record.id})


def never_began(task_id: str, why: str) -> Sighting:
    """That it came to nothing, whoever tried."""
    data = {"reason": "EXECUTION_ERROR", "final": True, "how": why}
    return Sighting(task_id, "BLOCKED_CONFIRMED", source=SOURCE, summary=why, data=data)


def sightings(workspace: Path, record: Background, hide: Hide) -> tuple[Sighting, ...]:
    """How it stands now: it runs (with how many bytes it has printed), or it has ended, and how. Blocks.

    Nothing of one that an older version started, which no task is of.
    """
    if not record.task:
        return ()
    if is_running(workspace, record):
        return (_job(record, "pending", size=_size(workspace, record)),)
    reap(record)
    code = exit_code(workspace, record)
    last = hide(look(workspace, record, SHOWN_LINES).text)[-SHOWN_CHARS:]
    if code == 0:
        return _job(record, "completed"), Sighting(record.task, "TASK_COMPLETED", source=SOURCE, summary=last)
    how = told_code(code) if code is not None else record.note or GONE
    data = {"reason": "EXECUTION_ERROR", "final": True, "how": how}
    return _job(record, "failed"), Sighting(
        record.task, "BLOCKED_CONFIRMED", source=SOURCE, summary=f"{how}\n{last}", data=data
    )


def given_up(record: Background) -> tuple[Sighting, ...]:
    """That it was ended by who started it."""
    if not record.task:
        return ()
    return (Sighting(record.task, "OWNER_REPLY_RECORDED", source=SOURCE, summary=record.note, data={"branch": "E"}),)


def _job(record: Background, status: str, size: int | None = None) -> Sighting:
    data = {"job": record.id, "status": status, "evidence": {"job_id": f"process {record.pid}"}}
    return Sighting(record.task, "EXTERNAL_OBSERVED", source=SOURCE, data=data | ({"bytes": size} if size else {}))


def _size(workspace: Path, record: Background) -> int:
    try:
        return output_path(workspace, record.id).stat().st_size
    except (OSError, MoabError):
        return 0


class Commands:
    """The commands in the background, for whoever looks after them. Implements `Commands` of the tool contract."""

    def __init__(self, hide: Hide) -> None:
        self._hide = hide

    def seen(self, workspace: Path, task_id: str) -> tuple[Sighting, ...]:
        """How the command of a task stands; that there is nothing of it where its record is not. Blocks."""
        record = next((one for one in records(workspace) if one.task == task_id), None)
        if record is None:
            return (never_began(task_id, NO_TRACE),)
        return sightings(workspace, record, self._hide)
