"""The catalogue is whole: what the service says to people is in every language, with the same values in it."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from app import sentences
from app.agent.people import commands
from app.sentences import LANGUAGES, MENU, catalogue, retell, say
from tests.unit.core import rules

SOURCES = rules.sources()
TELLERS = {"notice", "tell", "tell_goal", "put_notice", "Done", "Outcome"}
"""What brings a text to a chat."""


def named(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id != "desk" else ""
    return node.id if isinstance(node, ast.Name) else ""


@cache
def said() -> set[str]:
    """Every sentence that stands in the code."""
    calls = [node for file in SOURCES for node in ast.walk(file.tree) if isinstance(node, ast.Call)]
    first = [node.args[0] for node in calls if node.args and named(node.func) in ("say", "Sentence")]
    return {one.value for one in first if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def words_of(node: ast.AST) -> Iterator[str]:
    """The literal words in an expression, but for what a call is given."""
    if isinstance(node, ast.Call):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from words_of(child)


def unsaid(tree: ast.AST) -> list[str]:
    """Sentences that are told to a chat past the catalogue."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and named(node.func) in TELLERS]
    texts = [word for call in calls for given in (*call.args, *call.keywords) for word in words_of(given)]
    return [text for text in texts if re.search(r"[A-Za-z]{2,} [a-z]{2,}", text)]


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_language_has_every_sentence_with_the_same_values_and_no_other(language: str) -> None:
    known = catalogue(language)
    assert known.keys() == said()
    for english, other in known.items():
        assert other.strip(), english
        assert set(re.findall(r"{\w*}", other)) == set(re.findall(r"{\w*}", english)), other


def test_there_are_four_languages_beside_english() -> None:
    assert {"de", "en", "es", "fr", "pt"} <= set(LANGUAGES)
    assert catalogue("en") == {}


def test_nothing_is_told_past_the_catalogue() -> None:
    assert [(file.path, text) for file in SOURCES for text in unsaid(file.tree)] == []


@pytest.mark.parametrize("code", ['Done("It is done.")', 'tell(tx, h, "k", s, c, f"{n} are left over")'])
def test_what_is_told_past_the_catalogue_is_found(code: str) -> None:
    assert unsaid(ast.parse(code))
    assert not unsaid(ast.parse('Done(f"{say(\'It is done.\', language)} {rest}", key="a/b")'))


def test_the_menu_has_commands_that_there_are() -> None:
    assert {name for name, _ in MENU} <= commands.COMMANDS.keys()
    for name, text in MENU:
        assert text in said() and re.fullmatch("[a-z]{1,32}", name)


def test_a_language_is_told_by_its_tag() -> None:
    assert say("Stopped.", "de") == say("Stopped.", "de-AT") == say("Stopped.", "DE_ch") == "Angehalten."
    assert say("Stopped.", "pt-BR") == "Parado."
    assert say("Stopped.") == say("Stopped.", "xx") == say("Stopped.", "") == "Stopped."
    assert say("not in the catalogue", "de") == "not in the catalogue"
    assert say(sentences.ZONE_SET, "fr", zone="Europe/Paris") == "Votre fuseau horaire est Europe/Paris."


def test_what_was_said_in_english_is_said_again_with_the_values_in_it() -> None:
    english = "It could not be fetched, after 3 tries: Only 5 of 9 bytes came."
    german = "Die Datei konnte nach 3 Versuchen nicht geholt werden: Es kamen nur 5 von 9 Bytes an."
    assert retell(english, "de") == german
    assert retell(english, "") == retell(english, "en") == english
    asked = "It could not be fetched, after 3 tries: Slack says ratelimited."
    assert retell(asked, "de") == "Die Datei konnte nach 3 Versuchen nicht geholt werden: Slack sagt ratelimited."
    assert retell("Stopped.", "de") == "Angehalten."
    assert retell("The disk is {full}.\nSo it is.", "de") == "The disk is {full}.\nSo it is."
