"""Inngest's request signatures and key hashes (documented in its SDK specification)."""

import hashlib
import hmac
import json
import re
import secrets
from typing import Any

import jcs  # type: ignore[import-untyped]

_PREFIX = re.compile(r"^signkey-\w+-")


def new_signing_key() -> str:
    """A fresh random signing key, for a client that signs only within this process."""
    return f"signkey-local-{secrets.token_hex(32)}"


def sign(body: bytes, key: str, unix_s: int) -> str:
    """The value of `x-inngest-signature` for a request body (canonical JSON, then the time)."""
    canonical: bytes = jcs.canonicalize(_parse(body)) if body else b""
    digest = hmac.new(_PREFIX.sub("", key).encode(), canonical + str(unix_s).encode(), hashlib.sha256).hexdigest()
    return f"t={unix_s}&s={digest}"


def hashed_key(key: str) -> str:
    """What an SDK sends as its bearer token: the SHA-256 of the key's bytes, without the key's prefix."""
    plain = _PREFIX.sub("", key)
    try:
        secret = bytes.fromhex(plain)
    except ValueError:
        secret = plain.encode()
    return hashlib.sha256(secret).hexdigest()


def _parse(body: bytes) -> Any:
    return json.loads(body)
