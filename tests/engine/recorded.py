"""Reading a recording, and making a played and a recorded exchange comparable: ids, times and traces aside."""

import json
import re
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("recordings")
_ULID = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_MOMENTS = {"ts", "expire"}
#: A number of seconds from here on is a moment.
_RECENTLY_S = 1.7e9
_TRACES = {"isr", "tc"}
_HEADERS = ("content-type", "user-agent", "x-inngest-generation-id", "x-inngest-req-version", "x-inngest-step-id")


def lines(scenario: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_FOLDER / f"{scenario}.jsonl").read_text().splitlines()]


def calls(scenario: str) -> list[dict[str, Any]]:
    """The calls of the server to the SDK."""
    return [line for line in lines(scenario) if line["dir"] == "server->sdk"]


def sends(scenario: str) -> list[dict[str, Any]]:
    """The events sent, with their moment `t` in seconds."""
    return [line for line in lines(scenario) if line.get("path") == "/e/:key"]


class Plain:
    """Replaces ids by their order of appearance, so that only their pattern is compared."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def exchange(self, query: Any, headers: Any, body: Any, status: int, answer: Any) -> Any:
        ctx = {**body["ctx"], "request_id": "<request>"}
        job = self._name("job", ctx.pop("job_id"))
        ctx.pop("qi_id")
        return {
            "query": query,
            "headers": {name: headers.get(name) for name in _HEADERS},
            "job": job,
            "body": self.value({**body, "ctx": ctx}),
            "status": status,
            "answer": self.value(answer),
        }

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.value(item, name) for name, item in sorted(value.items()) if name not in _TRACES}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, int) and key in _MOMENTS:
            return "<ms>"
        if isinstance(value, float) and value > _RECENTLY_S:
            return "<s>"
        if not isinstance(value, str):
            return value
        if key == "stack" and value.startswith("Traceback"):
            return "<traceback>"
        text = _ULID.sub(lambda found: self._name("ulid", found[0]), value)
        text = _UUID.sub(lambda found: self._name("uuid", found[0]), text)
        return _ISO.sub("<iso>", text)

    def _name(self, kind: str, found: str) -> str:
        count = sum(name.startswith(kind) for name in self._names.values())
        return self._names.setdefault(found, f"{kind}{count}")


def run(told: dict[str, Any]) -> dict[str, Any]:
    """A run as the REST API tells of it, comparable."""
    ids = ("run_id", "event_id", "function_id", "environment_id")
    plain: dict[str, Any] = Plain().value({name: value for name, value in told.items() if name not in ids})
    return plain


def end(told: dict[str, Any]) -> list[Any]:
    """Status and output of such a run."""
    return [told["status"], Plain().value(told.get("output"))]
