"""The way in from Slack over HTTP: nothing unsigned is read, everything is answered in time, and stored first."""

import asyncio
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from app.channels.slack import About
from app.clock import ManualClock
from app.config import Settings
from app.errors import ServiceUnavailable
from app.events import CommandReceived, MessageReceived, Sender
from app.sentences import NOT_NOW
from tests.unit.webhooks.test_slack_fixtures import payload_of
from webhooks import slack_desk
from webhooks.slack import is_configured, parse, slack_router, verify, way_in
from webhooks.slack_desk import Desk
from webhooks.slack_said import to_event
from webhooks.way_in import Door

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"


def sign(body: bytes, at: int, secret: str = SECRET) -> str:
    return "v0=" + hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()


# The example of docs.slack.dev, "Verifying requests from Slack".
BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SIGNED = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
AT = 1531420618


@pytest.mark.parametrize("late_s", [0, 300, -300])
def test_what_slack_signed_is_let_in_for_five_minutes_both_ways(late_s):
    headers = {"X-Slack-Request-Timestamp": str(AT), "X-Slack-Signature": SIGNED}
    assert verify(headers, BODY, SECRET, datetime.fromtimestamp(AT + late_s, UTC))


@pytest.mark.parametrize(
    ("changes", "late_s"),
    [
        ({}, 301),
        ({}, -301),
        ({"body": BODY + b"x"}, 0),
        ({"secret": "other"}, 0),
        ({"secret": ""}, 0),
        ({"x-slack-signature": None}, 0),
        ({"x-slack-signature": ""}, 0),
        ({"x-slack-signature": SIGNED.removeprefix("v0=")}, 0),
        ({"x-slack-signature": "v0=é"}, 0),
        ({"x-slack-request-timestamp": None}, 0),
        ({"x-slack-request-timestamp": "now"}, 0),
        ({"x-slack-request-timestamp": "1531420618.0"}, 0),
        ({"x-slack-request-timestamp": "-1531420618"}, 0),
        ({"x-slack-request-timestamp": "١٥٣١٤٢٠٦١٨"}, 0),
        ({"x-slack-request-timestamp": "9" * 5000}, 0),
    ],
)
def test_nothing_else_is(changes, late_s):
    given = {"x-slack-request-timestamp": str(AT), "x-slack-signature": SIGNED} | changes
    headers = {name: value for name, value in given.items() if value is not None and name.startswith("x-")}
    now = datetime.fromtimestamp(AT + late_s, UTC)
    assert not verify(headers, changes.get("body", BODY), changes.get("secret", SECRET), now)


class Service:
    """The route in an application, with an `accept` that records, waits or fails."""

    def __init__(self, people=None):
        self.accepted, self.fault, self.gate, self.stored = [], None, None, asyncio.Event()
        self.clock = ManualClock()
        self.app = FastAPI()
        self.app.include_router(slack_router(Desk(self.accept, people), SECRET, self.clock))

    async def accept(self, event):
        if self.gate:
            await self.gate.wait()
        if self.fault:
            raise self.fault
        self.accepted.append(event)
        self.stored.set()
        return True

    async def post(self, body, content_type="application/json", **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        at = int(self.clock.now().timestamp())
        signed = {"x-slack-request-timestamp": str(at), "x-slack-signature": sign(content, at)}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://moab") as client:
            return await client.post(
                "/webhooks/slack", content=content, headers=signed | {"content-type": content_type} | headers
            )


async def test_a_message_is_accepted_before_the_answer():
    service = Service()
    response = await service.post(payload_of("direct_message"))
    assert (response.status_code, response.content) == (200, b"")
    assert [event.message for event in service.accepted] == ["Good morning"]


async def test_a_slash_command_and_a_button_come_as_forms():
    service = Service()
    form = urlencode(payload_of("slash_command")).encode()
    button = urlencode({"payload": json.dumps(payload_of("button"))}).encode()
    for body in (form, button):
        response = await service.post(body, "application/x-www-form-urlencoded; charset=utf-8")
        assert (response.status_code, response.content) == (200, b""), "a text here would be shown in the chat"
    assert [event.command for event in service.accepted] == ["status", "approve"]
    assert all(isinstance(event, CommandReceived) for event in service.accepted)


# url_verification only after the signature.
async def test_the_address_is_confirmed_to_slack_alone():
    service = Service()
    hello = payload_of("url_verification")
    assert (await service.post(hello)).json() == {"challenge": hello["challenge"]}
    refused = await service.post(hello, **{"x-slack-signature": "v0=wrong"})
    assert refused.status_code == 401 and hello["challenge"] not in refused.text


@pytest.mark.parametrize("header", ["x-slack-signature", "x-slack-request-timestamp"])
async def test_without_the_signature_nothing_is_read(header):
    service = Service()
    response = await service.post(payload_of("direct_message"), **{header: ""})
    assert response.status_code == 401 and service.accepted == []


# Slack retries dropped by their header: a lost first delivery is lost for good -> never look at the header.
async def test_a_retry_is_taken_like_the_first():
    service = Service()
    retried = {"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"}
    assert (await service.post(payload_of("mention"), **retried)).status_code == 200
    assert (await service.post(payload_of("mention_as_message_of_the_channel"))).status_code == 200
    first, second = service.accepted
    assert first.message_key == second.message_key, "one key for every delivery of one message"


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"{", "application/json", "neither JSON nor a form"),
        (b"\xff\xfe", "application/json", "neither JSON nor a form"),
        (b"\xff\xfe", "application/x-www-form-urlencoded", "neither JSON nor a form"),
        (b"payload=%7B", "application/x-www-form-urlencoded", "neither JSON nor a form"),
        (b"[" * 100_000, "application/json", "neither JSON nor a form"),
        (b"[]", "application/json", "not a JSON object"),
        (b" " * (2**20 + 1), "application/json", "larger than"),
    ],
)
async def test_a_body_that_is_no_payload_is_refused_in_a_sentence(body, content_type, words):
    response = await Service().post(body, content_type)
    assert response.status_code == 400
    assert words in response.json()["error"] and "Traceback" not in response.text


# The way in: acknowledge to the platform only after the event is durable.
async def test_a_message_that_could_not_be_stored_is_asked_for_again():
    service = Service()
    service.fault = OSError("disk full at /secret/path")
    response = await service.post(payload_of("direct_message"))
    assert response.status_code == 503 and "disk" not in response.text
    service.fault = None
    assert (await service.post(payload_of("direct_message"))).status_code == 200
    assert len(service.accepted) == 1


async def test_slack_is_answered_in_time_and_the_work_goes_on(monkeypatch):
    monkeypatch.setattr(slack_desk, "ANSWER_WITHIN_S", 0.01)
    service = Service()
    service.gate = asyncio.Event()
    assert (await service.post(payload_of("direct_message"))).status_code == 503
    service.gate.set()
    async with asyncio.timeout(5):
        await service.stored.wait()
    assert [event.message for event in service.accepted] == ["Good morning"]


# Slack repeats no slash command: a status that is no 200 is an ugly error of Slack's own, and then nothing.
async def test_a_slash_command_that_is_not_taken_says_so_to_who_gave_it():
    service = Service()
    service.fault = ServiceUnavailable("The engine does not take commands right now.")
    form = urlencode(payload_of("slash_command")).encode()
    response = await service.post(form, "application/x-www-form-urlencoded")
    assert response.status_code == 200
    assert response.json() == {"response_type": "ephemeral", "text": NOT_NOW}


def test_slack_waits_three_seconds():
    assert slack_desk.ANSWER_WITHIN_S < 3


async def test_who_speaks_has_a_name_a_language_and_a_zone():
    class People:
        async def about(self, user_id):
            return {"U0ADA00001": About("Ada", "de-DE", "Europe/Berlin")}.get(user_id, About())

    service = Service(people=People())
    await service.post(payload_of("mention"))
    assert service.accepted[0].sender == Sender(id="U0ADA00001", name="Ada")
    meta = service.accepted[0].channel_meta
    assert (meta["languageCode"], meta["timezone"]) == ("de-DE", "Europe/Berlin")


def door(**settings):
    given = Settings(_env_file=None, slack_bot_token="xoxb-1", **settings)
    return Door(given, ManualClock(), channel=None, accept=None, wait=None, new_key=str)


def test_each_way_in_needs_its_own_secret(caplog):
    assert not is_configured(Settings(_env_file=None)) and is_configured(door().settings)
    nothing, http = way_in(door()), way_in(door(slack_signing_secret=SECRET))
    assert (nothing.router, nothing.listen) == (None, None) and "nothing comes in from Slack" in caplog.text
    assert http.router is not None and http.listen is None


def test_no_cause_makes_an_edit_of_a_message_look_newer_than_it_is():
    edited = to_event(payload_of("edited_mention"))
    assert isinstance(edited, MessageReceived) and edited.edited == "1764500060000000"


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(["message", "D1"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("type", "event", "channel", "ts", "user", "text", "team_id", "message", "files", "actions", "team", "id"),
        *("command", "authorizations", "subtype", "edited", "trigger_id", "channel_id", "user_id", "thread_ts"),
        *("previous_message", "channel_type", "action_ts", "value", "is_bot", "mimetype"),
    ]
)
KINDS = st.sampled_from(["event_callback", "block_actions"])


@given(st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON)), KINDS)
def test_no_payload_whatever_breaks_it(payload, kind):
    body = json.dumps(payload | {"type": kind}).encode()
    event = to_event(parse(body, "application/json"))
    assert event is None or event.message_key.startswith("slack:")


def test_the_clock_is_the_one_that_is_given():
    clock = ManualClock()
    at = int((clock.now() - timedelta(seconds=200)).timestamp())
    assert verify(
        {"x-slack-request-timestamp": str(at), "x-slack-signature": sign(b"{}", at)}, b"{}", SECRET, clock.now()
    )
