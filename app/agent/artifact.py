"""Results too large for the model: the head and tail stay, the whole lies in a file the model can read in pieces."""

import asyncio

from app.agent.context.picture_file import small_picture
from app.agent.output import cap, clean
from app.files import write_atomic
from app.memory.workspace import Workspace
from app.sessions.calls import CallRecord

RESULT_BYTES = 16 * 1024
TURN_BYTES = 48 * 1024
LEAST_BYTES = 1024


def limit_bytes(used: int, beside: int) -> int:
    """How much one result may take: at most 16 KB, and with those of the same message 48 KB in all.

    `used` is what earlier results of the message take; `beside` is how many run at the same time and share the rest.
    Each may keep 1 KB in any case.
    """
    return max(LEAST_BYTES, min(RESULT_BYTES, (TURN_BYTES - used) // beside))


async def keep_within(workspace: Workspace, record: CallRecord, text: str, limit: int) -> tuple[str, str | None]:
    """(`text` cleaned and at most `limit` bytes, path of the whole in the workspace if it was longer)."""
    cleaned = clean(text)
    if len(cleaned.encode("utf-8")) <= limit:
        return cleaned, None
    relative = await _keep(workspace, record, ".txt", cleaned)
    return cap(cleaned, limit, artifact=relative).text, relative


async def keep_picture(workspace: Workspace, record: CallRecord, data: bytes) -> str | None:
    """Path in the workspace of a small copy of the picture in `data`, which stays as it was; None if it is none."""
    picture = await asyncio.to_thread(small_picture, data)
    return await _keep(workspace, record, picture.suffix, picture.data) if picture is not None else None


async def _keep(workspace: Workspace, record: CallRecord, suffix: str, content: str | bytes) -> str:
    path = workspace.artifacts / f"{record.run_id}-{record.step_key.replace('#', '-')}{suffix}"
    await asyncio.to_thread(write_atomic, path, content)
    return path.relative_to(workspace.root).as_posix()
