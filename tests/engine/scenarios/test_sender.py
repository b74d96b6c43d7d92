"""A step that sends two events: their ids are its memo, and each starts a run."""

from pathlib import Path
from typing import Any

from tests.engine import recorded
from tests.engine.lab import running, serving
from tests.engine.processes import free_port
from tests.engine.sample_functions import build
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

SCENARIO = Scenario("sender", [["Completed", ["ulid0", "ulid1"]]])


async def test_inside_this_process(tmp_path: Path, inside_only: None) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    options = {"api_base_url": url, "event_api_base_url": url}
    async with running(tmp_path / "engine.db", build, client_options=options) as lab, serving(lab, port):
        sent = await lab.send("rec/sender")
        await lab.pass_time(1)  # the SDK stamps events with the real time, which is ahead of the lab's

        assert inside.calls(lab, "rec-sender") == SCENARIO.calls_of("rec-sender")
        started = [call.body["event"]["data"] for call in lab.calls_of("rec-no-steps")]
        assert sorted(data["a"] for data in started) == [1, 2]
        assert inside.ends(told := await inside.runs(lab, [sent])) == SCENARIO.ends
        assert [recorded.run(run) for run in told] == SCENARIO.runs


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
