"""A scenario: which events are sent and when, how their runs end, and what a real server was recorded to do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.engine import recorded
from tests.engine.scenarios.address import Address

#: Status and output of runs, sorted; ids and moments replaced by their names.
Ends = list[Any]


@dataclass(frozen=True)
class Send:
    """An event, and how long after the one before it is sent."""

    pause_s: float
    body: dict[str, Any]
    _recorded_ms: int = 0

    def event(self, now_ms: int) -> dict[str, Any]:
        """It, sent now: a moment in it keeps its distance."""
        moved = {"ts": self.body["ts"] + now_ms - self._recorded_ms} if "ts" in self.body else {}
        return {**self.body, **moved}


@dataclass(frozen=True)
class Scenario:
    """`name` is the recording's; one without recording says what is `sent`.

    `ends`: how the runs of these events end. `after_s`: what passes on a manual clock after the last event; generous
    where functions sleep, because the SDK reckons from the real time.
    `within_s`: in real time the ends are there by then; a server may keep answers for 15 s.
    `slow`: waits for half a minute or more, so that in real time it is played only against `ENGINE_URL`.
    `play`: what else is done to a server behind an address; returns what can be compared, as JSON.
    """

    name: str
    ends: Ends
    after_s: float = 1.0
    within_s: float = 40.0
    slow: bool = False
    sent: tuple[Send, ...] = ()
    play: Callable[[Address], Awaitable[Any]] | None = None

    def sends(self) -> list[Send]:
        if self.sent:
            return list(self.sent)
        found = recorded.sends(self.name)
        before = [found[0], *found]
        return [
            Send(send["t"] - last["t"], send["body"], int(send["t"] * 1000))
            for last, send in zip(before, found, strict=False)
        ]

    @property
    def slugs(self) -> list[str]:
        """The functions that were called in the recording."""
        return [] if self.sent else sorted({call["query"]["fnId"] for call in recorded.calls(self.name)})

    @property
    def calls(self) -> list[Any]:
        """The recorded calls to the SDK and its answers."""
        return self.calls_of(*self.slugs)

    def calls_of(self, *slugs: str) -> list[Any]:
        """Those of some functions."""
        plain = recorded.Plain()
        return [
            plain.exchange(call["query"], call["headers"], call["body"], call["status"], call["resp"])
            for call in recorded.calls(self.name)
            if call["query"]["fnId"] in slugs
        ]

    @property
    def runs(self) -> list[Any]:
        """The runs as the real server told of them after their end."""
        told = [line["resp"]["data"] for line in recorded.lines(self.name)
                if line.get("method") == "GET" and line["path"].startswith("/v1/runs/")]  # fmt: skip
        return [recorded.run(run) for run in told if run["ended_at"] is not None]

    async def at(self, server: Address) -> Any:
        """Play it against a server: what there is to compare."""
        if self.play is not None:
            return await self.play(server)
        ids = await self.send_to(server)
        return await server.until(lambda: server.ends(ids), self.ends, self.within_s)

    async def send_to(self, server: Address) -> list[str]:
        """Send what was sent, at the same distances in time; the ids of the events."""
        return [await server.send_later(send.pause_s, send.event) for send in self.sends()]
