"""Files of this machine as they go with a message over HTTP."""

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path

from app.errors import BadInput

VOICE = (".ogg", ".oga", ".opus")
"""What phones record speech as: the agent takes it for something that is said to it."""
KINDS = {"image": "photo", "audio": "audio", "video": "video"}

File = dict[str, str]


def attached(paths: Sequence[Path]) -> tuple[File, ...]:
    """`{"kind", "name", "mime"?, "data": base64}` of each file. Raises BadInput naming the one that cannot be read."""
    return tuple(map(_attached, paths))


def _attached(path: Path) -> File:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be sent ({error.strerror}); accepted: a file that you may read.") from error
    mime = mimetypes.guess_type(path.name)[0]
    kind = "voice" if path.suffix.lower() in VOICE else KINDS.get((mime or "").partition("/")[0], "document")
    file = {"kind": kind, "name": path.name, "data": base64.b64encode(data).decode()}
    return file | ({"mime": mime} if mime else {})
