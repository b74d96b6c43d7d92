"""A service that speaks the HTTP API as Moab's does, from a script: a real local server, one thread a request."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

HOLD = object()
"""As a scripted answer: the turn runs, using bash, until it is stopped."""


class Failure(str):
    """As a scripted answer: the turn fails with this sentence."""


class FakeService:
    """`script` maps a text to its answer (else it is echoed). `posts` are the bodies of all posted messages."""

    def __init__(self, home: Path | None = None) -> None:
        self.script: dict[str, Any] = {}
        self.posts: list[dict[str, Any]] = []
        self.requests: list[tuple[list[str], dict[str, str]]] = []
        self.history: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.approvals: list[dict[str, Any]] = []
        self.others: dict[str, Callable[[], Any]] = {}
        """What else is answered, by method and path: `GET state`."""

        self.refuse: list[tuple[int, Any]] = []
        self.refuse_posts: list[tuple[int, Any]] = []
        self.unsettled_looks = 0
        self.cursor_seen = -1
        self.model = "test/model"
        self.changed = threading.Condition()
        self._messages: dict[str, dict[str, Any]] = {}
        self._items: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._home = home

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        if self._home is not None:
            (self._home / "service.json").write_text(json.dumps({"url": self.url, "pid": 1}))
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def notice(self, text: str, kind: str = "notice") -> None:
        with self.changed:
            self._show(kind, text, None)

    def wait_for(self, condition: Callable[[], Any], within_s: float = 10.0) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, within_s), "what the test waits for did not happen"

    def texts(self) -> list[str]:
        return [post["message"] for post in self.posts]

    def answer(self, method: str, path: list[str], query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        with self.changed:
            if self.refuse:
                return self.refuse.pop(0)
            if self.refuse_posts and method == "POST":
                return self.refuse_posts.pop(0)
            wait = float(query.get("wait", 0))
            match [method, *path]:
                case ["GET", "health"]:
                    return 200, {"status": "ok", "version": "0", "model": self.model, "engine": "embedded"}
                case ["POST", "api", "messages"]:
                    return self._post(body, wait if "wait" in query else None)
                case ["GET", "api", "sessions", _, "feed"]:
                    return 200, self._feed(int(query["after"]), wait)
                case ["GET", "api", "sessions", _, "messages"]:
                    return 200, {"messages": self.history[-int(query["limit"]) :]}
                case [_, "api", *rest] if (other := self.others.get(f"{method} {'/'.join(rest)}")) is not None:
                    return 200, other()
                case ["GET", "api", "approvals"]:
                    return 200, {"approvals": self.approvals}
                case ["POST", "api", "approvals", number]:
                    done = any(row["id"] == number for row in self.approvals)
                    self.approvals = [row for row in self.approvals if row["id"] != number]
                    return 200, {"id": number, "done": done, "text": f"{body['decision']} {number} {body['words']}"}
                case ["GET", "api", "runs"]:
                    return 200, {"runs": self.runs[: int(query["limit"])]}
                case ["GET", "api", "runs", run_id] if run_id == "R1":
                    return 200, {"run": self.runs[0], "steps": _STEPS}
            return 404, {"error": "There is no such run."}

    def _post(self, body: dict[str, Any], wait: float | None) -> tuple[int, Any]:
        key = body.get("messageKey") or f"key-{len(self.posts)}"
        self.posts.append(body)
        if key not in self._messages:
            self._messages[key] = {"messageKey": key, "sessionKey": body["sessionKey"], "eventId": f"{key}:first"}
            self._begin(key, body["message"])
        self.changed.notify_all()
        if wait is None:
            return 202, {**self._messages[key], "status": "accepted"}
        self.changed.wait_for(lambda: "status" in self._messages[key], wait)
        found = self._messages[key]
        return (200, found) if "status" in found else (202, {**found, "status": "pending"})

    def _begin(self, key: str, text: str) -> None:
        said = self.script.get(text, f"You said: {text}")
        if text == "/stop":
            for message in self._open():
                message |= {"status": "stopped", "reply": "", "turnId": "T"}
            said = "Stopped."
        if said is not HOLD:
            status = "failed" if isinstance(said, Failure) else "answered"
            self._messages[key] |= {"status": status, "reply": str(said), "turnId": "T"}
            self._show("command" if text.startswith("/") else "reply", str(said), "T")

    def _show(self, kind: str, text: str, turn_id: str | None) -> None:
        self._items.append({"id": len(self._items), "kind": kind, "text": text, "turnId": turn_id})
        self.changed.notify_all()

    def _open(self) -> list[dict[str, Any]]:
        return [message for message in self._messages.values() if "status" not in message]

    def _feed(self, after: int, wait: float) -> dict[str, Any]:
        self.cursor_seen = max(self.cursor_seen, after)
        self.changed.notify_all()
        after = len(self._items) if after < 0 else after
        before = len(self._open())
        self.changed.wait_for(lambda: len(self._items) > after or len(self._open()) != before, wait)
        self.unsettled_looks = max(0, self.unsettled_looks - 1)
        busy = bool(self._open())
        return {
            "cursor": len(self._items),
            "items": self._items[after:],
            "activity": {"state": "tool" if busy else "idle", "tool": "bash" if busy else None, "iteration": 1},
            "open": len(self._open()),
            "settled": not busy and self.unsettled_looks == 0,
        }


_STEPS = [
    {
        "id": "s1", "name": "think", "op": "StepRun", "status": "completed", "attempts": 2,
        "startedAt": "2026-01-05T12:00:00+00:00", "endedAt": "2026-01-05T12:00:00.250000+00:00",
        "input": None, "output": {"text": "four"}, "error": None,
    },
]  # fmt: skip


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._handle({})

        def do_POST(self) -> None:
            self._handle(json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}"))

        def _handle(self, body: dict[str, Any]) -> None:
            url = urlsplit(self.path)
            path = [unquote(part) for part in url.path.strip("/").split("/")]
            service.requests.append((path, dict(self.headers.items())))
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            status, answer = service.answer(self.command, path, query, body)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the client did not wait for it

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
