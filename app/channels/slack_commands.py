"""Commands as people can type them in Slack: it takes every line that begins with a slash for a command of its own.

So what the service says of `/stop` is said there of `/moab stop`. Only in its own sentences: what a model writes, or a
command line that a person is to approve, stays as it is. Pure.
"""

import re
from functools import cache

from app.sentences import LANGUAGES, catalogue

COMMAND = "/moab"
"""The only one that the app's manifest brings (see slack_setup)."""
NAMED = re.compile(r"(?<![\w/}])/(?=[a-z]+(?![\w/]))")
VALUE = re.compile(r"({\w+})")
VALUE_GROUP = r"([^\n]{0,200}?)"


def as_typed(text: str) -> str:
    """`text` with the commands in the service's own sentences as Slack takes them."""
    if NAMED.search(text):
        for literal, form in _forms():
            if literal in text:
                text = form.sub(_typed, text)
    return text


def _typed(found: re.Match[str]) -> str:
    """The words of a sentence stand in its odd groups, values in the others."""
    return "".join(
        NAMED.sub(f"{COMMAND} ", words) if number % 2 == 0 else words for number, words in enumerate(found.groups())
    )


@cache
def _forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The sentences of every language that name a command, each with words that it has to have; the longest first,
    because one may be part of another.
    """
    known = {*catalogue(LANGUAGES[-1]), *(said for one in LANGUAGES for said in catalogue(one).values())}
    naming = sorted((one for one in known if NAMED.search(one)), key=len, reverse=True)
    return tuple(_form(one) for one in naming)


def _form(sentence: str) -> tuple[str, re.Pattern[str]]:
    """Without values at its ends, which may be anything."""
    pieces = re.sub(r"\A{\w+}|{\w+}\Z", "", sentence)
    words = VALUE.split(pieces)[::2]
    return max(words, key=len), re.compile(VALUE_GROUP.join(f"({re.escape(one)})" for one in words))
