"""What the service itself says to people, in their language where it is known. English is the key.

Every other language is a file in app/languages/: each English sentence, and below it what is said instead. A sentence
stands in the code as the first argument of `say`, or as a `Sentence` where it is said elsewhere.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NewType

import yaml

QUICK_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The pure one holds the event loop for a twentieth of a second."""

FOLDER = Path(__file__).with_name("languages")
LANGUAGES = ("en", *sorted(path.stem for path in FOLDER.glob("*.yaml")))

Sentence = NewType("Sentence", str)
"""An English sentence of the catalogue, with `{names}` for what is put into it."""

MIN_LITERAL = 12
"""How many characters of a sentence must be its own for it to be known again with values in it."""

STRANGER = Sentence(
    "I only talk to people who were invited. If you have a pairing code, send it to me; if not, ask whoever runs me."
)
WRONG_CODE = Sentence("This code is not valid (any more). Ask for a new one.")
HELLO = Sentence("Hello {name}! You are paired; just write to me. /help lists what else I understand.")
ASK_ZONE = Sentence(
    "Which time zone are you in? Answer with a city such as Paris, with UTC+2, or with what your clock shows; "
    "/timezone changes it later."
)
CODE = Sentence("Send this code to me from the new person's chat: {code}\nIt is good once, until {until}.")
ADMINS_ONLY = Sentence("Only an admin may do that.")
GROUP_PAIRED = Sentence("Everybody in this chat may talk to me now. Mention me, or answer one of my messages.")
ZONE_SET = Sentence("Your time zone is {zone}.")
ZONE_FIXED = Sentence(
    "Your time zone is {zone}, which knows no summer time. If your clocks are changed in summer, name a city instead, "
    "such as /timezone {city}."
)
ZONE_WRONG = Sentence("There is no time zone {zone}. Accepted: a name such as Europe/Paris, a city, or UTC+2.")
OLD_BUTTON = Sentence("This button is from another time and does nothing any more.")
UNKNOWN_NOTICE = Sentence(
    'I was interrupted while sending my last reply, so it may not have reached you. Say "again" if it did not.'
)
GIVEN_UP = Sentence("(This answer was given up.)")
FAILED = Sentence("Something went wrong inside me and I could not finish this (run {run_id}).")
NOTHING_DONE = Sentence("Nothing was changed by it.")
WAS_DONE = Sentence("Before that I had done: {done}.")
MAY_BE_DONE = Sentence("This may or may not have happened: {unsure}; please look before you repeat it.")
NOT_YOUR_BUTTON = Sentence("Only people who were invited may press this.")
NOT_NOW = Sentence("I cannot take this right now. Please try again in a minute.")
NOT_YET = Sentence("I could not take this in time. If nothing comes of it within a minute, please try again.")
IN_GROUP = Sentence("Mention me in your answer.")
UNHEARD = Sentence("I could not get to your message, although I tried several times.")
TRY_AGAIN = Sentence('Your message is kept: say "again" to have me try once more, or put it in other words.')

MENU = (
    ("new", Sentence("Start a fresh conversation")),
    ("stop", Sentence("End what I am doing")),
    ("status", Sentence("Show where things stand")),
    ("tasks", Sentence("List what runs in the background")),
    ("undo", Sentence("Take back the last exchange")),
    ("search", Sentence("Look for what was said")),
    ("model", Sentence("Show or change the model")),
    ("voice", Sentence("Have answers read aloud, or not")),
    ("timezone", Sentence("Say where you are in time")),
    ("help", Sentence("List all commands")),
)
"""The commands that a platform shows to people, and what they do."""


def say(sentence: str, language: str | None = None, **values: Any) -> str:
    """`sentence` with its values in the language of a tag such as `pt-BR`, else in English."""
    said = catalogue(code_of(language)).get(sentence, sentence)
    return said.format(**values) if values else said


def retell(text: str, language: str | None) -> str:
    """What the service said in English where nobody knew to whom, values put in, in the language of who reads it.

    What is not of the catalogue stays as it is.
    """
    known = catalogue(code_of(language))
    if not known or text in known:
        return known.get(text, text)
    for sentence, form in _forms():
        if (found := form.fullmatch(text)) is not None:
            return known[sentence].format(
                **{name: retell(value, language) for name, value in found.groupdict().items()}
            )
    return text


def counted(names: Iterable[str], language: str | None) -> str:
    """Names of tools in a line, each with how often it is there."""
    times = Counter(names).items()
    return ", ".join(
        say("{name} ({count} times)", language, name=name, count=count) if count > 1 else name for name, count in times
    )


def code_of(tag: str | None) -> str:
    """The language of a tag such as `pt-BR`: one of LANGUAGES."""
    code = (tag or "").replace("_", "-").partition("-")[0].lower()
    return code if code in LANGUAGES else "en"


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """What each English sentence is in a language; nothing for English."""
    if language == "en":
        return {}
    text = (FOLDER / f"{language}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, str] = yaml.load(text, Loader=QUICK_LOADER)  # noqa: S506 - a safe one either way
    return found


@cache
def _forms() -> list[tuple[str, re.Pattern[str]]]:
    """The sentences with values in them, as patterns; those that say most themselves first."""
    own = {one: len(re.sub(r"{\w+}", "", one)) for one in catalogue(LANGUAGES[-1]) if re.search(r"{\w+}", one)}
    return [(one, _form(one)) for one in sorted(own, key=own.__getitem__, reverse=True) if own[one] >= MIN_LITERAL]


def _form(sentence: str) -> re.Pattern[str]:
    form, known = "", set[str]()
    for number, piece in enumerate(re.split(r"{(\w+)}", sentence)):
        if number % 2 == 0:
            form += re.escape(piece)
        else:
            form += f"(?P={piece})" if piece in known else f"(?P<{piece}>.*?)"
            known.add(piece)
    return re.compile(form, re.DOTALL)
