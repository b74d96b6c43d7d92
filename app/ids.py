"""New identifiers that sort by time."""

from ulid import ULID

from app.clock import Clock


def new_id(clock: Clock) -> str:
    """A ULID (26 characters, sorts by the clock's time)."""
    return str(ULID.from_datetime(clock.now()))


ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""What people can type and read out: no letter that looks like another or like a digit."""
CODE_CHARACTERS = 8


def new_code(randomness: bytes) -> str:
    """A code that is easy to type and hard to guess: eight characters of 40 random bits."""
    number = int.from_bytes(randomness[:5])
    return "".join(ALPHABET[number >> (5 * i) & 31] for i in range(CODE_CHARACTERS))


def read_code(text: str) -> str:
    """The code in what a person typed, "" if it does not look like one; O, I and L are taken for 0 and 1."""
    code = text.strip().upper().replace("-", "").replace(" ", "").translate(str.maketrans("OIL", "011"))
    return code if len(code) == CODE_CHARACTERS and all(c in ALPHABET for c in code) else ""
