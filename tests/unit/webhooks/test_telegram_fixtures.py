"""Every kind of update, made by hand from the documentation of the Bot API, and the event it becomes."""

import json
from pathlib import Path

import pytest

from webhooks.telegram import parse, to_event
from webhooks.telegram_said import Bot

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "telegram").glob("*.json"))
BOT = Bot("123456", "moab_bot")
NOTHING = {
    *("another_bot", "blocked_by_the_person", "button_of_another_time", "channel_post_in_its_group"),
    *("channel_post_not_meant", "group_command_for_another_bot", "group_small_talk"),
    *("live_location_moved", "new_member", "reaction", "topic_small_talk"),
}


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_an_update_becomes_its_event(path):
    fixture = json.loads(path.read_text("utf-8"))
    event = to_event(parse(json.dumps(fixture["update"]).encode()), bot=BOT)
    found = None if event is None else {"name": event.name, "data": event.to_wire("id")["data"]}
    assert found == fixture["event"]


def test_only_what_nobody_has_to_answer_is_nothing():
    silent = {path.stem for path in FIXTURES if json.loads(path.read_text("utf-8"))["event"] is None}
    assert silent == NOTHING
    assert len(FIXTURES) > 45
