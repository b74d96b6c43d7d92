"""Small apps for tests of one policy: a function that notes what it is given, and one whose steps wait to be let go."""

import asyncio
from collections.abc import Callable
from typing import Any

import inngest

GO = inngest.TriggerEvent(event="go")
_TRIES = 5_000


async def until(happened: Callable[[], bool]) -> None:
    """Return as soon as something has happened that the engine does on its own; it takes moments, or the test fails."""
    for _ in range(_TRIES):
        if happened():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


class Noted:
    """A function `noted` that keeps the data of its events."""

    def __init__(self, **options: Any) -> None:
        self._options = {"trigger": GO, **options}
        self.seen: list[Any] = []

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="noted", **self._options)
        async def noted(ctx: inngest.Context) -> Any:
            self.seen.append([event.data for event in ctx.events])
            return [event.data for event in ctx.events]

        return [noted]

    @property
    def numbers(self) -> list[Any]:
        """The `n` of the first event of each run, in order."""
        return [events[0].get("n") for events in self.seen]


class Gated:
    """Functions whose one step waits until the test lets it go; `inside` are the `n` of the steps being executed."""

    def __init__(self, *names: str, **options: Any) -> None:
        self._names = names or ("gated",)
        self._options = options
        self.inside: list[Any] = []
        self.order: list[Any] = []
        self.most = 0
        self._doors: dict[Any, asyncio.Event] = {}

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        def make(name: str) -> inngest.Function[Any]:
            @client.create_function(fn_id=name, trigger=inngest.TriggerEvent(event=name), retries=0, **self._options)
            async def gated(ctx: inngest.Context) -> Any:
                number = ctx.event.data["n"]
                await ctx.step.run("work", lambda: self._work(number))
                return number

            return gated

        return [make(name) for name in self._names]

    async def _work(self, number: Any) -> None:
        self.inside.append(number)
        self.order.append(number)
        self.most = max(self.most, len(self.inside))
        await self._door(number).wait()
        self.inside.remove(number)

    def _door(self, number: Any) -> asyncio.Event:
        return self._doors.setdefault(number, asyncio.Event())

    def let_go(self, *numbers: Any) -> None:
        for number in numbers:
            self._door(number).set()
