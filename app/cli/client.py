"""HTTP client of a Moab service: what the terminal, the command line and scripts speak to it with."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from app.errors import BadInput, MoabError, NotFound, ServiceUnavailable
from app.events import Wire

CONNECT_WITHIN_S = 3.0
ANSWER_MARGIN_S = 15.0
"""How much longer than the wait it was asked for a request may take before the service counts as gone."""


class Health(Wire):
    """What a running service says of itself."""

    status: str
    version: str = ""
    model: str = ""
    engine: str = ""


class Answer(Wire):
    """What became of a message: `reply` is there once `status` is answered, failed or stopped.

    While it is `asked`, `reply` is the question of the request `request_id`.
    """

    message_key: str
    session_key: str
    status: str
    event_id: str | None = None
    turn_id: str | None = None
    reply: str | None = None
    request_id: str | None = None

    @property
    def is_final(self) -> bool:
        return self.status in ("answered", "failed", "stopped")


class FeedItem(Wire):
    """One thing to show: a reply of a turn, a notice, or the answer to a command."""

    id: str | int
    kind: str = "reply"
    text: str = ""
    turn_id: str | None = None


class Activity(Wire):
    """What the session's turn does at this moment."""

    state: Literal["idle", "thinking", "tool", "waiting"] = "idle"
    tool: str | None = None
    iteration: int = 0


class Feed(Wire):
    """What happened after a cursor. `open` counts messages without an answer; `settled`: no work is left."""

    cursor: int
    items: tuple[FeedItem, ...] = ()
    activity: Activity = Activity()
    open: int = 0
    settled: bool = True

    @property
    def is_busy(self) -> bool:
        return self.open > 0 or self.activity.state != "idle"


class Line(Wire):
    """One line of a session's history."""

    role: str
    text: str
    at: str | None = None


class History(Wire):
    """The lines of a session, oldest first."""

    messages: tuple[Line, ...] = ()


Form = TypeVar("Form", bound=Wire)


class ServiceClient:
    """The service's HTTP API as methods. Use as `async with`; safe for several calls at once.

    Every method raises ServiceUnavailable if the service does not answer, BadInput or NotFound if it refuses.
    """

    def __init__(self, base_url: str, token: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # trust_env=False: a proxy from the environment must not get to see a conversation on loopback.
        self._http = httpx.AsyncClient(base_url=self.base_url, headers=headers, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def health(self) -> Health:
        return _parsed(Health, await self._call("GET", "/health"))

    async def send(
        self,
        text: str,
        *,
        session_key: str,
        channel: str = "terminal",
        message_key: str | None = None,
        sender: Mapping[str, str] | None = None,
        attachments: Sequence[Mapping[str, str]] = (),
        wait: float | None = None,
    ) -> Answer:
        """Post one line (a command if it starts with `/`); with `wait`, for so many seconds for its answer.

        The same `message_key` again starts nothing new: it waits on.
        """
        body = {
            "message": text,
            "sessionKey": session_key,
            "channel": channel,
            "messageKey": message_key,
            "sender": dict(sender) if sender else None,
            "attachments": [dict(file) for file in attachments] or None,
        }
        return _parsed(Answer, await self._call("POST", "/api/messages", body=_given(body), wait=wait))

    async def feed(self, session_key: str, after: int, wait: float = 0.0) -> Feed:
        """What happened in a session after cursor `after` (-1: from now on), at the latest in `wait` seconds."""
        path = f"/api/sessions/{quote(session_key, safe='')}/feed"
        return _parsed(Feed, await self._call("GET", path, query={"after": after}, wait=wait))

    async def history(self, session_key: str, limit: int = 20) -> list[Line]:
        """The last `limit` lines of a session, oldest first; none if there is no such session yet."""
        path = f"/api/sessions/{quote(session_key, safe='')}/messages"
        try:
            found = await self._call("GET", path, query={"limit": limit})
        except NotFound:
            return []
        return list(_parsed(History, found).messages)

    async def runs(
        self, limit: int = 20, status: str | None = None, function: str | None = None
    ) -> list[dict[str, Any]]:
        """The latest runs, newest first, as the service tells them."""
        query = _given({"limit": limit, "status": status, "function": function})
        return list((await self._call("GET", "/api/runs", query=query)).get("runs", ()))

    async def run(self, run_id: str) -> dict[str, Any]:
        """One run with its steps: `{"run": ..., "steps": [...]}`. Raises NotFound."""
        return await self._call("GET", f"/api/runs/{quote(run_id, safe='')}")

    async def usage(self, by: str, days: int) -> dict[str, Any]:
        """What models cost: `{"rows": ..., "total": ..., "budgets": ...}`."""
        return await self._call("GET", "/api/usage", query={"by": by, "days": str(days)})

    async def state(self) -> dict[str, Any]:
        """What is going on, as docs/state.schema.json says."""
        return await self._call("GET", "/api/state")

    async def beat_now(self) -> dict[str, Any]:
        """Let the heart beat at once: `{"last": when it did before}`."""
        return await self._call("POST", "/api/heartbeat")

    async def learnings(self) -> list[dict[str, Any]]:
        """What was learned, what was found most often first."""
        return list((await self._call("GET", "/api/learnings")).get("learnings", ()))

    async def decide_learning(self, learning_id: str, verdict: str) -> dict[str, Any]:
        """Promote or drop one: `{"id": ..., "text": ...}`. Raises NotFound."""
        return await self._call("POST", f"/api/learnings/{quote(learning_id, safe='')}/{verdict}")

    async def approvals(self) -> list[dict[str, Any]]:
        """What waits for a person, oldest first."""
        return list((await self._call("GET", "/api/approvals")).get("approvals", ()))

    async def decide(self, number: str, decision: str, words: str = "") -> dict[str, Any]:
        """Decide on a request: `{"id": ..., "done": whether this decision counted, "text": ...}`. Raises NotFound."""
        body = {"decision": decision, "words": words}
        return await self._call("POST", f"/api/approvals/{quote(number, safe='')}", body=body)

    async def tracked(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One request about tracked tasks; `path` is what follows `/api/tasks`, its parts quoted."""
        return await self._call(method, f"/api/tasks{path}", body=body)

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        wait: float | None = None,
    ) -> dict[str, Any]:
        """What the service says to any other request of its API."""
        return await self._call(method, path, body=body, query=query, wait=wait)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        wait: float | None = None,
    ) -> dict[str, Any]:
        params = dict(query or {}) | ({} if wait is None else {"wait": f"{wait:g}"})
        timeout = httpx.Timeout(CONNECT_WITHIN_S, read=(wait or 0.0) + ANSWER_MARGIN_S)
        try:
            # Parameters, even none, would take the place of those that the path has.
            response = await self._http.request(method, path, params=params or None, json=body, timeout=timeout)
        except httpx.TimeoutException as error:
            raise ServiceUnavailable(f"The service at {self.base_url} did not answer in time.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceUnavailable(f"The service at {self.base_url} does not answer.") from error
        return self._read(response)

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        try:
            data = response.json()
        except ValueError:
            data = None
        if response.is_success and isinstance(data, dict):
            return data
        raise self._refusal(response.status_code, _sentence(data))

    def _refusal(self, status: int, sentence: str) -> MoabError:
        if status in (401, 403):
            return BadInput(sentence or f"The service at {self.base_url} refuses: set MOAB_API_TOKEN to its token.")
        if status == 404:
            return NotFound(sentence)
        if 400 <= status < 500:
            return BadInput(sentence)
        return ServiceUnavailable(sentence or f"The service at {self.base_url} answered with an error ({status}).")


def _parsed(form: type[Form], data: Mapping[str, Any]) -> Form:
    try:
        return form.model_validate(data)
    except ValidationError as error:
        raise ServiceUnavailable("The service answered in a form that this version does not understand.") from error


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _sentence(data: Any) -> str:
    """The plain sentence in an error's body: `error` or `detail`, or the faults of a refused form."""
    said = (data.get("error") or data.get("detail")) if isinstance(data, dict) else None
    if isinstance(said, dict):
        said = said.get("message")
    if isinstance(said, list):
        faults = [fault for fault in said if isinstance(fault, dict)]
        said = "; ".join(f"{'.'.join(map(str, f.get('loc', ())))}: {f.get('msg', '')}" for f in faults)
    return said if isinstance(said, str) else ""


async def find_service(service_file: Path, token: str | None = None) -> str | None:
    """URL of the running service that wrote `service_file`, or None if there is none that answers."""
    url = _noted_url(service_file)
    if url is None:
        return None
    try:
        async with ServiceClient(url, token) as client:
            await client.health()
    except MoabError:
        return None
    return url


def _noted_url(service_file: Path) -> str | None:
    try:
        return str(json.loads(service_file.read_text("utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
