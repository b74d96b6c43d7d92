"""The way in for a program: signed JSON, one message each, and sentences for what does not fit."""

import json
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from app.channels.generic import sign
from app.clock import ManualClock
from app.config import Settings
from webhooks.generic import generic_router, is_configured, parse, to_event, verify

SECRET = "generic-secret-of-the-tests"
FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "generic").glob("*.json"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_payload_becomes_its_event(path):
    fixture = json.loads(path.read_text("utf-8"))
    event = to_event(parse(json.dumps(fixture["payload"]).encode()))
    found = None if event is None else {"name": event.name, "data": event.to_wire("id")["data"]}
    assert found == fixture["event"]


ODD = st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text(max_size=3), max_size=2)
SENDER = st.dictionaries(st.sampled_from(["id", "name"]), st.none() | st.integers() | st.text())


@given(st.dictionaries(st.sampled_from(["id", "conversation", "text", "sender", "thread"]), ODD | SENDER))
def test_no_payload_whatever_breaks_it(payload):
    event = to_event(parse(json.dumps(payload).encode()))
    assert event is None or event.message_key.startswith("generic:")


class Service:
    def __init__(self):
        self.accepted = []
        self.clock = ManualClock()
        self.app = FastAPI()
        self.app.include_router(generic_router(self._accept, SECRET, self.clock))

    async def _accept(self, event):
        self.accepted.append(event)

    async def post(self, body, secret=SECRET, late_s=0, **changes):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = sign(secret, content, self.clock.now() - timedelta(seconds=late_s)) | changes
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://moab") as client:
            return await client.post("/webhooks/generic", content=content, headers=headers)


MESSAGE = {"id": 17, "conversation": "desk", "text": "hello", "sender": {"id": "7", "name": "Ada"}}


async def test_what_is_signed_is_accepted_before_the_answer():
    service = Service()
    response = await service.post(MESSAGE)
    assert (response.status_code, response.json()) == (202, {"messageKey": "generic:desk:17"})
    assert [event.message for event in service.accepted] == ["hello"]


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": "wrong"},
        {"late_s": 301},
        {"late_s": -301},
        {"x-moab-signature": ""},
        {"x-moab-timestamp": "now"},
        {"x-moab-signature": "v1=é".encode()},
    ],
)
async def test_nothing_else_is(changes):
    service = Service()
    assert (await service.post(MESSAGE, **changes)).status_code == 401
    assert service.accepted == [] and not verify({}, b"", "", service.clock.now())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"[" * 100_000, "is not JSON"),
        (b" " * (2**20 + 1), "larger than"),
        ({"conversation": "desk", "text": "hello"}, "no id"),
        ({"id": 1, "conversation": "desk", "text": "  "}, "no text"),
    ],
)
async def test_what_does_not_fit_is_refused_in_a_sentence(body, words):
    response = await Service().post(body)
    assert response.status_code == 400 and words in response.json()["error"]


def test_it_needs_both_a_secret_and_an_address():
    def configured(**given):
        return is_configured(Settings(_env_file=None, **given))

    assert configured(generic_secret=SECRET, generic_callback_url="https://example.org/moab")
    assert not configured(generic_secret=SECRET) and not configured(generic_callback_url="https://example.org")
