"""`moab state` and `moab heartbeat`, each in a process of its own against a service that is a script."""

import json

from tests.unit.front.conftest import Moab
from tests.unit.front.fake_service import FakeService


def beat(last: str | None) -> dict[str, dict[str, str | None]]:
    return {"beat": {"last": last, "next": "2026-01-05T12:01:00+00:00", "cron": "* * * * *", "zone": "UTC"}}


def test_the_state_is_one_json_document(moab: Moab, service: FakeService) -> None:
    service.others = {"GET state": lambda: beat(None) | {"wakes": []}}
    assert json.loads(moab("state").stdout) == beat(None) | {"wakes": []}
    assert json.loads(moab("state", "--json").stdout) == beat(None) | {"wakes": []}


def test_the_heartbeat_is_told_in_a_line(moab: Moab, service: FakeService) -> None:
    service.others = {"GET state": lambda: beat(None)}
    said = moab("heartbeat").stdout
    assert said == "The heart has not beaten yet. It beats next at 2026-01-05 12:01:00Z (* * * * *, UTC).\n"


def test_a_beat_at_once_is_waited_for(moab: Moab, service: FakeService) -> None:
    before, after = beat("2026-01-05T11:59:00+00:00"), beat("2026-01-05T12:00:30.123456+00:00")
    looks = iter([before, before, after])
    service.others = {"POST heartbeat": lambda: {"last": before["beat"]["last"]}, "GET state": lambda: next(looks)}
    said = moab("heartbeat", "--now").stdout
    assert said.startswith("The heart beat last at 2026-01-05 12:00:30Z.")


LEARNING = {"id": "l1", "scope": "general", "text": "Tea is green.", "count": 3, "state": "kept"}


def test_learnings_are_listed_and_decided_on(moab: Moab, service: FakeService) -> None:
    service.others = {
        "GET learnings": lambda: {"learnings": [LEARNING]},
        "POST learnings/l1/drop": lambda: {"id": "l1", "text": "l1 is dropped."},
    }
    assert moab("learnings").stdout.splitlines()[1].split() == ["l1", "kept", "3", "general", "Tea", "is", "green."]
    assert json.loads(moab("learnings", "list", "--json").stdout) == {"learnings": [LEARNING]}
    assert moab("learnings", "drop", "l1").stdout == "l1 is dropped.\n"
    missing = moab("learnings", "promote", "l2")
    assert missing.returncode == 1 and missing.stderr.startswith("moab: ")


def test_somebody_is_looked_for_before_it_is_asked_whether_to_forget_him(moab: Moab, service: FakeService) -> None:
    gone = {"id": "telegram:5", "sessions": 1, "memory": "deleted", "runs": 2, "openRuns": 0, "staysShutOut": True}
    service.others = {
        "GET people/telegram:5": lambda: {"id": "telegram:5", "sessions": 1},
        "POST people/telegram:5/forget": lambda: gone,
    }
    done = moab("people", "forget", "telegram:5", stdin="y\n")
    assert "Delete everything about telegram:5 (1 conversation), for good?" in done.stdout
    assert "Deleted: 1 conversation of telegram:5." in done.stdout and "moab people readmit" in done.stdout
    missing = moab("people", "forget", "telegram:1", stdin="y\n")
    assert missing.returncode == 1 and "Delete everything" not in missing.stdout
