"""Registration: in-band with an app of this process, out-of-band with apps elsewhere."""

import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.engine.errors import SyncFailed
from app.engine.signing import hashed_key, sign
from app.engine.transport import PRIVATE_HOST, ASGIApp, AsgiTransport, Body

_SYNC_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Registration:
    """What an app says about itself. `functions` are its configurations as on the wire."""

    app: str
    url: str
    sdk: str
    functions: list[Mapping[str, Any]]


async def in_band(app: ASGIApp, path: str, signing_key: str, now_s: int) -> Registration:
    """Ask an ASGI app of this process for its functions with a signed in-band sync; raises SyncFailed.

    The SDK must be served at `path` by a production-mode client with this signing key: in that mode it answers
    with its functions instead of posting them to a server, and it answers nobody without the signature.
    """
    body = json.dumps({"url": f"http://{PRIVATE_HOST}{path}"}).encode()

    async def told() -> Body:
        return [body]

    headers = {
        "content-type": "application/json",
        "x-inngest-sync-kind": "in_band",
        "x-inngest-server-kind": "cloud",
        "x-inngest-signature": sign(body, signing_key, now_s),
    }
    answer = await AsgiTransport(app, path).request("PUT", {}, headers, told)
    if answer.status != 200 or answer.headers.get("x-inngest-sync-kind") != "in_band":
        raise SyncFailed(
            f"The app did not answer the sync at {path} in-band (status {answer.status}): serve its functions there "
            "with a production-mode client that has the signing key given to attach()."
        )
    return _read(answer.body, "app_id")


def out_of_band(body: bytes) -> Registration:
    """Read what an SDK posted to `/fn/register`; raises SyncFailed."""
    registration = _read(body, "appname")
    if urlsplit(registration.url).scheme not in ("http", "https") or not urlsplit(registration.url).netloc:
        raise SyncFailed(f"App '{registration.app}' names the URL '{registration.url}', which is no http(s) address.")
    return registration


class Invitations:
    """One-time marks on sync requests of the engine itself: an unsigned registration that brings one is ours."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    async def invite(self, client: httpx.AsyncClient, url: str) -> None:
        """Ask an app elsewhere to register now (`PUT <url>?deployId=..`); raises SyncFailed."""
        mark = secrets.token_urlsafe(24)
        self._open.add(mark)
        try:
            response = await client.put(url, params={"deployId": mark}, timeout=_SYNC_TIMEOUT_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SyncFailed(f"Unable to reach {url}: {type(error).__name__} {error}".strip()) from error
        finally:
            self._open.discard(mark)
        if response.status_code != 200:
            raise SyncFailed(f"{url} refused to register (status {response.status_code}): {response.text[:300]}")

    def accepts(self, mark: str) -> bool:
        """Whether a registration brings an open mark; each serves once."""
        if mark in self._open:
            self._open.discard(mark)
            return True
        return False


def is_bearer(authorization: str, signing_key: str | None) -> bool:
    """Whether a request's `Authorization` proves the signing key (the key itself or its hash, as SDKs send)."""
    if not signing_key or not authorization.startswith("Bearer "):
        return False
    token = authorization.removeprefix("Bearer ").strip().encode()
    accepted: list[Callable[[], str]] = [lambda: hashed_key(signing_key), lambda: signing_key]
    return any([hmac.compare_digest(token, make().encode()) for make in accepted])


def _read(body: bytes, name_field: str) -> Registration:
    try:
        value = json.loads(body)
        functions = value["functions"]
        if not isinstance(functions, list) or not all(isinstance(item, dict) for item in functions):
            raise TypeError("functions is no list of objects")
        sdk = value.get("sdk") or f"{value.get('sdk_language', '')}:v{value.get('sdk_version', '')}"
        return Registration(str(value[name_field]), str(value.get("url") or ""), str(sdk), functions)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SyncFailed(f"The app's registration cannot be read: {error!r}.") from None
