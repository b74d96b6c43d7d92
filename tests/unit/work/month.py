"""A month of the service by a clock that is told: the real functions on the real engine, stores and folders.

`python -m tests.unit.work.month HOME TEMPLATE` is one life of its process after the other, each forked after the
imports: it goes on where the life before left off, and ends by SIGKILL at the crash of its number, or with the month.
Files come as planned, people make goals of some, the model is away for a while, and a phone notes when it rings.
"""

import asyncio
import gc
import json
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app import failpoints
from app.agent.accept import accept
from app.agent.goals.dispatch import resume_goals
from app.agent.goals.goal import GoalWish, make_goal
from app.agent.heartbeat.sweep import send_unsent
from app.agent.models.llm import PLAIN, Asking, Completion, ModelFailure, Trouble
from app.channels import outbox
from app.clock import ManualClock
from app.events import Destination
from app.memory.workspace import Workspace
from app.sessions import calls, people, session
from app.work import wakes
from app.work.wakes import Wake, next_instant
from tests.unit.core.embedded import Embedded, connected
from tests.unit.house import HOME, RUN, SESSION, House, RecordingChannel, make_house, message, scrub
from tests.unit.work.goal_house import Judge

ZONE = ZoneInfo("Europe/Paris")
WHOLE = bool(os.environ.get("MOAB_TEST_MONTH"))
MINUTE = timedelta(minutes=1)
DAYS = 30 if WHOLE else 2
START = datetime(2026, 3, 10 if WHOLE else 27, 20, 0, tzinfo=UTC)
MINUTES = DAYS * 24 * 60
TAIL = 60
"""What is left over at the end of the month has so many minutes."""

DAILY = ("0 9 * * *", "30 2 * * *", "0 */6 * * *")
"""Repeating wakes, two of them at night, and one at an hour that is left out on 29 March."""

AWAY = (START + timedelta(hours=30), START + timedelta(hours=33))
"""When the model gives no answer."""


@dataclass(frozen=True)
class Crash:
    """From `minute` on the process dies at the next `point` ("": at once), and is away for so many minutes."""

    minute: int
    point: str
    away: int = 0


CRASHES = (
    Crash(400, "wake.committed"),
    Crash(900, "goal.ended:3"),
    Crash(MINUTES // 2, "", away=300),
    Crash(MINUTES - 900, "goal.made:2"),
)


class Phone(RecordingChannel):
    """A chat that notes at what local time each message arrived, past every crash."""

    def __init__(self, notes: Path, clock: ManualClock) -> None:
        super().__init__()
        self._notes, self._clock = notes, clock

    async def send(self, destination: Destination, part: Any) -> Any:
        line = json.dumps([self._clock.now().astimezone(ZONE).isoformat(), part["text"]])
        with self._notes.open("a") as file:
            file.write(line + "\n")
        return await super().send(destination, part)


class Moody(Judge):
    """A judge who is away for a while, who can make nothing of a hopeless text, and who finds nothing to say."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    async def complete(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        asking: Asking = PLAIN,
    ) -> Completion | ModelFailure:
        if AWAY[0] <= self._clock.now() < AWAY[1]:
            return ModelFailure(Trouble.UNAVAILABLE, "away")
        system = str(messages[0]["content"])
        if "You judge" in system and "hopeless" in str(messages[1]["content"]):
            return Completion('{"verdict": "stop", "reason": "it makes no sense"}')
        if "checklist on behalf" in system:
            return Completion('{"say": "quiet"}')
        return await super().complete(model, messages, tools, asking)


class Plan:
    """What comes in which minute, from a fixed seed: (name, text) of files in the watched folder, and of those of which
    a person makes a goal. `good` and `broken` are the goals that there are to be.
    """

    def __init__(self) -> None:
        dice = random.Random(20260310)  # noqa: S311 - the same month every time
        self.files: dict[int, list[tuple[str, str]]] = {}
        self.asked: dict[int, list[tuple[str, str]]] = {}
        self.good: list[str] = []
        self.broken: list[str] = []
        for number in range(max(8, DAYS * 2)):
            minute, kind, name = dice.randrange(30, MINUTES - 400), number % 8, f"talk-{number:02}"
            text = "" if kind == 7 else f"{'hopeless' if kind == 5 else 'Talk'} number {number}. " * 3
            by_person = kind == 4
            (self.asked if by_person else self.files).setdefault(minute, []).append((f"{name}.txt", text))
            (self.broken if kind in (5, 7) else self.good).append(name)
            if kind in (2, 4):  # the same content again, hours later and under another name
                self.files.setdefault(minute + 300, []).append((f"copy-of-{number:02}.txt", text))


class Life:
    """One life of the process in HOME, from where the one before left off."""

    def __init__(self, home: Path, template: Path, number: int) -> None:
        self.number = number
        self.plan = Plan()
        self._progress = os.open(home / "progress", os.O_RDWR | os.O_CREAT)
        self._last = int(os.pread(self._progress, 9, 0) or 0)
        """The minute in which the life before ended; its files are there."""
        self.first = self._last + (CRASHES[number - 1].away if number else 1)
        self.clock = ManualClock(START + MINUTE * (self.first if number else 0))
        self.house = self._house(home, template)

    def _house(self, home: Path, template: Path) -> House:
        settings = {"timezone": ZONE.key, "heartbeat_cron": "* * * * *", "delivery_folder": home / "device"}
        house = make_house(home, template, **settings).rebooted(self.number + 1)
        Workspace(house.harness.workspace.root).seed()
        phone, model = Phone(home / "phone", self.clock), Moody(self.clock)
        channels = dict(house.harness.channels) | {"test": phone}
        return replace(house, channel=phone, model=model, harness=replace(house.harness, channels=channels, llm=model))

    async def live(self) -> None:
        async with connected(self.house, self.clock) as one:
            await self._begin(one)
            wishes = [name for name, _ in self.plan.asked.get(self._last, ())]
            for minute in range(self._last + 1, MINUTES + TAIL + 1):
                self._put(minute)
                wishes += [name for name, _ in self.plan.asked.get(minute, ())]
                if minute >= self.first:  # who finds nobody there asks again
                    await self._minute(one, minute, wishes)
                    wishes = []

    async def _begin(self, one: Embedded) -> None:
        """What a start of the service does; and before the first minute a person writes, and wakes are set."""
        harness = one.house.harness
        await harness.db.write(calls.close_dead, HOME, harness.boot_id, self.clock.now())
        await harness.db.write(outbox.close_dead, HOME, harness.boot_id, self.clock.now())
        await send_unsent(harness)
        await resume_goals(harness)
        if not self.number:
            await accept(harness, message("hello"))
        await one.link.engine.idle()
        if not self.number:
            set_wakes(one.house)

    def _put(self, minute: int) -> None:
        """Files as they are when somebody has just written them."""
        for folder, files in (("inbox/transcripts", self.plan.files), ("talks", self.plan.asked)):
            for name, text in files.get(minute, ()):
                path = self.house.harness.workspace.root / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                os.utime(path, ((START + MINUTE * minute).timestamp(),) * 2)

    async def _minute(self, one: Embedded, minute: int, wishes: Sequence[str]) -> None:
        self.clock.advance((START + MINUTE * minute - self.clock.now()).total_seconds())
        os.pwrite(self._progress, b"%9d" % minute, 0)
        if self.number < len(CRASHES) and CRASHES[self.number].minute == minute:
            if not CRASHES[self.number].point:
                os.kill(os.getpid(), signal.SIGKILL)
            failpoints.arm(CRASHES[self.number].point)
        for name in wishes:
            source = one.house.harness.workspace.root / "talks" / name
            await make_goal(one.house.harness, GoalWish("podcast_from_transcript", f"person:{name}", str(source)))
        await one.link.engine.idle()


def wakes_once() -> list[datetime]:
    return [START + timedelta(hours=5 + number * 11, minutes=7) for number in range(DAYS * 2 - 1)]


def set_wakes(house: House) -> None:
    """r0, r1 … by the schedules of DAILY, and o0, o1 … at the times of `wakes_once`."""
    now = house.harness.clock.now()
    dues = {f"r{number}": (next_instant(cron, ZONE.key, now), cron) for number, cron in enumerate(DAILY)}
    dues |= {f"o{number}": (at, None) for number, at in enumerate(wakes_once())}
    with house.tx() as tx:
        common: dict[str, Any] = {"session_id": session.find(tx, SESSION), "session_key": SESSION, "channel": "test"}
        common |= {"destination": {"chatId": "7"}, "zone": ZONE.key, "created_at": now, "run_id": RUN}
        for name, (due_at, cron) in dues.items():
            assert due_at is not None
            wakes.add(tx, Wake(id=name, step_key=f"tool#{name}", due_at=due_at, cron=cron, reason=name, **common))


def main() -> None:
    """Prints how each life ended, as `os.waitpid` tells it."""
    home, template = Path(sys.argv[1]), Path(sys.argv[2])
    gc.freeze()  # as the service does
    if hasattr(os, "sched_setaffinity"):  # the threads of a beat follow one another: on one core they hand over faster
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for number in range(len(CRASHES) + 1):
        child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patch:
                scrub(patch)
                patch.setattr(people, "OPERATORS", (*people.OPERATORS, "test"))
                asyncio.run(Life(home, template, number).live())
            os._exit(0)
        sys.stdout.write(f"{os.waitpid(child, 0)[1]}\n")
        sys.stdout.flush()  # or the next child has it too


if __name__ == "__main__":
    main()
