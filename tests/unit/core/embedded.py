"""The six functions on the embedded engine in this process, with fakes at the seams and a clock that is told."""

import contextlib
import functools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from app import engines
from app.agent.accept import accept
from app.agent.heartbeat.sweep import send_unsent
from app.agent.tool import Toolbox
from app.clock import ManualClock
from app.engine.history import RunRow
from app.engines import EmbeddedLink
from app.events import CommandReceived, MessageReceived
from functions import all_functions
from tests.unit.house import House, make_house


@dataclass
class Embedded:
    """A house whose events go to an engine."""

    house: House
    link: EmbeddedLink
    clock: ManualClock

    async def send(self, event: MessageReceived | CommandReceived) -> None:
        """Let it in as a webhook does, and let everything happen that happens at once."""
        await accept(self.house.harness, event)
        await self.link.engine.idle()

    async def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        while seconds > 0:
            self.clock.advance(min(step_s, seconds))
            seconds -= step_s
            await self.link.engine.idle()

    async def restart(self, meanwhile: Callable[[], None] | None = None, **changes: Any) -> None:
        """The process ends calmly and another one of the same home goes on, with `changes` to the harness."""
        await self.link.stop()
        if meanwhile is not None:
            meanwhile()
        self.house = self.house.rebooted()
        self.link = EmbeddedLink(self.house.harness.settings, self.clock)
        self.house = replace(self.house, harness=replace(self.house.harness, sender=self.link, **changes))
        self.link.mount(FastAPI(), self.house.harness, all_functions)
        await self.link.start()
        await self.link.sync("")
        await send_unsent(self.house.harness)
        await self.link.engine.idle()

    async def runs(self, function: str) -> list[RunRow]:
        """Runs of a function, oldest first."""
        return list(reversed(await self.link.engine.runs(function=f"moab-{function}", limit=1000)))

    async def steps(self, run: RunRow) -> list[str]:
        """Names of a run's steps, in order."""
        return [step.name for step in (await self.link.engine.run(run.id)).steps]


def starts_are_lost() -> bool:
    """Whether this run of the tests is the one in which every engine loses starts."""
    return bool(os.environ.get("STARTS_ARE_LOST"))


@contextlib.contextmanager
def lossy_singleton(lossy: bool) -> Iterator[None]:
    """Engines that are made in the block lose starts, if `lossy` says so."""
    with pytest.MonkeyPatch.context() as patch:
        if lossy:
            patch.setattr(engines, "Engine", functools.partial(engines.Engine, singleton_lossy=True))
        yield


@contextlib.asynccontextmanager
async def embedded(
    folder: Path, template: Path, *answers: Any, toolbox: Toolbox | None = None, lossy: bool = False, **settings: Any
) -> AsyncIterator[Embedded]:
    """An engine with the functions from start to stop. The clock begins now: the SDK reads the real one for sleeps.
    There is no night, whatever the hour.

    With `lossy` the engine's singleton loses starts as the real server was measured to.
    """
    house = make_house(folder, template, *answers, **{"quiet_hours": "off"} | settings)
    house = replace(house, harness=replace(house.harness, toolbox=toolbox or house.harness.toolbox))
    async with connected(house, ManualClock(datetime.now(UTC)), lossy=lossy) as one:
        yield one


@contextlib.asynccontextmanager
async def connected(house: House, clock: ManualClock, *, lossy: bool = False) -> AsyncIterator[Embedded]:
    """An engine with the functions for a house, whose clock is `clock` from now on."""
    with lossy_singleton(lossy or starts_are_lost()):
        link = EmbeddedLink(house.harness.settings, clock)
    daily_log = type(house.harness.daily_log)(house.harness.daily_log.folder, house.harness.daily_log.zone, clock)
    house = replace(house, clock=clock, harness=replace(house.harness, clock=clock, sender=link, daily_log=daily_log))
    link.mount(FastAPI(), house.harness, all_functions)
    await link.start()
    await link.sync("")
    one = Embedded(house, link, clock)
    try:
        yield one
    finally:
        await one.link.stop()
        await house.db.close()
