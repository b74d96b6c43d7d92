"""Who may use which route: keys, and on a development server whoever is on this machine; pure."""

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.engine.sync import is_bearer


@dataclass(frozen=True, slots=True)
class Caller:
    """What a request says about its sender. `address` is empty when it is not known."""

    address: str
    headers: Mapping[str, str]

    @property
    def is_local(self) -> bool:
        """From this machine, and not from a web page of elsewhere (which a browser here may have open)."""
        origin = self.headers.get("origin", "")
        host = urlsplit(f"//{self.headers.get('host', '')}").hostname or ""
        return (
            _is_loopback(self.address)
            and _is_loopback(host)
            and (not origin or _is_loopback(urlsplit(origin).hostname or ""))
        )


@dataclass(frozen=True, slots=True)
class Access:
    """The keys of an engine. `dev`: callers of this machine need none, and any event key will do."""

    event_key: str
    signing_key: str | None
    dev: bool = False

    def may_send(self, key: str, caller: Caller) -> bool:
        """Whether a request to send events brings the right key; in development any will do, but from no web page of
        elsewhere.
        """
        if self.dev and ("origin" not in caller.headers or caller.is_local):
            return True
        return hmac.compare_digest(key.encode(), self.event_key.encode())

    def is_trusted(self, caller: Caller) -> bool:
        """Whether a caller needs no key at all."""
        return self.dev and caller.is_local

    def may_steer(self, caller: Caller) -> bool:
        """Whether a caller may read runs and act on them."""
        return self.is_trusted(caller) or is_bearer(caller.headers.get("authorization", ""), self.signing_key)


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
