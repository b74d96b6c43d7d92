"""How a goal stands, as its tries and the ledger say: what came of each try, products, and its life. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.work.goals import Claim, Goal
from app.work.life import Life, Outcome, Try, open_life
from app.work.observation import Kind, Observation
from app.work.projection import Derived, Truth, project


@dataclass(frozen=True)
class Product:
    """What a finished step made: a file (`path` in the workspace, or absolute; empty if none) and a line about it."""

    path: str = ""
    summary: str = ""


@dataclass(frozen=True)
class Standing:
    """A goal with all that is known of it."""

    goal: Goal
    tries: tuple[Try, ...]
    products: Mapping[str, Product]
    hints: Mapping[str, str]
    derived: Derived
    redone: Mapping[str, int]

    @property
    def life(self) -> Life:
        if not self.derived.is_terminal:
            return open_life(self.tries)
        ends = {Truth.COMPLETED: Life.COMPLETED, Truth.ABANDONED: Life.CANCELLED}
        return ends.get(self.derived.truth_state, Life.FAILED_PERMANENT)

    @property
    def reason(self) -> str:
        """Why it does not go on, in the words of who found out; empty if it does."""
        return next((block.summary or block.reason for block in self.derived.blocks), "")


def standing(goal: Goal, claims: Iterable[Claim], observations: Sequence[Observation]) -> Standing:
    """What observations (oldest first) come to; of the tries only that there is one is taken from its row.

    A step that was resumed by name is done again: what its tries came to counts no more. A resumed goal forgives its
    failures.
    """
    found = {(claim.step, claim.number): Try(claim.step, claim.number) for claim in claims}
    products: dict[str, Product] = {}
    hints: dict[str, str] = {}
    redone: dict[str, int] = {}
    for seen in observations:
        key = (seen.step or "", _number(seen, "try"))
        match seen.kind:
            case Kind.STEP_PROGRESS if key in found:
                found[key] = replace(found[key], begun=True)
            case Kind.STEP_COMPLETED if key in found:
                found[key] = replace(found[key], outcome=Outcome.DONE)
                products[key[0]] = Product(str(seen.data.get("product", "")), seen.summary)
            case Kind.BLOCKED_CONFIRMED if key in found:
                outcome = Outcome.HOPELESS if seen.data.get("hopeless") else Outcome.FAILED
                found[key] = replace(found[key], outcome=outcome)
            case Kind.OWNER_RESUMED if seen.step is None:
                _forgive(found)
            case Kind.OWNER_RESUMED:
                _take_back(found, seen)
                products.pop(key[0], None)
                if seen.data.get("hint"):
                    hints[key[0]] = str(seen.data["hint"])
                    check = str(seen.data.get("by", ""))
                    redone[check] = redone.get(check, 0) + 1
    return Standing(goal, tuple(found.values()), products, hints, project(observations), redone)


def _number(seen: Observation, name: str) -> int:
    value = seen.data.get(name)
    return value if isinstance(value, int) else 0


def _forgive(found: dict[tuple[str, int], Try]) -> None:
    for key, one in found.items():
        if one.outcome in (Outcome.FAILED, Outcome.HOPELESS):
            found[key] = replace(one, void=True)


def _take_back(found: dict[tuple[str, int], Try], seen: Observation) -> None:
    for (step, number), one in list(found.items()):
        if step == seen.step and (number <= _number(seen, "through") if "through" in seen.data else one.begun):
            found[step, number] = replace(one, void=True)
