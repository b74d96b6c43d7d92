"""Placeholders in a pipeline's texts: `{date}`, `{transcribe}`, `{text.summary}`; two braces are braces."""

import re
from collections.abc import Callable, Mapping

FACTS = ("goal", "title", "slug", "date", "source", "file")
"""What every goal knows: its id, a title, a short name for files, the day it began, its source's path and its name."""

ENTRY = ("topic", "entry")
"""What an edit with `each` knows besides: the page's name and the sentence for it."""

_PLACE = re.compile(r"\{\{|\}\}|\{([a-z][a-z0-9_.]*)\}")


def names_in(text: str) -> list[str]:
    """The placeholders of `text`, in order."""
    return [found[1] for found in _PLACE.finditer(text) if found[1]]


def fill(text: str, values: Mapping[str, str], quote: Callable[[str], str] = str) -> str:
    """`text` with each placeholder replaced by its value, passed through `quote`. Raises KeyError for unknown ones."""

    def value(found: re.Match[str]) -> str:
        return quote(values[found[1]]) if found[1] else found[0][0]

    return _PLACE.sub(value, text)
