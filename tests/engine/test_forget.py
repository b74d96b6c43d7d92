"""Runs and events deleted by what is in the events: what is at its end goes, what is not stays and is counted."""

from pathlib import Path

from tests.engine.lab import running
from tests.engine.sample_functions import build

PATHS = ("$.data.sessionKey", "$.data.event.data.sessionKey")


async def test_what_is_at_its_end_goes_and_what_is_not_stays(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        mine = await lab.send("rec/two-steps", {"sessionKey": "mine"})
        theirs = await lab.send("rec/two-steps", {"sessionKey": "theirs"})
        await lab.engine.idle()
        ended, still_open = await lab.engine.forget(PATHS, ["mine", "another"])
        assert ended >= 1 and still_open == 0
        rows = await lab.engine.store.rows("SELECT internal_id, body FROM events")
        assert not [row for row in rows if '"mine"' in row["body"]]
        assert mine not in {row["internal_id"] for row in rows}
        assert (await lab.run_of(theirs)).run.status == "Completed"
        assert await lab.engine.forget(PATHS, ["mine"]) == (0, 0)
