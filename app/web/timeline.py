"""A run as a timeline: its steps with bars for their attempts, and what the app database says about each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.web.records import CallNote, ThoughtNote, TurnNotes, UsageNote
from app.web.shown import moment, seconds_between

LEAST_WIDTH = 0.6
"""Percent: a bar that can be seen."""


@dataclass(frozen=True)
class Bar:
    """A stretch of time, in percent of the run's: `kind` is a status in small letters, `failed`, or `waiting`."""

    x: float
    width: float
    kind: str
    seconds: float


@dataclass(frozen=True)
class Item:
    """One step as shown. `kind` is think, tool, wait, invoke or step."""

    step: Mapping[str, Any]
    kind: str
    bars: tuple[Bar, ...]
    seconds: float | None
    thought: ThoughtNote | None = None
    call: CallNote | None = None
    usage: UsageNote | None = None


WAITS = {"Sleep", "WaitForEvent", "WaitForSignal"}


def notes_id(steps: Sequence[Mapping[str, Any]], run_id: str) -> str:
    """The id under which a run's records lie: what its first step said, or the step that resumed it as a replay."""
    for step in reversed(steps):
        if step["name"] in ("receive", "resume") and isinstance(step["output"], dict):
            return str(step["output"].get("run_id") or run_id)
    return run_id


def timeline(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], notes: TurnNotes, now: datetime) -> list[Item]:
    """The items of a run, in the order of its steps.

    The loop counts its thoughts, and of each thought the calls; so the n-th think step of a run is `think#n`, and the
    i-th tool step after it is `tool#n.i`.
    """
    scale = _Scale(run, steps, now)
    items, thoughts, acted = list[Item](), 0, 0
    for step in steps:
        thought, call, used, kind = None, None, None, _kind(step)
        if kind == "think":
            key = f"think#{thoughts}"
            thought, used = notes.thoughts.get(key), notes.usage.get(key)
            thoughts, acted = thoughts + 1, 0
        elif kind == "tool":
            call = notes.calls.get(f"tool#{thoughts - 1}.{acted}")
            acted += 1
        bars = tuple(scale.bars(step))
        items.append(Item(step, kind, bars, scale.seconds(step), thought, call, used))
    return items


def unsafe_calls(items: Sequence[Item], from_step: str | None) -> list[CallNote]:
    """The calls that a replay would do again although that may do harm."""
    start = next((place for place, item in enumerate(items) if item.step["id"] == from_step), 0)
    done = (item.call for item in items[start:])
    return [call for call in done if call is not None and call.effect == "unsafe" and call.state != "planned"]


def _kind(step: Mapping[str, Any]) -> str:
    if step["op"] in WAITS:
        return "wait"
    if step["op"] == "InvokeFunction":
        return "invoke"
    if step["name"] == "think":
        return "think"
    return "tool" if step["name"].startswith("tool-") else "step"


class _Scale:
    """Turns moments into percent of the run's length."""

    def __init__(self, run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], now: datetime) -> None:
        self._now = now
        begins = [moment(run["createdAt"]) or now]
        ends = [moment(run["endedAt"]) or now, *(m for s in steps if (m := moment(s["endedAt"])) is not None)]
        # Memos that a replay kept are older than the replay itself: they stand at its beginning.
        self._start = begins[0]
        self._length = max(0.001, (max(ends) - self._start).total_seconds())

    def seconds(self, step: Mapping[str, Any]) -> float | None:
        return seconds_between(step["startedAt"], step["endedAt"] or self._now)

    def bars(self, step: Mapping[str, Any]) -> list[Bar]:
        failed = [self._bar(f["startedAt"], f["endedAt"], "failed") for f in step["failures"]]
        if step["status"] == "Failed" and failed:
            return failed
        kind = "waiting" if step["op"] in WAITS else str(step["status"]).lower()
        return [*failed, self._bar(step["startedAt"], step["endedAt"], kind)]

    def _bar(self, start: Any, end: Any, kind: str) -> Bar:
        first, last = moment(start) or self._start, moment(end) or self._now
        x = self._percent(first)
        width = max(LEAST_WIDTH, self._percent(last) - x)
        x = min(x, 100 - width)
        return Bar(round(x, 2), round(width, 2), kind, max(0.0, (last - first).total_seconds()))

    def _percent(self, at: datetime) -> float:
        return min(100.0, max(0.0, (at - self._start).total_seconds() / self._length * 100))
