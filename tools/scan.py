"""Which files a search looks at and which program looks: ripgrep, or the stand-in that gives the same answers."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from app.errors import BadInput
from tools import plain_search
from tools.fence import explained, inside
from tools.plain_search import MAX_FILE_BYTES, SHOWN_CHARACTERS, Ignores
from tools.process import Ended, OnOutput, run_process

SCAN_S = 30.0

_RIPGREP = (
    *("--no-config", "--color=never", "--no-messages", "--sort=path", "--null", f"--max-filesize={MAX_FILE_BYTES}"),
    # Hidden files are the workspace's own; rules from above the workspace or from the machine are not.
    *("--hidden", "--glob=!.git", "--no-require-git", "--no-ignore-parent", "--no-ignore-dot"),
    *("--no-ignore-global", "--no-ignore-exclude"),
)
_LINES = (
    *("--line-number", "--with-filename", "--no-heading", "--crlf", "--engine=auto"),
    *(f"--max-columns={SHOWN_CHARACTERS}", "--max-columns-preview"),
)


def ripgrep(environment: Mapping[str, str]) -> Path | None:
    """The `rg` installed beside the interpreter, else on the PATH of `environment`, else None."""
    beside = Path(sys.executable).with_name("rg")
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("rg", path=environment.get("PATH", ""))
    return Path(found) if found else None


@dataclass(frozen=True)
class Lines:
    """What to look for in the files."""

    pattern: str
    ignore_case: bool = False
    context: int = 0


@dataclass(frozen=True)
class Scope:
    """The files of one search: a folder of the workspace, or one file in it, and a glob over their names."""

    workspace: Path
    root: Path
    only: str | None
    above: Ignores | None
    glob: GitIgnoreSpec | None

    def name_of(self, found: str) -> str | None:
        """A path as the searcher prints it, as the model knows it; None when the scope leaves it out."""
        relative = found.removeprefix("./")
        if self.only is None and (self._is_ignored(relative) or (self.glob and not self.glob.match_file(relative))):
            return None
        return (self.root / relative).relative_to(self.workspace).as_posix()

    def _is_ignored(self, relative: str) -> bool:
        # The searcher starts at the root and does not know the rules above it.
        if self.above is None:
            return False
        path, parts = self.root, relative.split("/")
        for part in parts[:-1]:
            path = path / part
            if self.above.ignore(path, is_folder=True):
                return True
        return self.above.ignore(path / parts[-1], is_folder=False)


def scope(workspace: Path, path: str, glob: str | None) -> Scope:
    """The scope for `path` (a folder or a file) and `glob`. Reads the disk. Raises a sentence for what is neither."""
    real, home = inside(workspace, path), Path(os.path.realpath(workspace))
    spec = _glob(glob) if glob is not None else None
    with explained(path, real):
        real.stat()
    if real.is_dir():
        return Scope(home, real, None, _rules_above(home, real), spec)
    if not real.is_file():
        raise BadInput(f"{path} is a special file; accepted: a folder or a regular file")
    return Scope(home, real.parent, real.name, None, None)


def _rules_above(workspace: Path, root: Path) -> Ignores | None:
    rules, folder = None, workspace
    for part in root.relative_to(workspace).parts:
        rules, folder = Ignores(folder, rules), folder / part
        if rules.ignore(folder, is_folder=True):
            # An ignored folder was asked for by its name: it is wanted.
            return None
    return Ignores(root, rules) if rules else None


def _glob(pattern: str) -> GitIgnoreSpec:
    try:
        if not pattern.strip() or "\0" in pattern:
            raise ValueError("it is empty")
        return GitIgnoreSpec.from_lines(f"\\{one}" if one[:1] in "#!" else one for one in _unbraced(pattern, 64))
    except ValueError as error:
        raise BadInput(
            f"{pattern!r} is not a glob ({error}); accepted: patterns such as *.py, src/**/test_*.py, *.{{js,ts}}"
        ) from error


def _unbraced(pattern: str, most: int) -> list[str]:
    start = pattern.find("{")
    end = pattern.find("}", start)
    if start < 0 or end < 0:
        return [pattern]
    choices = pattern[start + 1 : end].split(",")
    done = [one for choice in choices for one in _unbraced(pattern[:start] + choice + pattern[end + 1 :], most)]
    if len(done) > most:
        raise ValueError(f"its braces stand for more than {most} patterns")
    return done


async def scan(scope: Scope, lines: Lines | None, rg: Path | None, on_output: OnOutput) -> Ended:
    """Run the searcher over `scope`: paths that end with NUL, or with `lines` rows of path, NUL, number, `:` or `-`
    (a neighbour of a match), and the line; rows without NUL are what it has to say."""
    argv = _ripgrep(rg, scope, lines) if rg else _stand_in(scope, lines)
    return await run_process(argv, cwd=scope.root, environment={}, on_output=on_output, timeout_s=SCAN_S)


def _ripgrep(rg: Path, scope: Scope, lines: Lines | None) -> list[str]:
    where = f"./{scope.only}" if scope.only else "."
    if lines is None:
        return [str(rg), *_RIPGREP, "--files", "--", where]
    options = ["--ignore-case"] if lines.ignore_case else []
    return [str(rg), *_RIPGREP, *_LINES, *options, f"--context={lines.context}", f"--regexp={lines.pattern}", where]


def _stand_in(scope: Scope, lines: Lines | None) -> list[str]:
    asked = {
        "only": scope.only,
        "pattern": lines.pattern if lines else None,
        "ignore_case": lines.ignore_case if lines else False,
        "context": lines.context if lines else 0,
    }
    # -I: neither the workspace nor the environment may slip a module in.
    return [sys.executable, "-I", "-X", "utf8", "-W", "ignore", plain_search.__file__, json.dumps(asked)]
