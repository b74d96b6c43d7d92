"""Every kind of payload, made by hand from the documentation of Slack's Events API, and the event it becomes."""

import json
from pathlib import Path
from typing import Any

import pytest

from webhooks.slack import parse
from webhooks.slack_said import to_event

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "slack").glob("*.json"))
NOTHING = {
    *("another_app_that_writes_as_a_user", "another_bot", "answer_counted_at_a_message", "button_of_another_kind"),
    *("button_of_a_message_that_nobody_else_sees", "deleted", "direct_message_blank", "edited_small_talk"),
    *("its_own_message", "joined", "link_preview_of_a_message", "mention_alone", "mention_of_another", "reaction"),
    *("slackbot", "small_talk", "small_talk_in_a_thread_of_the_agent", "url_verification"),
}


def fixture_of(name: str) -> dict[str, Any]:
    path = Path(__file__).parents[2] / "fixtures" / "slack" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def payload_of(name: str) -> dict[str, Any]:
    payload: dict[str, Any] = fixture_of(name)["payload"]
    return payload


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_payload_becomes_its_event(path: Path) -> None:
    fixture = json.loads(path.read_text("utf-8"))
    event = to_event(parse(json.dumps(fixture["payload"]).encode(), "application/json"))
    found = None if event is None else {"name": event.name, "data": event.to_wire("id")["data"]}
    assert found == fixture["event"]


def test_only_what_nobody_has_to_answer_is_nothing() -> None:
    silent = {path.stem for path in FIXTURES if fixture_of(path.stem)["event"] is None}
    assert silent == NOTHING
    assert len(FIXTURES) > 45


# Event id built from the message number alone: two chats collide -> id from team, conversation and message.
def test_two_workspaces_and_two_chats_never_share_a_key() -> None:
    keys = set()
    for team in ("T1", "T2"):
        for chat in ("D1", "D2"):
            payload = payload_of("direct_message")
            event = to_event(payload | {"team_id": team, "event": payload["event"] | {"channel": chat}})
            assert event is not None
            keys.add(event.message_key)
    assert len(keys) == 4
