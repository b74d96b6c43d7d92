"""A small world for the heartbeat: an engine in memory, a phone that notes when it rings, files that come, and crashes.

Every event that the house announces is carried out, those for later at their time, those that are repeated once, as
engines do. A crash ends whatever is going on at a failpoint; the house starts anew and the engine tries it again.
"""

import heapq
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app import failpoints
from app.agent.flow import Flow
from app.agent.goals.run import run_try
from app.agent.heartbeat.beat import run_beat
from app.agent.heartbeat.sweep import send_unsent
from app.agent.loop import run_turn
from app.agent.models.llm import PLAIN, Asking, Completion, ModelFailure, Trouble
from app.agent.receive import receive
from app.agent.turn import bodies_of
from app.channels import outbox
from app.channels.delivery import deliver_next
from app.events import Destination, MessageReceived, ReplyReady, SubagentSpawn
from app.sessions import calls
from tests.unit.house import HOME, DirectSteps, House, Killed, RecordingChannel, run_id
from tests.unit.work.goal_house import Judge

ZONE = ZoneInfo("Europe/Paris")
MINUTE = timedelta(minutes=1)


class Phone(RecordingChannel):
    """A chat that notes at what local time each message arrived."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world
        self.rang: list[tuple[datetime, str]] = []

    async def send(self, destination: Destination, part: Any) -> Any:
        self.rang.append((self._world.now.astimezone(ZONE), part["text"]))
        return await super().send(destination, part)


class Moody(Judge):
    """A judge who is away between two moments, who can never make sense of a hopeless text, and who is asked little."""

    def __init__(self) -> None:
        super().__init__()
        self.away: Sequence[tuple[datetime, datetime]] = ()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    async def complete(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        asking: Asking = PLAIN,
    ) -> Completion | ModelFailure:
        if any(begin <= self.now < end for begin, end in self.away):
            return ModelFailure(Trouble.UNAVAILABLE, "away")
        system = str(messages[0]["content"])
        if "You judge" in system and "hopeless" in str(messages[1]["content"]):
            return Completion('{"verdict": "stop", "reason": "it makes no sense"}')
        if "checklist on behalf" in system:
            return Completion('{"say": "quiet"}')
        return await super().complete(model, messages, tools, asking)


@dataclass
class World:
    """The house in its world. `inbox` is watched; `crashes` counts how often the process died."""

    house: House
    phone: Phone = field(init=False)
    crashes: int = 0
    beats: int = 0
    queue: list[tuple[datetime, int, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.phone = Phone(self)
        self.house = self._with_phone(self.house)
        self._ids: set[str] = set()
        self._order = itertools.count()
        self._runs = itertools.count(1_000)
        self._taken = 0
        self._armed = 0
        self._dying = pytest.MonkeyPatch()
        for module in list(sys.modules.values()):
            if getattr(module, "reach", None) is failpoints.reach and module is not failpoints:
                self._dying.setattr(module, "reach", self._reach)

    def close(self) -> None:
        self._dying.undo()

    @property
    def now(self) -> datetime:
        return self.house.clock.now()

    @property
    def inbox(self) -> Path:
        return self.house.harness.workspace.root / "inbox" / "transcripts"

    def put(self, name: str, text: str) -> None:
        """A file as it is when somebody has just written it."""
        path = self.inbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))

    def crash_soon(self, points: int) -> None:
        """The process dies at the so many-th failpoint from now."""
        self._armed = points

    async def beat(self, at: datetime) -> None:
        """The cron's beat of a minute, and before and after it everything that is due."""
        self._advance(at)
        await self._settle()
        await self._survive(lambda: run_beat(DirectSteps(self.house), self.house.harness, self._run()))
        self.beats += 1
        await self._settle()

    def away(self, until: datetime) -> None:
        """Nobody is there until then; the process died before."""
        self._advance(until)

    async def restart(self) -> None:
        """What a start of the service does."""
        self.crashes += 1
        self.house = self._with_phone(self.house.rebooted(self.crashes + 1))
        harness = self.house.harness
        await harness.db.write(calls.close_dead, HOME, harness.boot_id, self.now)
        await harness.db.write(outbox.close_dead, HOME, harness.boot_id, self.now)
        await send_unsent(harness)

    def _with_phone(self, house: House) -> House:
        channels = dict(house.harness.channels) | {"test": self.phone}
        return replace(house, channel=self.phone, harness=replace(house.harness, channels=channels))

    def _advance(self, at: datetime) -> None:
        self.house.clock.advance(max(0.0, (at - self.now).total_seconds()))
        assert isinstance(self.house.model, Moody)
        self.house.model.now = self.now

    def _reach(self, _name: str) -> None:
        if self._armed:
            self._armed -= 1
            if not self._armed:
                raise Killed

    def _run(self) -> str:
        return run_id(next(self._runs))

    async def _survive(self, work: Any) -> None:
        """Carry out, and once more after a crash on the way."""
        try:
            await work()
        except Killed:
            await self.restart()
            await work()
        self._take_events()

    def _take_events(self) -> None:
        events = self.house.sender.events
        for event in events[self._taken :]:
            if event["id"] not in self._ids:
                self._ids.add(event["id"])
                self._put(event, datetime.fromtimestamp(event.get("ts", 0) / 1000, UTC))
        self._taken = len(events)

    def _put(self, event: dict[str, Any], due: datetime) -> None:
        heapq.heappush(self.queue, (max(due, self.now), next(self._order), event))

    async def _settle(self) -> None:
        self._take_events()
        while self.queue and self.queue[0][0] <= self.now:
            event = heapq.heappop(self.queue)[2]
            run = self._run()
            await self._survive(lambda event=event, run=run: self._carry_out(event, run))

    async def _carry_out(self, event: dict[str, Any], run: str) -> None:
        data, harness = event["data"], self.house.harness
        match event["name"]:
            case "agent.message.received":
                await self._turn(MessageReceived.from_data(data), run, event)
            case "agent.reply.ready":
                await self._deliver(ReplyReady.from_data(data), event)
            case "agent.subagent.spawn":
                due = datetime.fromisoformat(data.get("dueAt") or self.now.isoformat())
                if due > self.now:
                    self._put(event, due)
                else:
                    await run_try(DirectSteps(self.house), harness, run, SubagentSpawn.from_data(data))
            case "agent.turn.ended":
                await run_beat(DirectSteps(self.house), harness, run, data["turnId"], data["sessionKey"])
            case "agent.wake.due" | "agent.work.step.done":
                await run_beat(DirectSteps(self.house), harness, run)

    async def _turn(self, message: MessageReceived, run: str, event: dict[str, Any]) -> None:
        conditions = await receive(self.house.harness, run, message, str(message.message_key), True, event["id"])
        flow = Flow.model_validate(conditions)
        if flow.stop is None:
            await run_turn(DirectSteps(self.house), bodies_of(self.house.harness, flow), flow)

    async def _deliver(self, ready: ReplyReady, event: dict[str, Any]) -> None:
        chat = outbox.chat_key(ready.channel, ready.destination)
        while True:
            harness = self.house.harness
            found = await deliver_next(harness.db, harness.channels, harness.clock, harness.boot_id, chat)
            if found["kind"] == "wait":
                self._put(event, datetime.fromisoformat(found["until"]))
            if found["kind"] != "sent":
                return


def is_night(at: datetime) -> bool:
    return at.hour >= 23 or at.hour < 6


def future(world: World) -> list[str]:
    """Names of events that were sent for a later time."""
    return sorted({event["name"] for event in world.house.sender.events if "ts" in event})
