"""A fake model provider that speaks OpenAI's chat completions: answers by script or by rule, streams, fails.

A script entry is one answer, used once unless `times` says otherwise (null is for ever):

- `{"text": "Hello"}`; `{last_user}` and `{n}` (number of the call) are filled in;
- `{"tool_calls": [{"name": "read", "arguments": {"path": "a"}, "id": "call_1"}], "text": "..."}`: without an id a
  fresh one is made; `arguments` may be a string, also one that is no JSON;
- `{"fault": "rate_limit", "retry_after": 2}`: the faults are the keys of FAULTS, and `hang`, `drop`, `junk`;
- `{"fault": "cut", ...}` beside a text: the stream breaks off halfway.

Any entry may have `delay_s`, `piece_delay_s` (between pieces of a stream), `usage`, `finish_reason`, `reasoning`,
and a rule in `when`: `last_user` and `system` (a part of the text), `last_role`, `model`, `has_result_of` (a tool's
name). The first entry whose rule holds answers. Without any, the answer is `You said: <last user text>`.
"""

import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.fakes.fake_server import FOR_EVER_S, FakeServer, Reply, Request

FAULTS: dict[str, tuple[int, str, str, str]] = {
    "rate_limit": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
    "insufficient_quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
    "context_length": (
        *(400, "invalid_request_error", "context_length_exceeded"),
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    ),
    "bad_request": (400, "invalid_request_error", "invalid_value", "Invalid 'messages'"),
    "unauthorized": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
    "forbidden": (403, "invalid_request_error", "permission_denied", "Project does not have access to this model"),
    "not_found": (404, "invalid_request_error", "model_not_found", "The model does not exist"),
    "server_error": (500, "server_error", "server_error", "The server had an error"),
    "overloaded": (503, "server_error", "overloaded", "The engine is currently overloaded"),
}

Respond = Callable[[dict[str, Any]], Mapping[str, Any] | str | None]


class ModelServer(FakeServer):
    """Fake OpenAI-format model provider. `respond`, if given, is asked before the script."""

    def __init__(self, *, port: int = 0, log: Path | None = None, respond: Respond | None = None) -> None:
        super().__init__(port=port, log=log)
        self.respond = respond
        self._numbers = itertools.count(1)

    @property
    def api_base(self) -> str:
        return self.url + "/v1"

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the chat completion requests so far."""
        return [call.params for call in self.calls("chat")]

    def matches(self, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        return all(_holds(name, wanted, facts) for name, wanted in (entry.get("when") or {}).items())

    def answer(self, request: Request) -> Reply:
        if request.path.endswith("/models"):
            return Reply(body={"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "tests"}]})
        if not request.path.endswith("/chat/completions"):
            return Reply(404, {"error": {"message": "Unknown path", "type": "invalid_request_error"}})
        body, number = request.params(), next(self._numbers)
        entry = self._chosen(body)
        fault = entry.get("fault", "")
        self.record("chat", body, fault or "ok", key=request.headers.get("authorization", ""), number=number)
        if fault and fault != "cut":
            return _failure(fault, entry)
        message = _message(entry, body, number)
        if body.get("stream"):
            return _streamed(message, entry, body, number)
        return _whole(message, entry, body, number)

    def _chosen(self, body: dict[str, Any]) -> Mapping[str, Any]:
        own = self.respond(body) if self.respond else None
        if isinstance(own, str):
            return {"text": own}
        return own or self.take(body) or {"text": "You said: {last_user}"}


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether it is a string or a list of content parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content if isinstance(part, dict))


def last_user(body: Mapping[str, Any]) -> str:
    """The text of the last user message of a request."""
    return next((text_of(m) for m in reversed(body.get("messages", [])) if m.get("role") == "user"), "")


def _holds(name: str, wanted: str, body: Mapping[str, Any]) -> bool:
    messages = body.get("messages", [])
    match name:
        case "last_user":
            return wanted in last_user(body)
        case "system":
            return any(wanted in text_of(m) for m in messages if m.get("role") in ("system", "developer"))
        case "last_role":
            return bool(messages) and messages[-1].get("role") == wanted
        case "model":
            return bool(body.get("model") == wanted)
        case "has_result_of":
            names = {c["id"]: c["function"]["name"] for m in messages for c in m.get("tool_calls") or []}
            return any(m.get("role") == "tool" and names.get(m.get("tool_call_id")) == wanted for m in messages)
    raise ValueError(f"There is no rule {name!r}.")


def _message(entry: Mapping[str, Any], body: Mapping[str, Any], number: int) -> dict[str, Any]:
    text = entry.get("text")
    if text is not None:
        text = text.replace("{last_user}", last_user(body)).replace("{n}", str(number))
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if entry.get("reasoning"):
        message["reasoning_content"] = entry["reasoning"]
    if entry.get("tool_calls"):
        calls = enumerate(entry["tool_calls"], 1)
        message["tool_calls"] = [_tool_call(call, f"call_{number}_{index}") for index, call in calls]
    return message


def _tool_call(call: Mapping[str, Any], fresh_id: str) -> dict[str, Any]:
    arguments = call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call.get("id", fresh_id), "type": "function", "function": {"name": call["name"], "arguments": text}}


def _facts(entry: Mapping[str, Any], body: Mapping[str, Any], number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time()), "model": body.get("model", "fake")}


def _finish(message: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    return str(entry.get("finish_reason") or ("tool_calls" if "tool_calls" in message else "stop"))


def _usage(message: Mapping[str, Any], entry: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    prompt = sum(len(text_of(m)) for m in body.get("messages", [])) // 4 + 1
    answer = len(message["content"] or "") // 4 + 1
    counted = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    return counted | dict(entry.get("usage") or {})


def _whole(message: Mapping[str, Any], entry: Mapping[str, Any], body: Mapping[str, Any], number: int) -> Reply:
    choice = {"index": 0, "message": message, "finish_reason": _finish(message, entry)}
    answer = _facts(entry, body, number, "chat.completion") | {"choices": [choice]}
    return Reply(body=answer | {"usage": _usage(message, entry, body)}, delay_s=entry.get("delay_s", 0))


def _streamed(message: Mapping[str, Any], entry: Mapping[str, Any], body: Mapping[str, Any], number: int) -> Reply:
    facts = _facts(entry, body, number, "chat.completion.chunk")
    steps: list[tuple[dict[str, Any], str | None]] = [(delta, None) for delta in _deltas(message)]
    steps.append(({}, _finish(message, entry)))
    chunks = [facts | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in steps]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append(facts | {"choices": [], "usage": _usage(message, entry, body)})
    pieces = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]
    cut = entry.get("fault") == "cut"
    return Reply(
        pieces=pieces[: len(pieces) // 2] if cut else pieces,
        drop=cut,
        delay_s=entry.get("delay_s", 0),
        piece_delay_s=entry.get("piece_delay_s", 0),
    )


def _deltas(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The message as a provider streams it: role, text in small pieces, and each call's name before its arguments."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if "reasoning_content" in message:
        deltas.append({"reasoning_content": message["reasoning_content"]})
    text = message["content"] or ""
    deltas += [{"content": text[start : start + 12]} for start in range(0, len(text), 12)]
    for index, call in enumerate(message.get("tool_calls", [])):
        function = call["function"]
        half = len(function["arguments"]) // 2
        deltas.append(
            {"tool_calls": [call | {"index": index, "function": {"name": function["name"], "arguments": ""}}]}
        )
        for piece in (function["arguments"][:half], function["arguments"][half:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return deltas


def _failure(fault: str, entry: Mapping[str, Any]) -> Reply:
    delay_s = entry.get("delay_s", 0)
    match fault:
        case "hang":
            return Reply(drop=True, delay_s=FOR_EVER_S)
        case "drop":
            return Reply(drop=True, delay_s=delay_s)
        case "junk":
            return Reply(body=b"<html>not a model</html>", delay_s=delay_s)
    status, kind, code, text = FAULTS[fault]
    headers = {"retry-after": str(entry["retry_after"])} if "retry_after" in entry else {}
    body = {"error": {"message": text, "type": kind, "code": code, "param": None}}
    return Reply(status, body, headers, delay_s)


if __name__ == "__main__":
    from tests.fakes.process import serve

    serve(ModelServer)
