"""`step.ai.infer`: the engine itself makes the HTTP call of a model, as the SDK describes it."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.engine.model import Run, Step, to_json
from app.engine.wire import Operation, Operations

#: The operation's name on the wire.
INFERENCE = "AIGateway"
_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
MAX_ANSWER_BYTES = 4_000_000
_HIDDEN = "(hidden)"
#: Header names with one of these words carry keys.
_SECRET_WORDS = ("authorization", "key", "token", "secret", "cookie")


class Gateway:
    """Makes the calls; `client` gives the HTTP client, which is made when first asked for."""

    def __init__(self, client: Callable[[], httpx.AsyncClient]) -> None:
        self._client = client

    async def infer(self, run: Run, step: Step) -> Operations:
        """Make the call of an open step. The answer is the step's result or its error, like one from an app."""
        opts = json.loads(step.opts or "{}")
        try:
            status, body = await self._post(opts)
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            ValueError,
            _Refused,
        ) as problem:  # ValueError: headers of odd letters
            return _failed(run, step, str(problem) or type(problem).__name__, "")
        text = body.decode("utf-8", "replace")
        if status > 299:
            return _failed(run, step, f"unsuccessful status code: {status}", text)
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return _failed(run, step, "the answer is not JSON", text)
        return _answer(run, step, "StepRun", value, None)

    async def _post(self, opts: Mapping[str, Any]) -> tuple[int, bytes]:
        url, headers, query = _request(opts)
        body = to_json(opts.get("body")).encode()
        async with self._client().stream(
            "POST", url, params=query or None, headers=headers, content=body, timeout=_TIMEOUT, follow_redirects=False
        ) as response:
            parts, size = [], 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > MAX_ANSWER_BYTES:
                    raise _Refused(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
                parts.append(part)
            return response.status_code, b"".join(parts)


class _Refused(Exception):
    """The call is not made, or its answer not read."""


def _request(opts: Mapping[str, Any]) -> tuple[str, dict[str, str], dict[str, str]]:
    """URL, headers and query of a call: how the key travels depends on the provider's format (as in Inngest)."""
    url, form = str(opts.get("url") or ""), str(opts.get("format") or "")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise _Refused(f"'{url}' is no http(s) address")
    key = str(opts.get("auth_key") or "")
    headers, query = {"content-type": "application/json"}, {}
    if form == "gemini":
        query["key"] = key
    elif form == "anthropic":
        headers["x-api-key"] = key
    elif form == "bedrock":
        headers["authorization"] = key
    elif key:
        headers["authorization"] = f"Bearer {key}"
    given = opts.get("headers")
    for name, value in (given if isinstance(given, Mapping) else {}).items():
        headers[str(name).lower()] = str(value)
    return url, headers, query


def _failed(run: Run, step: Step, problem: str, body: str) -> Operations:
    error = {"name": "AIGatewayError", "message": f"Error making AI request: {problem}", "stack": body}
    return _answer(run, step, "StepError", None, error)


def _answer(run: Run, step: Step, op: str, data: Any, error: Mapping[str, Any] | None) -> Operations:
    item = Operation(id=step.id, op=op, name=step.name, label=step.name, opts={}, data=data, error=error)
    return Operations([item], run.req_version, no_retry=False)


def without_secrets(opts: str | None) -> str | None:
    """The options of a step as people may see them and as they are kept once it is over: without keys."""
    if opts is None:
        return None
    value = json.loads(opts)
    if "auth_key" in value:
        value["auth_key"] = _HIDDEN
    headers = value.get("headers")
    if isinstance(headers, dict):
        value["headers"] = {
            name: _HIDDEN if any(word in name.lower() for word in _SECRET_WORDS) else item
            for name, item in headers.items()
        }
    return to_json(value)
