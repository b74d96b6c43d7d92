"""A text that is too long for a model: read part by part, then what came of the parts as a whole."""

import hashlib
from collections.abc import Callable

from app.agent.flow import Frozen
from app.errors import NotFound
from app.work.desk import Desk
from app.work.pieces import pieces_of
from app.work.pipeline import Step

MAX_ROUNDS = 3
"""How often what came of the parts may itself be too long."""

MAX_PARTS = 60
MIN_PART_CHARS = 1_000
MARGIN_CHARS = 400

PART = """\
What follows is part {number} of {count} of a text that is too long to be read at once. Do what is asked for this part
alone, as briefly as it can be done; what comes of all parts is put together afterwards."""
WHOLE = """\
The text was too long to be read at once. What follows is what came of its parts, in their order: do with it as a whole
what is asked for, and do not speak of parts."""


class Cut(Frozen):
    """Which text a question is about: that of a step (no `sizes`), what came of its parts (each round of them was cut
    into parts of so many characters), or the part `place` of the last round.
    """

    sizes: tuple[int, ...] = ()
    place: int | None = None

    def key(self, key: str) -> str:
        """The key of a question about it: one of its own for each part."""
        place = "" if self.place is None else f".{self.place}"
        return f"{key}.{len(self.sizes)}{place}" if self.sizes else key


class Parts:
    """The parts of one step's text, and what came of them: files that outlive a try, so that nothing is paid twice.

    `text` gives the whole text, `about` is what else the answer depends on. Methods block.
    """

    def __init__(self, desk: Desk, step: Step, text: Callable[[], str], about: str) -> None:
        self._desk, self._step, self._text, self._about = desk, step, text, about

    def text_of(self, cut: Cut) -> str:
        """What the model is shown of the text, with a line about what it is. Raises NotFound for what is not there."""
        if cut.place is not None:
            pieces = self.cut(cut)
            return f"{PART.format(number=cut.place + 1, count=len(pieces))}\n\n{pieces[cut.place]}"
        return f"{WHOLE}\n\n{self._joined(cut.sizes)}" if cut.sizes else self._text()

    def cut(self, cut: Cut) -> list[str]:
        """The parts of the last round."""
        return pieces_of(self._joined(cut.sizes[:-1]), cut.sizes[-1])

    def made(self, cut: Cut) -> str | None:
        """What came of a part in this try or in one before; None if nothing did yet."""
        path = self.path(cut)
        return self._desk.text_of(path) if self._desk.exists(path) else None

    def path(self, cut: Cut) -> str:
        """Where what comes of a part is kept."""
        return self._path(self.cut(cut)[cut.place or 0])

    def _joined(self, sizes: tuple[int, ...]) -> str:
        """The whole text, or what came of all parts of the round that is cut last."""
        if not sizes:
            return self._text()
        return "\n\n".join(self._product(piece) for piece in pieces_of(self._joined(sizes[:-1]), sizes[-1]))

    def _product(self, piece: str) -> str:
        path = self._path(piece)
        if not self._desk.exists(path):
            raise NotFound(f"{path}: what came of a part of the text is not there any more")
        return self._desk.text_of(path).strip()

    def _path(self, piece: str) -> str:
        digest = hashlib.sha256(f"{self._about}\0{piece}".encode("utf-8", "replace")).hexdigest()[:16]
        return self._desk.own_path(f"{self._step.id}.parts/{digest}.md")
