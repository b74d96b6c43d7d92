"""Slack's Web API: one request, one attempt, and what came of it as a value.

Called directly over httpx: what becomes of a part hangs on the HTTP status and on how far the request got.
Source: docs.slack.dev, "Using the Slack Web API".
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx

from app.channels.channel import Absent, Later, Refused, SendResult, Sent, Unknown
from app.errors import ChannelError
from app.events import wire_safe
from app.sentences import Sentence

CONNECT_S, WRITE_S, READ_S, KEEP_ALIVE_S = 5.0, 10.0, 15.0, 60.0
UPLOAD_S = 60.0

NOT_HANDED_OVER = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.InvalidURL)
CROWDED = {"ratelimited", "rate_limited"}
BUSY = {*CROWDED, "service_unavailable", "request_timeout", "team_added_to_org"}
"""Errors that a later try may not meet; nothing was done."""
OF_THE_TOKEN = {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
"""Slack does not know the token: no fault of a part or a chat, and mended by who runs the service."""
SAYS = Sentence("Slack says {error}.")
STATUS = Sentence("Slack answered with status {status}.")
AWAY = Sentence("Slack cannot be reached: {error}.")
NO_ANSWER = Sentence("Slack was asked and did not answer: {error}.")
DOUBTFUL = {"internal_error", "fatal_error"}
"""Of these Slack says that some of it may have been done."""
BLOCK_FAULTS = {
    *("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "blocks_validation_failed"),
    *("invalid_arguments", "invalid_metadata_format", "invalid_metadata_schema", "metadata_too_large"),
}
"""Errors that the plain form of a message may not meet."""


class Answer:
    """What Slack said: HTTP status, JSON body (empty if it was not JSON), headers."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.status, self.body, self.headers = status, body, headers
        self.ok = status == httpx.codes.OK and body.get("ok") is True
        self.error = str(body.get("error") or "")
        needed = f" (needed: {body['needed']})" if body.get("needed") else ""
        self.reason = SAYS.format(error=f"{self.error}{needed}") if self.error else STATUS.format(status=status)

    @property
    def wait_s(self) -> float | None:
        stated = self.headers.get("retry-after", "")
        return float(stated) if stated.isascii() and stated.isdigit() else None

    @property
    def is_busy(self) -> bool:
        return self.status == httpx.codes.TOO_MANY_REQUESTS or self.error in BUSY

    @property
    def is_crowded(self) -> bool:
        """Whether Slack asks to wait because we say too much."""
        return self.status == httpx.codes.TOO_MANY_REQUESTS or self.error in CROWDED

    @property
    def can_wait(self) -> bool:
        """Whether nothing was done, and what was to be done is to wait until it can be."""
        return self.is_busy or self.error in OF_THE_TOKEN

    @property
    def is_doubtful(self) -> bool:
        """Whether the call may have been carried out all the same."""
        return self.status >= 500 or self.error in DOUBTFUL or (self.status == httpx.codes.OK and not self.body)


Said = Answer | Later | Unknown


def result_of(said: Said, receipt: Mapping[str, Any]) -> SendResult:
    """What an answer means for a part; `receipt` names it if it was taken."""
    if not isinstance(said, Answer):
        return said
    if said.ok:
        return Sent(receipt)
    if said.can_wait:
        return Later(said.wait_s, said.reason, crowded=said.is_crowded)
    return Unknown(said.reason) if said.is_doubtful else Refused(said.reason)


def unheard(said: Said) -> Absent | Later | Unknown:
    """What an answer that is not ok means for the question whether a part arrived."""
    if isinstance(said, Answer) and not said.can_wait and not said.is_doubtful:
        return Unknown(said.reason)  # such as a scope that is missing: Slack will not tell
    return Later(said.wait_s if isinstance(said, Answer) else None, said.reason)


class SlackApi:
    """Calls as one bot. One HTTP client, kept alive between calls, released by `close`."""

    def __init__(self, token: str, base_url: str, read_s: float = READ_S) -> None:
        self._token, self._read_s = token.strip(), read_s
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEP_ALIVE_S)
        self.base = httpx.URL(base_url.rstrip("/") + "/")
        self.http = httpx.AsyncClient(base_url=self.base, limits=limits)

    async def call(self, method: str, read_s: float | None = None, token: str | None = None, **params: Any) -> Said:
        """One attempt. Parameters travel as a form, which every method takes; what is no text in it is JSON."""
        form = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in wire_safe(params).items()
            if value is not None
        }
        return await self.request("POST", method, read_s, data=form, token=token)

    async def result(self, method: str, **params: Any) -> Answer:
        """The answer of a call that has to succeed; raises ChannelError with Slack's own words."""
        said = await self.call(method, **params)
        if isinstance(said, Answer) and said.ok:
            return said
        raise ChannelError(f"{method}: {said.reason}")

    async def request(
        self, verb: str, url: str, read_s: float | None = None, token: str | None = None, **body: Any
    ) -> Said:
        if self.http.is_closed:
            return Later(None, "The channel is closed.")
        try:
            response = await self.http.request(
                verb, url, headers=self.authorization(token), timeout=self.patience(read_s), **body
            )
        except NOT_HANDED_OVER as error:
            return Later(None, self.safe(AWAY.format(error=_named(error))))
        except (httpx.HTTPError, OSError) as error:  # OSError: a file that cannot be read to its end
            return Unknown(self.safe(NO_ANSWER.format(error=_named(error))))
        return Answer(response.status_code, _json(response), response.headers)

    def authorization(self, token: str | None = None) -> dict[str, str]:
        """The header; none for the token ""."""
        used = self._token if token is None else token
        return {"Authorization": f"Bearer {used}"} if used else {}

    def patience(self, read_s: float | None = None) -> httpx.Timeout:
        return httpx.Timeout(read_s or self._read_s, connect=CONNECT_S, write=WRITE_S)

    def safe(self, text: str) -> str:
        return text.replace(self._token, "[bot token]") if self._token else text

    async def close(self) -> None:
        await self.http.aclose()


def _json(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _named(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip().rstrip(".")
