"""Which folders are watched now, and what lies in them."""

import os

from app.agent.harness import Harness
from app.errors import BadInput
from app.work.library import Shelf
from app.work.watching import FILE, Watching, read


def watching_of(harness: Harness, shelf: Shelf) -> Watching:
    """The folders to watch, without those with a fault, and none while the file as a whole has one; faults are logged.
    Blocks.
    """
    try:
        text = harness.workspace.text_of(FILE)
        watching = read(text or "", harness.workspace.root, harness.settings.device_folders, shelf.pipelines)
    except (BadInput, OSError) as error:
        watching = Watching(faults=(str(error),))
    what = "Not every folder is watched" if watching.folders else "No folder is watched"
    harness.library.complain(f"{what}: {'; '.join(watching.faults)}" if watching.faults else "")
    return watching


def is_watched(harness: Harness, source: str) -> bool:
    """Whether a file lies in a watched folder; what lies elsewhere belongs to a person and stays there. Blocks."""
    folder = os.path.realpath(os.path.dirname(source))
    return any(str(watch.path) == folder for watch in watching_of(harness, harness.library.look()).folders)
