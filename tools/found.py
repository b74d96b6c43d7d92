"""What a search has found so far, as much of it as a model should read."""

import os
import re

from app.agent.output import clean
from tools.scan import Scope

SHOWN_BYTES = 14_000
LINE_CHARACTERS = 400
SAID_CHARACTERS = 2000

_BINARY = re.compile(rb": (?:binary file matches|WARNING: stopped searching binary file)")
_ROW = re.compile(rb"([^\0]*)\0(\d+)([:-])(.*)", re.DOTALL)


class Names:
    """Takes the names the searcher lists; keeps the first `limit` files of the scope and counts them all."""

    def __init__(self, scope: Scope, limit: int) -> None:
        self.names: list[str] = []
        self.count = 0
        self._scope, self._limit, self._room, self._rest = scope, limit, SHOWN_BYTES, b""

    def take(self, data: bytes) -> bool:
        *paths, self._rest = (self._rest + data).split(b"\0")
        for path in paths:
            name = self._scope.name_of(os.fsdecode(path))
            if name is not None:
                self.count += 1
                self._keep(clean(name))
        return True

    def _keep(self, name: str) -> None:
        self._room -= len(name.encode()) + 1
        if self._room < 0:
            self._limit = 0
        if len(self.names) < self._limit:
            self.names.append(name)


class Matches:
    """Takes the rows the searcher prints; keeps those of the scope, by file, until `limit` lines have matched."""

    def __init__(self, scope: Scope, limit: int, *, has_neighbours: bool) -> None:
        self.rows: list[str] = []
        self.said = ""
        self._matched = 0
        self._scope, self._limit, self._room, self._rest = scope, limit, SHOWN_BYTES, b""
        self._has_neighbours = has_neighbours
        self._path, self._file, self._line = b"", "", 0
        self._start = (0, self._room)

    def take(self, data: bytes) -> bool:
        *rows, self._rest = (self._rest + data).split(b"\n")
        return all(self._row(row) for row in rows)

    def _row(self, row: bytes) -> bool:
        parts = _ROW.fullmatch(row)
        if parts is None and _BINARY.search(row):
            self._forget_file(row)
            return True
        if parts is None:
            if row.strip(b"-\r") and len(self.said) < SAID_CHARACTERS:
                self.said += row.decode(errors="replace") + "\n"
            return True
        name = self._scope.name_of(os.fsdecode(parts[1]))
        if name is None:
            return True
        self._path = parts[1]
        self._matched += parts[3] == b":"
        return self._matched <= self._limit and self._show(name, int(parts[2]), parts[3].decode(), parts[4])

    def _show(self, name: str, number: int, mark: str, line: bytes) -> bool:
        new = []
        if name != self._file:
            self._start = (len(self.rows), self._room)
            new.append(clean(name))
        elif self._has_neighbours and number != self._line + 1:
            new.append("  --")
        text = line.decode(errors="replace").removesuffix("\r")
        ending = " [...]" if len(text) > LINE_CHARACTERS else ""
        new.append(f"  {number}{mark} {clean(text[:LINE_CHARACTERS])}{ending}")
        self._room -= sum(len(one.encode()) + 1 for one in new)
        if self._room < 0:
            return False
        self._file, self._line = name, number
        self.rows += new
        return True

    def _forget_file(self, notice: bytes) -> None:
        # ripgrep finds out late that a long file is binary and says so after the matches.
        if self._file and notice.startswith(self._path + b":"):
            rows, self._room = self._start
            del self.rows[rows:]
            self._file = ""
