"""The requests and answers of a call, in Inngest's protocol as recorded."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.functions import Function
from app.engine.ids import job_name, queue_item_name
from app.engine.model import DISCOVERY, Job, Memos, Run, to_json
from app.engine.transport import Answer, Body

#: Above this the SDK fetches events and memos itself, if its app is behind a transport with limits.
USE_API_BYTES = 3_000_000


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of a 206 answer."""

    id: str
    op: str
    name: str
    label: str
    opts: Mapping[str, Any]
    data: Any
    error: Mapping[str, Any] | None

    @property
    def race(self) -> bool:
        return self.opts.get("parallelMode") == "race"


@dataclass(frozen=True, slots=True)
class Operations:
    """The function did something and wants to be called again."""

    items: list[Operation]
    version: int
    no_retry: bool


@dataclass(frozen=True, slots=True)
class Returned:
    """The function ended with a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """The call failed as a whole. `output` is the error as answered; `reason` names it in one phrase.

    `is_attempt`: whether the app may have seen it at all.
    """

    output: Any
    reason: str
    no_retry: bool = False
    retry_after: str | None = None
    is_attempt: bool = True

    @classmethod
    def of_engine(cls, name: str, message: str, *, no_retry: bool = False, is_attempt: bool = True) -> "Failure":
        """A failure that the engine itself states."""
        return cls({"name": name, "message": message}, name, no_retry, is_attempt=is_attempt)


Outcome = Operations | Returned | Failure


def headers_of(run: Run, job: Job, request_id: str) -> dict[str, str]:
    """The headers of a call."""
    return {
        "content-type": "application/json",
        "user-agent": "Inngest",
        "x-request-id": request_id,
        "x-inngest-generation-id": str(job.attempt + 1),
        "x-inngest-job-id": job_name(job.id),
        "x-inngest-req-version": str(run.req_version),
        "x-inngest-step-id": job.step_id,
    }


def body_of(function: Function, run: Run, job: Job, memos: Memos, request_id: str, limited: bool) -> Body:
    """The body of a call, in parts, so that long memos are not copied; `limited`: the way to the app does not bear
    large bodies."""
    event = run.event.raw
    events = b",".join([item.raw for item in run.batch]) if run.batch else event
    use_api = limited and memos.size + len(event) + len(events) > USE_API_BYTES
    name = job_name(job.id)
    ctx = to_json(
        {
            "attempt": job.attempt,
            "disable_immediate_execution": job.parallel,
            "env": "",
            "fn_id": function.uuid,
            "generation_id": job.attempt + 1,
            "job_id": name,
            "max_attempts": function.max_attempts,
            "qi_id": queue_item_name(name),
            "request_id": request_id,
            "run_id": run.id,
            "step_id": DISCOVERY,
            "use_api": use_api,
        }
    )
    flag = b"true" if use_api else b"false"
    head = [
        b'{"ctx":', ctx[:-1].encode(), b',"stack":{"current":%d,"stack":[' % len(memos), memos.stack,
        b']}},"defers":{},"event":', event,
        *((b',"events":null,"steps":{}',) if use_api else (b',"events":[', events, b'],"steps":{')),
    ]  # fmt: skip
    tail = b',"use_api":%b,"version":%d}' % (flag, run.req_version)
    return [b"".join(head), tail] if use_api else [b"".join(head), memos.steps, b"}" + tail]


def read_answer(answer: Answer) -> Outcome:
    """What an answer means; an answer that makes no sense is a Failure that is tried again."""
    status, headers, body = answer.status, answer.headers, answer.body
    value = _json(body)
    if status == 201 and isinstance(value, dict) and isinstance(value.get("status"), int):
        # A streamed answer: the real one is inside.
        headers = {str(key).lower(): str(item) for key, item in (value.get("headers") or {}).items()}
        status, value = value["status"], _json(str(value.get("body") or "").encode())
    no_retry = headers.get("x-inngest-no-retry") == "true"
    if status == 206:
        operations = _operations(value)
        if operations:
            return Operations(operations, _version(headers), no_retry)
    if status == 200 and value is not _UNREADABLE:
        return Returned(value)
    if value is _UNREADABLE or status in (200, 201, 206):
        message = f"The app answered with status {status} and a body that cannot be read: {_shorten(body)}"
        return Failure({"name": "InvalidResponse", "message": message}, f"invalid status code: {status}")
    name = value.get("name") if isinstance(value, dict) else None
    reason = str(name) if no_retry and name else f"invalid status code: {status}"
    return Failure(value, reason, no_retry, headers.get("retry-after"))


_UNREADABLE = object()


def _json(body: bytes) -> Any:
    try:
        # NaN and Infinity, which Python writes and nobody else reads, become null.
        return json.loads(body, parse_constant=lambda constant: None)
    except (ValueError, RecursionError):
        return _UNREADABLE


def _version(headers: Mapping[str, str]) -> int:
    value = headers.get("x-inngest-req-version", "")
    return int(value) if re.fullmatch(r"[0-9]{1,6}", value) else -1


def _shorten(body: bytes) -> str:
    return repr(body[:200].decode("utf-8", "replace"))


def _operations(value: Any) -> list[Operation]:
    if not isinstance(value, list):
        return []
    items = [item for item in value if isinstance(item, dict) and item.get("id") and item.get("op")]
    return [
        Operation(
            id=_text(item["id"]),
            op=_text(item["op"]),
            name=_text(item.get("name") or ""),
            label=_text(item.get("displayName") or item.get("name") or item["id"]),
            opts=_options(item.get("opts")),
            data=item.get("data"),
            error=item["error"] if isinstance(item.get("error"), dict) else None,
        )
        for item in items
    ]


def _text(value: object) -> str:
    """A text that can be stored: half a surrogate pair, which no file takes, becomes the replacement character."""
    text = str(value)
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _options(value: object) -> Mapping[str, Any]:
    options = value if isinstance(value, dict) else {}
    return {name: _text(item) if isinstance(item, str) else item for name, item in options.items()}
