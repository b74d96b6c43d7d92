"""A stand-in for ripgrep where there is none: the same files in the same order, the same lines, the same output form.

It runs as a program of its own because `re` holds the interpreter while it matches: a bad pattern must be killable.
"""

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

MAX_FILE_BYTES = 10_000_000
SHOWN_CHARACTERS = 2000
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Ignores:
    """The .gitignore rules that hold in one folder: its own, before those of the folders above it."""

    def __init__(self, folder: Path, above: "Ignores | None" = None) -> None:
        self._folder = folder
        self._above = above
        self._spec = _spec_of(folder / ".gitignore")

    def ignore(self, path: Path, *, is_folder: bool) -> bool:
        """Whether `path`, somewhere below the folder, is left out; the deepest rule about it decides."""
        rules: Ignores | None = self
        while rules is not None:
            verdict = rules._verdict(path, is_folder)
            if verdict is not None:
                return verdict
            rules = rules._above
        return False

    def _verdict(self, path: Path, is_folder: bool) -> bool | None:
        if self._spec is None:
            return None
        name = path.relative_to(self._folder).as_posix() + ("/" if is_folder else "")
        return next((rule.include for rule in reversed(self._spec.patterns) if _is_about(rule.regex, name)), None)


def _is_about(rule: re.Pattern[str] | None, name: str) -> bool:
    """Whether a rule names `name` itself: one that names a folder above it has been asked there already."""
    found = rule.search(name) if rule else None
    if rule is None or found is None:
        return False
    if not rule.pattern.startswith("^"):  # the rules for everything, and for every folder
        return "ps_d" not in rule.groupindex or name.endswith("/")
    if "ps_d" in rule.groupindex:
        return found.end() == len(name)
    return not rule.pattern.endswith("/") or found.end() < len(name)


def _spec_of(path: Path) -> GitIgnoreSpec | None:
    try:
        lines = path.read_bytes().decode(errors="replace").removeprefix("\ufeff").splitlines()
    except OSError:
        return None
    good = [line for line in lines if _is_rule(line)]
    return GitIgnoreSpec.from_lines(good) if good else None


def _is_rule(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def files(folder: Path, above: Ignores | None = None) -> Iterator[Path]:
    """The regular files below `folder` that no .gitignore leaves out, by name; links are not followed."""
    rules = Ignores(folder, above)
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in found:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or rules.ignore(path, is_folder=is_folder):
            continue
        if is_folder:
            yield from files(path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield path


def text_of(path: Path, *, is_named: bool) -> str | None:
    """The text of a file, or None when it is not text or too big (unless it was asked for by name)."""
    try:
        if not is_named and path.stat().st_size > MAX_FILE_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    for bom, codec in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(codec, errors="replace")
    return None if b"\0" in data else data.decode(errors="replace")


def matches(text: str, pattern: re.Pattern[str], around: int) -> Iterator[tuple[int, str, bool]]:
    """(number from 1, line, whether it matches) of the lines that match and of `around` lines on either side."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    hits = [number for number, line in enumerate(lines) if pattern.search(line)]
    shown = {n for hit in hits for n in range(max(0, hit - around), min(len(lines), hit + around + 1))}
    found = set(hits)
    for number in sorted(shown):
        yield number + 1, lines[number], number in found


def main(request: str) -> int:
    """Do what the JSON `request` asks (root, only, pattern, ignore_case, context); exit codes are ripgrep's."""
    asked = json.loads(request)
    root = Path(".")
    found = iter([root / asked["only"]]) if asked["only"] else files(root)
    write = sys.stdout.buffer.write
    if asked["pattern"] is None:
        for path in found:
            write(os.fsencode(f"{path}\0"))
        return 0
    try:
        pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        write(f"regex parse error: {error}\n".encode(errors="replace"))
        return 2
    for path in found:
        text = text_of(path, is_named=bool(asked["only"]))
        for number, line, is_match in matches(text or "", pattern, asked["context"]):
            head = os.fsencode(f"{path}\0{number}{':' if is_match else '-'}")
            write(head + line[:SHOWN_CHARACTERS].encode(errors="replace") + b"\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
