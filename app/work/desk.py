"""Where a goal's steps read and write: the workspace, the source, the folder of finished pages. Methods block."""

import contextlib
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from app.errors import BadInput, NotFound, OutsideWorkspace
from app.files import write_atomic
from app.sentences import Sentence
from app.work.goals import Goal
from app.work.placeholders import fill, names_in
from app.work.standing import Product
from app.work.watcher import digest_of

OWN = ".moab"
DONE = "done"
UNREADABLE = Sentence("{path}: it cannot be read ({why})")
TOO_LARGE = Sentence("{path}: it is too large; accepted: text up to {limit} MB")
NO_TEXT = Sentence("{path}: it is not text ({why})")
MAX_TEXT_BYTES = 4_000_000


@dataclass(frozen=True)
class Desk:
    """One goal's view of the files. `protected` are files of the workspace that no step may write."""

    root: Path
    delivery: Path | None
    protected: Collection[str]
    goal: Goal
    products: Mapping[str, Product]

    def own_path(self, name: str) -> str:
        """Where products lie that have no place of their own, relative to the workspace."""
        return f"{OWN}/goals/{self.goal.id}/{name}"

    def filled(self, text: str, **more: str) -> str:
        """`text` with what its placeholders stand for. Raises NotFound where a product is no file of text."""
        return fill(text, self._values(text) | more)

    def command(self, text: str) -> str:
        """`text` as a command line: every value is quoted for the shell."""
        return fill(text, self._values(text), shlex.quote)

    def _values(self, text: str) -> dict[str, str]:
        values = dict(self.goal.facts) | {step: product.path for step, product in self.products.items()}
        for name in names_in(text):
            _, dot, step = name.partition(".")
            if dot:
                path = self.goal.facts["source"] if step == "source" else self.products[step].path
                values[name] = self.text_of(path).strip()
        return values

    def readable(self, path: str) -> Path:
        """The absolute path of a file that a step may read: in the workspace, or the goal's source."""
        if path and path == self.goal.facts["source"]:
            return Path(path)
        return self._inside(path)

    def text_of(self, path: str) -> str:
        """A whole file of text. Raises NotFound and BadInput with a sentence."""
        real = self.readable(path)
        try:
            with real.open("rb") as file:
                data = file.read(MAX_TEXT_BYTES + 1)
        except OSError as error:
            raise NotFound(UNREADABLE.format(path=path, why=error.strerror)) from error
        if len(data) > MAX_TEXT_BYTES:
            raise BadInput(TOO_LARGE.format(path=path, limit=MAX_TEXT_BYTES // 1_000_000))
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadInput(NO_TEXT.format(path=path, why=error.reason)) from error

    def put(self, path: str, text: str) -> str:
        """Make `text` the content of a file of the workspace; its path as products name it."""
        real = self._inside(path)
        relative = real.relative_to(os.path.realpath(self.root)).as_posix()
        is_own = relative.startswith(f"{OWN}/goals/{self.goal.id}/")
        if relative.casefold() in self.protected or (relative.split("/")[0] == OWN and not is_own):
            raise OutsideWorkspace(f"{path}: no pipeline may write this file")
        if real.is_dir():
            raise BadInput(f"{path}: it is a folder")
        write_atomic(real, text)
        return relative

    def deliver(self, path: str, text: str) -> str:
        """Make `text` the content of a file in the folder of finished pages; its absolute path, "" without a folder."""
        if self.delivery is None:
            return ""
        real = Path(os.path.realpath(self.delivery / path))
        if not _is_in(real, self.delivery):
            raise OutsideWorkspace(f"{path} leads outside the folder of finished pages")
        write_atomic(real, text)
        return str(real)

    def exists(self, path: str) -> bool:
        """Whether there is a file of the workspace with something in it."""
        real = self._inside(path)
        return real.is_file() and real.stat().st_size > 0

    def files_in(self, folder: str, endings: str = ".md") -> Iterator[tuple[str, str]]:
        """(path relative to `folder`, text) of every page below it, by name; links are not followed."""
        real = self._inside(folder)
        for path in sorted(real.rglob(f"*{endings}")):
            relative = path.relative_to(real).as_posix()
            if path.is_file() and not path.is_symlink() and not relative.startswith("."):
                yield relative, path.read_text("utf-8", errors="replace")

    def move_to_done(self, path: str) -> str:
        """Move a source file into the folder done/ beside it; where it lies then, relative or absolute like `path`.

        One that changed since the goal was made is another file, and stays. Raises NotFound if it is nowhere.
        """
        real = self.readable(path)
        target = real.parent / DONE / real.name
        is_same = _has_digest(real, self.goal.digest)
        if real.is_file() and not is_same:
            return path
        if not real.is_file():
            moved = _done_file(target, self.goal)
            if moved is None:
                raise NotFound(f"{path}: the file is neither there nor in {DONE}/")
            return str(moved)
        if target.exists() and not _has_digest(target, self.goal.digest):
            target = _own_name(target, self.goal)
        target.parent.mkdir(exist_ok=True)
        os.replace(real, target)
        return str(target)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Whoever reads pages and writes what came of it has them alone: two goals may be at it at once."""
        with FileLock(self.root / OWN / "pages.lock"):
            yield

    def _inside(self, path: str) -> Path:
        if not path or "\0" in path:
            raise BadInput(f"{path!r} is not a path; accepted: a path in the workspace")
        real = Path(os.path.realpath(self.root / path))
        if not _is_in(real, self.root):
            raise OutsideWorkspace(f"{path} leads outside the workspace")
        return real


def _is_in(real: Path, root: Path) -> bool:
    return real.is_relative_to(os.path.realpath(root))


def _has_digest(path: Path, digest: str | None) -> bool:
    return path.is_file() and (digest is None or digest_of(path) == digest)


def _own_name(target: Path, goal: Goal) -> Path:
    return target.with_name(f"{target.stem}-{goal.id}{target.suffix}")


def _done_file(target: Path, goal: Goal) -> Path | None:
    return next((path for path in (target, _own_name(target, goal)) if _has_digest(path, goal.digest)), None)
