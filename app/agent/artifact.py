"""Results too large for the model: the head and tail stay, the whole lies in a file the model can read in pieces."""

import asyncio

from app.agent.output import cap, clean
from app.files import write_atomic
from app.memory.workspace import Workspace
from app.sessions.calls import CallRecord

RESULT_BYTES = 16 * 1024
TURN_BYTES = 48 * 1024
LEAST_BYTES = 1024


async def keep_within(workspace: Workspace, record: CallRecord, text: str, used: int) -> tuple[str, str | None]:
    """(`text` cleaned and at most 16 KB, path of the whole in the workspace if it was longer).

    `used` is what the results of the same assistant message take already, in bytes; together they stay under 48 KB
    as long as each may keep 1 KB.
    """
    cleaned = clean(text)
    limit = max(LEAST_BYTES, min(RESULT_BYTES, TURN_BYTES - used))
    if len(cleaned.encode("utf-8")) <= limit:
        return cleaned, None
    name = f"{record.run_id}-{record.step_key.replace('#', '-')}.txt"
    path = workspace.artifacts / name
    await asyncio.to_thread(write_atomic, path, cleaned)
    relative = path.relative_to(workspace.root).as_posix()
    return cap(cleaned, limit, artifact=relative).text, relative
