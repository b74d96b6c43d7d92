"""Slack as people use it: answered once and in order, whatever Slack does and wherever the process dies.

SLACK_CHATS=50 SLACK_ROUNDS=2 has 1,100 messages said; SLACK_SEED chooses another storm.
"""

import html
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.slack_stage import ADA, SlackChat, SlackStage, deliver, text_of
from tests.fakes.process import FakeProcess
from tests.fakes.slack_server import ME, TEAM

MAIN = "chat.postMessage"


@pytest.fixture(scope="module")
def slack() -> Iterator[SlackStage]:
    with FakeProcess("slack_server") as fake:
        stage = SlackStage(fake)
        yield stage
        stage.close()


@pytest.fixture
def service(make_service: MakeService, slack: SlackStage) -> Service:
    return make_service(**slack.settings())


def answer(text: str, chat: SlackChat) -> str:
    return f"You said: {text} {chat.tag}"


def test_a_mention_is_answered_in_its_thread_and_the_eyes_go(service: Service, slack: SlackStage) -> None:
    chat = slack.chat("C")
    service.start()
    mention = chat.payload(f"<@{ME}> hello {chat.tag}")
    twice = mention | {"event": {**mention["event"], "type": "app_mention"}}
    assert [deliver(service, payload) for payload in (mention, twice, mention)] == [200] * 3
    service.settle()

    (said,) = slack.said(chat)
    assert text_of(said) == answer("Ada: hello", chat) and said["thread_ts"] == mention["event"]["ts"]
    until(lambda: len(_signs(slack, mention)) == 2, "the end of the eyes")
    assert _signs(slack, mention) == ["reactions.add", "reactions.remove"]
    thread = chat.payload(f"<@{ME}> more {chat.tag}", thread_ts=mention["event"]["ts"])
    assert deliver(service, thread) == 200
    assert deliver(service, chat.payload("small talk", thread_ts=mention["event"]["ts"])) == 200
    service.settle()
    assert slack.replies(chat) == [answer("Ada: hello", chat), answer("Ada: more", chat)]
    assert {message["thread_ts"] for message in slack.said(chat)} == {mention["event"]["ts"]}
    assert service.rows("SELECT count(*) AS n FROM sessions WHERE key LIKE 'slack:%'") == [{"n": 1}]
    check_transcripts(service)


def _signs(slack: SlackStage, payload: dict[str, Any]) -> list[str]:
    return [
        call["method"]
        for call in slack.slack.calls()
        if call["params"].get("timestamp") == payload["event"]["ts"] and call["params"].get("name") == "eyes"
    ]


def test_strangers_and_what_is_not_signed_stay_outside(service: Service, slack: SlackStage) -> None:
    chat = slack.chat()
    service.start()
    assert deliver(service, chat.payload("hello", user="U0EVE00001")) == 200
    assert service.post("/webhooks/slack", chat.payload("hello")).status_code == 401
    service.settle()
    assert service.rows("SELECT id FROM messages") == []


def slash(chat: SlackChat, text: str, number: int, **fields: str) -> dict[str, str]:
    given = {"command": "/moab", "text": text, "team_id": TEAM, "channel_id": chat.id, "user_id": ADA}
    return given | {"trigger_id": f"1.2.{number}", "user_name": "ada"} | fields


def test_a_slash_command_in_a_channel_means_the_thread_in_which_its_sender_spoke(
    service: Service, slack: SlackStage
) -> None:
    chat = slack.chat("C")
    service.stage.script(chat.tag, {"text": "never", "delay_s": 60})
    service.start()
    said = chat.payload(f"<@{ME}> take your time {chat.tag}")
    thread = said["event"]["ts"]
    assert deliver(service, said) == 200
    until(lambda: service.stage.asked(chat.tag), "the question to the model")

    assert deliver(service, slash(chat, "stop", 1), form=True) == 200
    (stopped,) = until(lambda: slack.said(chat), "the answer to /moab stop")
    assert (text_of(stopped), stopped["thread_ts"]) == ("Stopped.", thread)
    assert service.rows("SELECT state FROM turns") == [{"state": "stopped"}]


def test_where_the_bot_is_no_member_a_slash_command_is_answered_to_its_sender_alone(
    service: Service, slack: SlackStage
) -> None:
    chat = slack.chat("C")
    refused = {"kind": "error", "error": "not_in_channel", "times": None}
    slack.slack.script({"method": "chat.postMessage", "chat": chat.id} | refused)
    service.start()
    asked = slash(chat, "status", 2, response_url=f"{slack.slack.url}/commands/{TEAM}/1/x")
    assert deliver(service, asked, form=True) == 200
    (seen,) = until(lambda: slack.slack.control("/__ephemeral", {})["messages"], "the answer")
    assert seen["response_type"] == "ephemeral" and "Now: idle." in seen["text"]
    service.settle()
    assert [row["state"] for row in service.rows("SELECT state FROM deliveries")] == ["sent"]


def test_a_slash_command_and_a_button_do_what_they_say(make_service: MakeService, slack: SlackStage) -> None:
    service = make_service(**slack.settings(), TOOL_POLICY="bash=ask", APPROVAL_ADMINS=f"slack:{ADA}").start()
    chat = slack.chat()
    bash = {"name": "bash", "arguments": {"command": "echo x >> lines.txt"}}
    service.stage.script(chat.tag, {"text": "done", "when": {"has_result_of": "bash"}}, {"tool_calls": [bash]})
    assert deliver(service, chat.payload("run it")) == 200
    (prompt,) = until(lambda: slack.said(chat), "the prompt")
    approve, deny = prompt["blocks"][-1]["elements"]
    assert (approve["text"]["text"], deny["text"]["text"]) == ("Approve", "Deny")

    status = {"command": "/moab", "text": "status", "team_id": TEAM, "channel_id": chat.id, "user_id": ADA}
    assert deliver(service, status | {"trigger_id": "1.2.3", "user_name": "ada"}, form=True) == 200
    until(lambda: len(slack.said(chat)) == 2, "the answer to /moab status")
    pressed = {
        "type": "block_actions",
        "team": {"id": TEAM},
        "channel": {"id": chat.id},
        "user": {"id": ADA, "username": "ada"},
        "message": {"ts": prompt["ts"]},
        "actions": [{"value": approve["value"], "action_ts": "9.000001"}],
    }
    assert deliver(service, {"payload": json.dumps(pressed)}, form=True) == 200
    service.settle()
    assert service.workspace("lines.txt") == "x\n"
    first, _, last = slack.said(chat)
    assert "was approved by" in text_of(first) and not first["blocks"][1:], "the prompt says how it ended"
    assert text_of(last) == "done"
    check_transcripts(service)


STORY = " ".join(f"sentence {number} of the story." for number in range(12))


def test_killed_in_the_moment_in_which_a_preview_is_shown_there_is_one_message(
    make_service: MakeService, slack: SlackStage
) -> None:
    service = make_service(**slack.settings(), PREVIEW_ANSWERS="true").start("preview.shown")
    chat = slack.chat()
    service.stage.script(chat.tag, *[{"text": STORY, "piece_delay_s": 0.25, "times": 1}] * 2)
    assert deliver(service, chat.payload("tell me a story")) == 200
    until(lambda: not service.lives(), "the kill", 60)
    (half,) = slack.said(chat)
    assert text_of(half) != STORY and STORY.startswith(text_of(half))
    service.start()
    service.settle(60)
    (whole,) = slack.said(chat)
    assert (whole["ts"], text_of(whole)) == (half["ts"], STORY)
    check_transcripts(service)


@pytest.mark.parametrize("kind", ["drop_after", "error_after", "drop_before"])
def test_a_preview_whose_answer_is_lost_is_replaced_all_the_same(
    make_service: MakeService, slack: SlackStage, kind: str
) -> None:
    service = make_service(**slack.settings(), PREVIEW_ANSWERS="true").start()
    chat = slack.chat()
    service.stage.script(chat.tag, {"text": STORY, "piece_delay_s": 0.25, "times": 1})
    slack.slack.script({"method": MAIN, "chat": chat.id, "kind": kind})
    assert deliver(service, chat.payload("tell me a story")) == 200
    service.settle(60)
    assert slack.replies(chat) == [STORY]
    assert len(slack.attempts(chat)) == (2 if kind == "drop_before" else 1)
    check_transcripts(service)


# Ambiguous send (lost response) -> look up by metadata where the platform allows.
@pytest.mark.parametrize("failpoint", ["deposit.committed", "finish.committed", "send.claimed", "send.accepted",
                                       "send.recorded"])  # fmt: skip
def test_killed_anywhere_on_the_way_it_is_answered_exactly_once(
    service: Service, slack: SlackStage, failpoint: str
) -> None:
    chat = slack.chat()
    service.start(failpoint)
    payload = chat.payload("hello")
    taken = deliver(service, payload)
    assert service.ended() == -9
    service.start()
    if taken != 200:  # then Slack delivers it again
        assert deliver(service, payload) == 200
    service.settle()
    assert slack.replies(chat) == [answer("hello", chat)], "neither lost nor twice, and nothing to apologise for"
    check_transcripts(service)


@pytest.mark.parametrize("kind", ["drop_after", "error_after", "server_error", "drop_before"])
def test_doubt_is_settled_by_asking(service: Service, slack: SlackStage, kind: str) -> None:
    chat = slack.chat()
    service.start()
    slack.slack.script({"method": MAIN, "chat": chat.id, "kind": kind})
    assert deliver(service, chat.payload("hello")) == 200
    service.settle()
    assert slack.replies(chat) == [answer("hello", chat)]
    arrived = kind.endswith("after")
    assert len(slack.attempts(chat)) == (1 if arrived else 2)
    (row,) = service.rows("SELECT state, receipt FROM deliveries WHERE channel = 'slack'")
    assert row["state"] == "sent" and ('"found": true' in row["receipt"]) == arrived


# 429 with retry_after ... -> durable sleep as asked.
def test_slack_is_given_the_time_it_asks_for(service: Service, slack: SlackStage) -> None:
    chat = slack.chat()
    service.start()
    slack.slack.script({"method": MAIN, "chat": chat.id, "kind": "rate_limit", "retry_after": 2})
    assert deliver(service, chat.payload("hello")) == 200
    until(lambda: service.rows("SELECT id FROM deliveries WHERE attempts = 1 AND state = 'pending'"), "the wait")
    service.kill()
    service.start()
    service.settle()
    first, second = slack.attempts(chat)
    assert second["at"] - first["at"] >= 2 and slack.replies(chat) == [answer("hello", chat)]


FAULTS: list[dict[str, Any]] = [
    {"kind": "rate_limit", "retry_after": 1},
    {"kind": "server_error"},
    {"kind": "error_after"},
    {"kind": "drop_after"},
    {"kind": "drop_before"},
    {"kind": "error", "error": "invalid_blocks"},
    {"kind": "slow", "delay_s": 0.5},
]
"""What Slack does to seven in ten messages; the blocks that it does not take are sent as plain text."""
AT_RANDOM = "at random"
FAILPOINTS = [
    *("", "send.claimed", "send.accepted", AT_RANDOM, "finish.committed", "", "send.recorded", AT_RANDOM),
    *("deposit.committed", "think.committed", ""),
]
"""Where the process dies in each of its lives, if it does."""
CHATS = int(os.environ.get("SLACK_CHATS", "4"))
ROUNDS = int(os.environ.get("SLACK_ROUNDS", "1"))


@pytest.mark.slow
def test_through_faults_and_kills_every_message_has_one_answer_in_its_order(
    service: Service, slack: SlackStage
) -> None:
    chance = random.Random(int(os.environ.get("SLACK_SEED", "7")))  # noqa: S311
    chats = [slack.chat() for _ in range(CHATS)]
    for number, failpoint in enumerate(FAILPOINTS * ROUNDS):
        service.start("" if failpoint == AT_RANDOM else failpoint)
        died = False
        killed_in = chance.randrange(CHATS)
        for place, chat in enumerate(chats):
            if chance.random() < 0.7:
                slack.slack.script(chance.choice(FAULTS) | {"method": MAIN, "chat": chat.id})
            died |= say_until_taken(service, chat.payload(f"message {number}"), twice=chance.random() < 0.3)
            if failpoint == AT_RANDOM and place == killed_in:
                time.sleep(chance.uniform(0.0, 0.5))
                service.kill()
                service.start()
                died = True
        if failpoint and not died:
            assert service.ended() == -9
            service.start()
        service.settle(60)
        assert service.terminate() == 0
    for chat in chats:
        said = [html.unescape(reply) for reply in slack.replies(chat)]
        assert said == [answer(f"message {n}", chat) for n in range(ROUNDS * len(FAILPOINTS))]
    assert service.rows("SELECT * FROM deliveries WHERE channel = 'slack' AND state <> 'sent'") == []
    check_transcripts(service)


def say_until_taken(service: Service, payload: dict[str, Any], twice: bool) -> bool:
    """As Slack: deliver until it is taken, and now and then once more; whether the service died and was started."""
    died = False
    while deliver(service, payload) != 200:
        if not service.lives():
            service.start()
            died = True
    if twice:
        deliver(service, payload)
    return died


class Link:
    """Slack's end of Socket Mode: hands out what is on its list until it is acknowledged."""

    def __init__(self) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.acknowledged: list[str] = []

    def __call__(self, connection: ServerConnection) -> None:
        connection.send(json.dumps({"type": "hello"}))
        for payload in self.waiting:
            number = payload["event_id"]
            if number not in self.acknowledged:
                connection.send(json.dumps({"type": "events_api", "envelope_id": number, "payload": payload}))
        for message in connection:
            self.acknowledged.append(json.loads(message)["envelope_id"])


@pytest.fixture
def link(slack: SlackStage) -> Iterator[Link]:
    link = Link()
    server: Server = serve(link, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    slack.slack.control("/__socket", {"url": f"ws://127.0.0.1:{server.socket.getsockname()[1]}"})
    yield link
    server.shutdown()
    thread.join(5)


def test_over_a_socket_nothing_is_lost_that_was_not_acknowledged(
    make_service: MakeService, slack: SlackStage, link: Link
) -> None:
    service = make_service(**slack.socket_settings())
    chat = slack.chat()
    link.waiting = [chat.payload("hello")]
    service.live_until("deposit.committed")
    assert link.acknowledged == []
    service.start()
    until(lambda: link.acknowledged, "the acknowledgement")
    service.settle()
    assert slack.replies(chat) == [answer("hello", chat)]
    check_transcripts(service)
