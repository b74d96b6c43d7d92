"""Slack keeps every line with a slash in front to itself, so people are told what they can type there."""

import time

import pytest

from app.agent.approvals.decision import COMMANDS as DECISIONS
from app.agent.approvals.text import fenced
from app.agent.people.commands import COMMANDS, HELP
from app.channels.slack import SlackChannel
from app.channels.slack_commands import NAMED, as_typed
from app.sentences import LANGUAGES, catalogue, say


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_about_commands_names_what_can_be_typed(language: str) -> None:
    known = (say(one, language) for one in catalogue(LANGUAGES[-1]))
    naming = [one.replace("{", "<").replace("}", ">") for one in known if NAMED.search(one)]
    assert len(naming) > 20
    for sentence in naming:
        assert not NAMED.search(as_typed(sentence).replace("/moab ", "")), sentence


def test_the_help_of_a_conversation_can_be_typed() -> None:
    for name in (*COMMANDS, *DECISIONS):
        typed = as_typed("\n".join(HELP))
        assert f"/{name} " not in typed and f"/{name}," not in typed
    assert "/moab stop ends what I am doing; /moab stop with the id" in as_typed("\n".join(HELP))


def test_what_is_no_sentence_of_ours_stays_as_it_is() -> None:
    for text in ("Use /new or look into /etc/passwd.", "rm -r /tasks", "https://a.example/stop", ""):
        assert as_typed(text) == text


def test_a_command_line_that_is_to_be_approved_is_shown_as_it_is() -> None:
    how = say("/approve {id} or /deny {id} [reason].", "de", id="K3F9ABCD")
    (part,) = SlackChannel("xoxb-1", "https://slack.com/api/").parts(f"{fenced('cd /new && ls /status')}\n{how}")
    assert "cd /new && ls /status" in part["markdown"]
    assert "/moab approve K3F9ABCD oder /moab deny K3F9ABCD" in part["markdown"]


def test_a_long_text_full_of_slashes_is_read_quickly() -> None:
    text = "word /new /approve or /deny " * 5_000
    began = time.process_time()
    as_typed(text)
    assert time.process_time() - began < 2
