"""Keys and tokens taken out of what commands print, before a model reads it."""

from collections.abc import Callable, Sequence

from app.log import redacted

LEAST_CHARACTERS = 6
"""A shorter secret stands in ordinary words too."""

Hide = Callable[[str], str]


def hiding(known: Sequence[str]) -> Hide:
    """A function that replaces the `known` secrets, and what looks like one, by stars."""
    # The longest first: one secret may be the beginning of another.
    secrets = sorted({one for one in known if len(one) >= LEAST_CHARACTERS}, key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "***")
        return redacted(text)

    return hide
