"""A record of every call that an app with the SDK gets, wherever it is served."""

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl


@dataclass
class Call:
    """One request to the SDK and its answer."""

    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    status: int = 0
    answer: Any = None
    answer_headers: dict[str, str] = field(default_factory=dict)


class Recorder:
    """An ASGI wrapper that keeps every call it passes on."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.calls: list[Call] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, message = b"", {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        message = {"type": "http.request", "body": body, "more_body": False}
        call = Call(
            dict(parse_qsl(scope["query_string"].decode())),
            {name.decode(): value.decode() for name, value in scope["headers"]},
            json.loads(message["body"]),
        )
        self.calls.append(call)
        parts: list[bytes] = []

        async def again() -> Any:
            return message

        async def keep(answer: Any) -> None:
            if answer["type"] == "http.response.start":
                call.status = answer["status"]
                call.answer_headers = {name.decode(): value.decode() for name, value in answer["headers"]}
            else:
                parts.append(answer.get("body", b""))
                with contextlib.suppress(ValueError):
                    call.answer = json.loads(b"".join(parts))
            await send(answer)

        await self._app(scope, again, keep)
