"""Takes the text out of a PDF; a program of its own, because a bad PDF must be killable and may not take the memory.

The PDF is standard input, a regular file. Arguments: first page, last page (0: the last of all). Prints one line of
JSON with the count of pages or what is wrong, then one for each page with its text.
"""

import json
import logging
import resource
import sys
from typing import Any

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

MEMORY_BYTES = 1_000_000_000
PAGE_CHARACTERS = 200_000
FAULTS = (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, OSError)


def main(first: int, last: int) -> int:
    """Pages `first` to `last` (from 1) on standard output; 1 if the PDF cannot be read at all."""
    logging.disable()  # a broken PDF is told once, not line by line
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        reader = PdfReader(sys.stdin.buffer)
        if reader.is_encrypted and not reader.decrypt(""):
            return _fail("it is protected by a password")
        count = len(reader.pages)
    except DependencyError:
        return _fail("it is encrypted in a way that is not supported here")
    except (*FAULTS, RecursionError, MemoryError) as error:
        return _fail(f"it is damaged ({error})")
    _say({"pages": count})
    for number in range(first, min(last or count, count) + 1):
        _say({"page": number} | _page(reader, number))
    return 0


def _page(reader: PdfReader, number: int) -> dict[str, Any]:
    try:
        text = reader.pages[number - 1].extract_text()
    except (*FAULTS, RecursionError, MemoryError) as error:
        return {"fault": str(error)[:200] or type(error).__name__}
    return {"text": text[:PAGE_CHARACTERS], "left_out": max(0, len(text) - PAGE_CHARACTERS)}


def _fail(reason: str) -> int:
    _say({"fault": reason[:300]})
    return 1


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
