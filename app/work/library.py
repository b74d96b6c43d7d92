"""The pipelines at hand: files of a folder, read again when they change."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.errors import BadInput, NotFound
from app.work.pipeline import FOLDER, Pipeline, parse

MAX_FILES = 200
ENDING = ".yaml"

log = logging.getLogger("moab.work")


@dataclass(frozen=True)
class Shelf:
    """What a look at the folder found: pipelines by name, and the faults of files that are none."""

    pipelines: Mapping[str, Pipeline]
    faults: Mapping[str, str]


class Library:
    """The folder pipelines/ of a workspace. Its methods block; call them in a thread."""

    def __init__(self, workspace: Path) -> None:
        self._folder = workspace / FOLDER
        self._known: dict[str, tuple[tuple[int, int, int], Pipeline | str]] = {}
        self._told = ""

    def look(self) -> Shelf:
        """All of it as it is now; a file that did not change is not read again, a new fault is logged once."""
        self._known = {path.name.removesuffix(ENDING): self._read(path) for path in self._files()}
        found = {name: entry for name, (_, entry) in self._known.items()}
        pipelines = {name: entry for name, entry in found.items() if isinstance(entry, Pipeline)}
        faults = {name: entry for name, entry in found.items() if isinstance(entry, str)}
        return Shelf(MappingProxyType(pipelines), MappingProxyType(faults))

    def find(self, name: str) -> Pipeline:
        """The pipeline of this name. Raises BadInput with the faults of its file, NotFound with the names there are."""
        shelf = self.look()
        if name in shelf.faults:
            raise BadInput(shelf.faults[name])
        if name not in shelf.pipelines:
            accepted = ", ".join(shelf.pipelines) or "none; put one into pipelines/"
            raise NotFound(f"There is no pipeline {name!r}; there are: {accepted}.")
        return shelf.pipelines[name]

    def complain(self, fault: str) -> None:
        """Log what is wrong with the files beside it, once as long as it stays the same; "" if nothing is."""
        if fault and fault != self._told:
            log.warning("%s", fault, extra={"action": "pipeline"})
        self._told = fault

    def _files(self) -> "list[os.DirEntry[str]]":
        try:
            with os.scandir(self._folder) as found:
                return sorted((one for one in found if one.name.endswith(ENDING)), key=lambda one: one.name)[:MAX_FILES]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _read(self, path: "os.DirEntry[str]") -> tuple[tuple[int, int, int], Pipeline | str]:
        name = path.name.removesuffix(ENDING)
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._known.get(name)
            if known is not None and known[0] == stamp:
                return known
            entry: Pipeline | str = parse(name, Path(path).read_text("utf-8"))
        except BadInput as error:
            entry = str(error)
        except (OSError, UnicodeDecodeError) as error:
            return (0, 0, 0), f"{FOLDER}/{name}.yaml: it cannot be read: {error}"
        if isinstance(entry, str):
            log.warning("A pipeline is refused: %s", entry, extra={"action": "pipeline"})
        return stamp, entry
