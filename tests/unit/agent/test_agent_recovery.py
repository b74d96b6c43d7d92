"""What follows a model call that failed, as a table."""

import pytest

from app.agent.models.llm import Trouble
from app.agent.recovery import EXPLANATIONS, MAX_SHRINKS, MAX_WAITS, Trials, next_move, pause_s

NONE = Trials()
PATIENT = Trials(waits=MAX_WAITS)
SHRUNK = Trials(shrinks=MAX_SHRINKS, compacted=True)
FELL = Trials(fell_back=True)
SUMMED = Trials(compacted=True)


# TRAPS, Context: "429 never reaches the fallback model".
@pytest.mark.parametrize(
    ("trouble", "trials", "has_fallback", "move", "after"),
    [
        (Trouble.OVERLOADED, NONE, False, "wait", Trials(waits=1)),
        (Trouble.OVERLOADED, Trials(waits=2), True, "wait", Trials(waits=3)),
        (Trouble.OVERLOADED, PATIENT, True, "fall_back", Trials(fell_back=True)),
        (Trouble.OVERLOADED, PATIENT, False, "explain", PATIENT),
        (Trouble.OVERLOADED, FELL, True, "wait", Trials(waits=1, fell_back=True)),
        (Trouble.OVERLOADED, Trials(waits=3, fell_back=True), True, "explain", Trials(waits=3, fell_back=True)),
        (Trouble.UNAVAILABLE, NONE, True, "fall_back", FELL),
        (Trouble.UNAVAILABLE, NONE, False, "wait", Trials(waits=1)),
        (Trouble.UNAVAILABLE, FELL, True, "wait", Trials(waits=1, fell_back=True)),
        (Trouble.UNAVAILABLE, PATIENT, True, "fall_back", FELL),
        (Trouble.UNAVAILABLE, PATIENT, False, "explain", PATIENT),
        (Trouble.REJECTED, NONE, True, "fall_back", FELL),
        (Trouble.REJECTED, NONE, False, "explain", NONE),
        (Trouble.REJECTED, FELL, True, "explain", FELL),
        (Trouble.QUOTA, NONE, True, "fall_back", FELL),
        (Trouble.QUOTA, NONE, False, "explain", NONE),
        (Trouble.INVALID, NONE, True, "explain", NONE),
        (Trouble.OVERFLOW, NONE, True, "compact", SUMMED),
        (Trouble.OVERFLOW, SUMMED, True, "shrink", Trials(shrinks=1, compacted=True)),
        (Trouble.OVERFLOW, Trials(shrinks=5, compacted=True), True, "shrink", SHRUNK),
        (Trouble.OVERFLOW, SHRUNK, True, "explain", SHRUNK),
    ],
)
def test_the_next_move(trouble: Trouble, trials: Trials, has_fallback: bool, move: str, after: Trials) -> None:
    assert next_move(trouble, trials, has_fallback=has_fallback) == (move, after)


def test_what_is_refused_with_pictures_is_asked_once_more_without() -> None:
    move, trials = next_move(Trouble.INVALID, NONE, has_fallback=True, saw=True)
    assert (move, trials) == ("close_eyes", Trials(blind=True))
    assert next_move(Trouble.INVALID, trials, has_fallback=True, saw=True) == ("explain", trials)
    assert next_move(Trouble.QUOTA, NONE, has_fallback=False, saw=True) == ("explain", NONE)


@pytest.mark.parametrize("saw", [True, False])
@pytest.mark.parametrize("trouble", list(Trouble))
@pytest.mark.parametrize("has_fallback", [True, False])
def test_every_trouble_comes_to_an_end_and_is_explained(trouble: Trouble, has_fallback: bool, saw: bool) -> None:
    trials, moves = NONE, []
    while not moves or moves[-1] != "explain":
        move, trials = next_move(trouble, trials, has_fallback=has_fallback, saw=saw)
        moves.append(move)
        assert len(moves) < 20
    assert moves.count("fall_back") <= has_fallback
    assert EXPLANATIONS[trouble].endswith(".")


def test_a_success_makes_patient_again_but_not_longer() -> None:
    assert Trials(waits=3, shrinks=2, fell_back=True).succeeded() == Trials(shrinks=2, fell_back=True)


@pytest.mark.parametrize(
    ("waits", "asked", "pause"),
    [(0, None, 2), (1, None, 8), (2, None, 30), (3, None, 30), (9, None, 30), (0, 37.5, 37.5), (2, 0.0, 0.0)],
)
def test_the_pause(waits: int, asked: float | None, pause: float) -> None:
    assert pause_s(waits, asked) == pause
