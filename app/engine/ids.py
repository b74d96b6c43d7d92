"""Identifiers: ULIDs that never go backwards, and the deterministic ids that go with Inngest's protocol."""

import base64
import secrets
import uuid
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_VALUE = {letter: number for number, letter in enumerate(_ALPHABET)}
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
_JOB_MIX = 0x9E3779B97F4A7C15


class Ulids:
    """Makes ULIDs, each greater (as a string) than all before it, also when the clock is set back.

    `floor` is the greatest id stored by an earlier process: every new id is greater than it.
    """

    def __init__(self, now_ms: Callable[[], int], floor: str = "") -> None:
        self._now_ms = now_ms
        self._last = decode_ulid(floor) if floor else 0

    def new(self) -> str:
        """A new ULID, 26 letters."""
        now_ms = self._now_ms()
        # The top random bit stays clear, so that counting up within a millisecond has room.
        self._last = (now_ms << 80) | secrets.randbits(79) if now_ms > self._last >> 80 else self._last + 1
        return encode_ulid(self._last)


def encode_ulid(value: int) -> str:
    """The 26 letters of a 128-bit number."""
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)])


def decode_ulid(text: str) -> int:
    """The 128-bit number of a ULID."""
    value = 0
    for letter in text:
        value = value << 5 | _VALUE[letter]
    return value


def app_uuid(app: str) -> str:
    """The id that Inngest gives an app (recorded: version 5 in the OID name space)."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, app))


def function_uuid(app: str, slug: str) -> str:
    """A stable id for a function of an app."""
    return str(uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_OID, app), slug))


def job_name(number: int) -> str:
    """The id that a call carries for queue entry `number`: base 36, the same for every attempt."""
    mixed = number * _JOB_MIX & (1 << 64) - 1
    letters = []
    while mixed:
        mixed, digit = divmod(mixed, 36)
        letters.append(_BASE36[digit])
    return "".join(reversed(letters)) or "0"


def queue_item_name(job: str) -> str:
    """The `qi_id` of a call."""
    return base64.b64encode(f"{job}::default".encode()).decode()
