"""The catalogue is whole: every sentence in every language, with the same values in it."""

import re

from app import sentences
from app.agent import loop
from app.agent.people import commands
from app.sentences import LANGUAGES, MENU, OTHERS, say


def test_every_language_has_every_sentence_with_the_same_values() -> None:
    assert len(LANGUAGES) == 5
    for english, others in OTHERS.items():
        for other in others:
            assert other.strip() and other != english, english
            assert sorted(re.findall(r"{\w+}", other)) == sorted(re.findall(r"{\w+}", english)), other


def test_what_is_meant_for_people_is_in_the_catalogue() -> None:
    constants = {value for name, value in vars(sentences).items() if name.isupper() and isinstance(value, str)}
    assert constants <= OTHERS.keys()
    assert {loop.OFFER, loop.TWICE_EMPTY, loop.CRASHED} <= OTHERS.keys()


def test_the_menu_has_commands_that_there_are() -> None:
    assert {name for name, _ in MENU} <= commands.COMMANDS.keys()
    for name, text in MENU:
        assert text in OTHERS and re.fullmatch("[a-z]{1,32}", name)


def test_a_language_is_told_by_its_tag() -> None:
    assert say("Stopped.", "de") == say("Stopped.", "de-AT") == say("Stopped.", "DE_ch") == "Angehalten."
    assert say("Stopped.", "pt-BR") == "Parado."
    assert say("Stopped.") == say("Stopped.", "xx") == say("Stopped.", "") == "Stopped."
    assert say("not in the catalogue", "de") == "not in the catalogue"
    assert say(sentences.ZONE_SET, "fr", zone="Europe/Paris") == "Votre fuseau horaire est Europe/Paris."
