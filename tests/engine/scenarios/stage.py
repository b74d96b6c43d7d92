"""Plays all chosen scenarios against one server, at the same time and once for all workers of the tests."""

import asyncio
import json
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.engine.scenarios.address import engine_url, served
from tests.engine.scenarios.scenario import Scenario

#: Two processes start first.
_START_S = 60.0


class Stage:
    """The folder is shared by the workers: the first of them plays, all find what was played there."""

    def __init__(self, folder: Path, scenarios: Sequence[Scenario]) -> None:
        self._folder = folder
        self._scenarios = [scenario for scenario in scenarios if engine_url() or not scenario.slow]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play_all()), name="stage")

    def begin(self) -> None:
        """Begin to play, unless another worker does or nothing is to be played."""
        if not self._scenarios:
            return
        self._folder.mkdir(exist_ok=True)
        try:
            (self._folder / "begun").touch(exist_ok=False)
        except FileExistsError:
            return
        self._thread.start()

    def end(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def found(self, scenario: Scenario) -> Any:
        """What playing a scenario told. Raises AssertionError with what went wrong in it."""
        path, deadline = self._path(scenario), time.monotonic() + scenario.within_s + _START_S
        while not path.exists():
            assert time.monotonic() < deadline, f"{scenario.name} did not end: see {self._folder}"
            time.sleep(0.02)
        told = json.loads(path.read_text())
        assert "error" not in told, told["error"]
        return told["found"]

    async def _play_all(self) -> None:
        try:
            async with served(self._folder) as server:
                await asyncio.gather(*(self._play(scenario, server) for scenario in self._scenarios))
        except Exception:
            for scenario in self._scenarios:
                self._tell(scenario, {"error": (self._folder / "log").read_text()[-2000:] + traceback.format_exc()})

    async def _play(self, scenario: Scenario, server: Any) -> None:
        try:
            self._tell(scenario, {"found": await scenario.at(server)})
        except Exception:
            self._tell(scenario, {"error": traceback.format_exc()})

    def _tell(self, scenario: Scenario, told: dict[str, Any]) -> None:
        unready = self._path(scenario).with_suffix(".part")
        unready.write_text(json.dumps(told))
        unready.rename(self._path(scenario))

    def _path(self, scenario: Scenario) -> Path:
        return self._folder / f"{scenario.name}.json"
