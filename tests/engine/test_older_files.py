"""A file of an older version is opened, gets what it lacks, and keeps what it has."""

import re
import sqlite3
from pathlib import Path

import app.engine
from tests.engine.lab import running
from tests.engine.sample_functions import build

_SCHEMA = Path(app.engine.__file__).with_name("schema.sql").read_text()
_YOUNGER = ("priority", "replay_of", "reason", "paused")


def older_schema() -> str:
    """As it was before flow control: without the younger columns and tables, without row ids."""
    lines = re.sub(r" *--.*", "", _SCHEMA).splitlines()
    text = "\n".join(line for line in lines if line.split()[:1] not in [[column] for column in _YOUNGER])
    text = re.sub(r",\s*\)", ")", text)
    tables = [
        part for part in text.split(";") if not re.search(r"\b(held|rates|sends|cancellations|run_events)\b", part)
    ]
    return ";".join(tables)


async def test_an_older_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    connection = sqlite3.connect(path)
    connection.executescript(older_schema())
    columns = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
    assert not columns & set(_YOUNGER)
    body = '{"data":{},"id":"e","name":"rec/no-steps","ts":1,"user":{}}'
    connection.execute("INSERT INTO events VALUES ('01M8PNFCQ49FA1H5NQHGA5GZTW', 'rec/no-steps', ?, 1, 0)", (body,))
    connection.execute(
        "INSERT INTO runs (id, function, event_id, status, created_at, quiet, req_version) VALUES "
        "('01M8PNFCS5D7KSTADBAZ2PKS5D', 'rec-no-steps', '01M8PNFCQ49FA1H5NQHGA5GZTW', 'Running', 1, 0, -1)"
    )
    connection.execute("INSERT INTO jobs VALUES (1, '01M8PNFCS5D7KSTADBAZ2PKS5D', 'step', 1, 0, 0, 0, 0)")
    connection.commit()
    connection.close()
    async with running(path, build) as lab:
        await lab.engine.idle()
        (run,) = await lab.runs_of("rec-no-steps")

        assert (run.status, run.output) == ("Completed", {"ok": True})
        again = await lab.engine.replay(run.id)
        await lab.engine.pause("rec-no-steps")
        assert (await lab.engine.run(again)).run.replay_of == run.id
