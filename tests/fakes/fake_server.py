"""A small real HTTP server under the fakes: scripted, recording, able to hang and to drop a connection.

Written on asyncio streams and not on a web framework, because it must close connections without a word,
start and stop in a millisecond, and not share code with the service under test.
"""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email import message_from_bytes
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

FOR_EVER_S = 3600.0


@dataclass(frozen=True)
class Request:
    """One HTTP request as received; header names are lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def params(self) -> dict[str, Any]:
        """The fields of the query and of a JSON, form or multipart body (files as `{"filename", "size"}`)."""
        kind = self.headers.get("content-type", "")
        if kind.startswith("multipart/"):
            return self.query | _multipart(kind, self.body)
        if kind.startswith("application/x-www-form-urlencoded"):
            return self.query | dict(parse_qsl(self.body.decode(), keep_blank_values=True))
        loaded = json.loads(self.body) if self.body.strip() else {}
        return self.query | loaded if isinstance(loaded, dict) else self.query | {"body": loaded}


@dataclass
class Reply:
    """What goes back: JSON (or bytes as they are), or pieces one by one; after `delay_s`; or a dropped connection."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    pieces: Sequence[bytes] | None = None
    piece_delay_s: float = 0.0


@dataclass(frozen=True)
class Call:
    """One recorded request. `at` is the system-wide monotonic clock in seconds, comparable between processes."""

    at: float
    method: str
    params: dict[str, Any]
    outcome: str
    detail: dict[str, Any] = field(default_factory=dict)


class FakeServer:
    """Base of the fakes: `answer` decides, `record` remembers. Runs on 127.0.0.1 in a thread of its own.

    A script is a list of JSON entries taken in order; each is used `times` times (1 unless given, null for ever).
    `POST /__script`, `GET /__calls` and `POST /__reset` do the same as the methods, for use as a separate process.
    """

    def __init__(self, *, port: int = 0, log: Path | None = None) -> None:
        self._log = log
        self._calls: list[Call] = []
        self._entries: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=256)
        # asyncio does this for sockets it makes itself; without it each streamed answer waits 40 ms for an ACK.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    # what a test uses

    def script(self, *entries: Mapping[str, Any]) -> None:
        """Add entries to the end of the script."""
        with self._changed:
            self._entries.extend({"times": 1} | dict(entry) for entry in entries)

    def calls(self, method: str | None = None) -> list[Call]:
        """The recorded calls so far, in order; of one method if given."""
        with self._changed:
            return [call for call in self._calls if method in (None, call.method)]

    def reset(self) -> None:
        """Forget the script and the calls."""
        with self._changed:
            self._entries.clear()
            self._calls.clear()

    async def wait_for(self, method: str, count: int = 1, within_s: float = 5.0) -> list[Call]:
        """The calls of `method` once there are at least `count`; raises TimeoutError if they do not come."""
        return await asyncio.to_thread(self._wait_for, method, count, within_s)

    def start(self) -> Self:
        self._thread.start()
        self._ready.wait(5)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(5)

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # what a fake decides

    def answer(self, request: Request) -> Reply:
        """The reply to one request that is not a control request; implemented by each fake."""
        raise NotImplementedError

    def control(self, path: str, params: dict[str, Any]) -> Any:
        """JSON answer to a control request of one fake only, None if there is no such request."""
        return None

    def matches(self, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """Whether a script entry is meant for a request with these facts."""
        return True

    def take(self, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """The first script entry for these facts, used up once; None if the script has nothing to say."""
        with self._changed:
            for entry in self._entries:
                if entry["times"] != 0 and self.matches(entry, facts):
                    entry["times"] = None if entry["times"] is None else entry["times"] - 1
                    return entry
        return None

    def record(self, method: str, params: dict[str, Any], outcome: str, **detail: Any) -> None:
        call = Call(time.monotonic(), method, params, outcome, detail)
        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()
            if self._log:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(call)) + "\n")

    # the machinery

    def _wait_for(self, method: str, count: int, within_s: float) -> list[Call]:
        def found() -> list[Call]:
            return [call for call in self._calls if call.method == method]

        with self._changed:
            if not self._changed.wait_for(lambda: len(found()) >= count, within_s):
                raise TimeoutError(f"{len(found())} of {count} calls of {method} came within {within_s} s")
            return found()

    def _reply(self, request: Request) -> Reply:
        try:
            return self._control(request) if request.path.startswith("/__") else self.answer(request)
        except Exception as error:  # a fault of the test or of the fake: shown to whoever reads the answer
            return Reply(500, {"error": f"The fake failed: {error!r}"})

    def _control(self, request: Request) -> Reply:
        params = request.params()
        match request.path:
            case "/__script":
                if params.get("reset"):
                    self.reset()
                self.script(*params.get("entries", []))
                return Reply(body={"ok": True})
            case "/__calls":
                calls = self.calls(params.get("method"))[int(params.get("after", 0)) :]
                return Reply(body={"calls": [asdict(call) for call in calls]})
            case "/__reset":
                self.reset()
                return Reply(body={"ok": True})
        found = self.control(request.path, params)
        return Reply(body=found) if found is not None else Reply(404, {"error": "There is no such control request."})

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        server = await asyncio.start_server(self._connection, sock=self._listener)
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task, writer in list(self._open.items()):
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while request := await _read_request(reader):
                if not await _write_reply(writer, self._reply(request)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()  # the client went away, or the server is stopping
        finally:
            writer.close()
            self._open.pop(task, None)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None  # closed between two requests: the normal end of a kept connection
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readline()
    elif length := int(headers.get("content-length", 0)):
        body = await reader.readexactly(length)
    url = urlsplit(target)
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body)


async def _write_reply(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Whether the connection may be used for another request."""
    if reply.delay_s:
        await asyncio.sleep(reply.delay_s)
    if reply.pieces is None and not reply.drop:
        writer.write(_whole(reply))
        await writer.drain()
        return True
    if reply.pieces is not None:
        writer.write(_head(reply, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        for piece in reply.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(reply.piece_delay_s)
    if reply.drop:
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _whole(reply: Reply) -> bytes:
    raw = isinstance(reply.body, bytes)
    body = reply.body if raw else json.dumps(reply.body).encode()
    kind = "application/octet-stream" if raw else "application/json"
    return _head(reply, {"content-type": kind, "content-length": str(len(body))}) + body


def _head(reply: Reply, headers: dict[str, str]) -> bytes:
    lines = [f"{name}: {value}" for name, value in (headers | reply.headers).items()]
    return "\r\n".join([f"HTTP/1.1 {reply.status} Scripted", *lines, "", ""]).encode("latin-1")


def _multipart(kind: str, body: bytes) -> dict[str, Any]:
    parsed = message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body)
    fields: dict[str, Any] = {}
    for part in parsed.walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if name is None or not isinstance(content, bytes):
            continue
        file_name = part.get_filename()
        fields[str(name)] = {"filename": file_name, "size": len(content)} if file_name else content.decode()
    return fields
