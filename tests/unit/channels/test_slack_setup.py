"""`moab setup slack`: what is printed can be pasted, what is given is checked, and who greets the bot is let in."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from websockets.asyncio.server import ServerConnection, serve

from app.channels import slack_setup
from app.channels.slack_setup import EVENTS, SCOPES, manifest, set_up
from app.clock import ManualClock
from app.config import Settings
from app.errors import BadInput, ChannelError, ConfigError
from tests.fakes.slack_server import APP_TOKEN, TOKEN, SlackServer
from tests.unit.webhooks.test_slack_fixtures import payload_of
from webhooks.slack import Desk as Counter
from webhooks.slack import slack_router

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
GREETINGS = {"sent": ["its_own_message", "direct_message"]}


class Person:
    """Somebody at a terminal who has an answer to every question. Implements `Desk`."""

    def __init__(self, home: Path, url: str, *answers: str) -> None:
        self.answers, self.said, self.kept = list(answers), "", dict[str, Any]()
        self._given: dict[str, Any] = {"moab_home": home, "slack_api_base_url": url}

    @property
    def settings(self) -> Settings:
        return Settings(_env_file=None, **self._given, **self.kept)

    def say(self, text: str) -> None:
        self.said += text + "\n"

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str:
        return self.answers.pop(0) or default

    def keep(self, **settings: str) -> None:
        self.kept |= settings


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """Slack whose socket brings a greeting, once it is opened."""

    async def greet(connection: ServerConnection) -> None:
        for number, name in enumerate(GREETINGS["sent"]):
            await connection.send(json.dumps({"type": "hello"}))
            frame = {"type": "events_api", "envelope_id": f"E{number}", "payload": payload_of(name)}
            await connection.send(json.dumps(frame))
        await connection.wait_closed()

    async with SlackServer() as server, serve(greet, "127.0.0.1", 0) as sockets:
        server.socket_url = f"ws://127.0.0.1:{next(iter(sockets.sockets)).getsockname()[1]}"
        yield server


def test_the_manifest_of_an_app_without_a_public_address() -> None:
    found = manifest("Ada", None)
    assert found["settings"]["socket_mode_enabled"] is True
    assert found["oauth_config"]["scopes"]["bot"] == list(SCOPES)
    assert found["settings"]["event_subscriptions"] == {"bot_events": list(EVENTS)}
    assert "url" not in json.dumps(found) and found["features"]["slash_commands"][0]["command"] == "/moab"


def test_the_manifest_of_an_app_with_one() -> None:
    found = manifest("Ada", "https://moab.example.org")
    url = "https://moab.example.org/webhooks/slack"
    assert found["settings"]["socket_mode_enabled"] is False
    assert found["settings"]["event_subscriptions"]["request_url"] == url
    assert found["settings"]["interactivity"] == {"is_enabled": True, "request_url": url}
    assert found["features"]["slash_commands"][0]["url"] == url


async def test_over_a_socket_who_greets_the_bot_is_let_in(slack: SlackServer, tmp_path: Path) -> None:
    person = Person(tmp_path, slack.url, "", TOKEN, APP_TOKEN, "y")
    await set_up(person)
    assert person.kept == {"slack_bot_token": TOKEN, "slack_app_token": APP_TOKEN, "slack_allowed": "U0ADA00001"}
    pasted = person.said[person.said.index("{") : person.said.rindex("}") + 1]
    assert json.loads(pasted) == manifest("Moab", None)
    assert "has every scope" in person.said and TOKEN not in person.said and APP_TOKEN not in person.said
    assert [message["text"] for message in slack.said("D0DIRECT01")] == ["We are connected."]


async def test_whoever_is_not_wanted_is_not_let_in(slack: SlackServer, tmp_path: Path) -> None:
    person = Person(tmp_path, slack.url, "", TOKEN, APP_TOKEN, "n")
    await set_up(person)
    assert "slack_allowed" not in person.kept and slack.said() == [] and "nobody yet" in person.said


async def test_silence_is_explained(slack: SlackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_setup, "HEAR_WITHIN_S", 0.1)
    monkeypatch.setitem(GREETINGS, "sent", ["its_own_message"])
    person = Person(tmp_path, slack.url, "", TOKEN, APP_TOKEN)
    with pytest.raises(ChannelError, match=r"Nothing was heard\. Under Event Subscriptions .*message\.im"):
        await set_up(person)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ([], "http://moab.example.org", "begins with https://"),
        ([""], "xoxp-a-person", "begin with xoxb-"),
        ([""], "xoxb-wrong", "auth.test: Slack says invalid_auth."),
        (["", TOKEN], "xoxb-again", "begin with xapp-"),
        (["", TOKEN], "xapp-wrong", "opens no socket: Slack says invalid_auth."),
        (["https://moab.example.org", TOKEN], "short", "32 letters and digits"),
    ],
)
async def test_what_is_wrong_is_said_and_asked_again_twice(
    slack: SlackServer, tmp_path: Path, right: list[str], wrong: str, words: str
) -> None:
    person = Person(tmp_path, slack.url, *right, *[wrong] * 3)
    with pytest.raises(BadInput) as found:
        await set_up(person)
    assert words in str(found.value) and person.said.count(words) == 2 and person.answers == []


async def test_each_wrong_answer_is_mended_at_once(slack: SlackServer, tmp_path: Path) -> None:
    person = Person(tmp_path, slack.url, "moab.example", "", "xoxb-wrong", TOKEN, "xapp-wrong", APP_TOKEN, "y")
    await set_up(person)
    assert person.kept == {"slack_bot_token": TOKEN, "slack_app_token": APP_TOKEN, "slack_allowed": "U0ADA00001"}


async def test_a_socket_that_does_not_open_leaves_the_tokens_kept(slack: SlackServer, tmp_path: Path) -> None:
    slack.socket_url = "https://127.0.0.1:1"
    person = Person(tmp_path, slack.url, "", TOKEN, APP_TOKEN)
    with pytest.raises(ChannelError, match=r"Your tokens are kept: run `moab serve`"):
        await set_up(person)
    assert person.kept == {"slack_bot_token": TOKEN, "slack_app_token": APP_TOKEN}


async def test_slack_out_of_reach_is_no_wrong_token(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="cannot be reached"):
        await set_up(Person(tmp_path, "http://127.0.0.1:1", "", TOKEN))


async def test_scopes_that_are_missing_are_named(slack: SlackServer, tmp_path: Path) -> None:
    slack.scopes = slack.scopes.replace("metadata.message:read,", "").replace(",users:read", "")
    with pytest.raises(BadInput, match=r"lacks metadata\.message:read, users:read: add them"):
        await set_up(Person(tmp_path, slack.url, "", TOKEN, TOKEN, TOKEN))


async def test_with_an_address_the_service_behind_it_is_tried(slack: SlackServer, tmp_path: Path) -> None:
    person = Person(tmp_path, slack.url, "https://127.0.0.1:1/", TOKEN, SECRET)
    await set_up(person)
    assert person.kept == {"slack_bot_token": TOKEN, "slack_signing_secret": SECRET}
    assert "https://127.0.0.1:1/webhooks/slack does not answer yet" in person.said


async def test_a_service_with_the_route_answers_as_it_should() -> None:
    app = uvicorn.Config(_app(), port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(app)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.005)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        assert "refuses what Slack has not signed" in await slack_setup._reached(f"{url}/webhooks/slack")
        with pytest.raises(ConfigError, match="answers with status 404"):
            await slack_setup._reached(f"{url}/elsewhere")
    finally:
        server.should_exit = True
        await serving


def _app() -> FastAPI:
    async def accept(event: Any) -> None:
        raise AssertionError("nothing unsigned comes so far")

    app = FastAPI()
    app.include_router(slack_router(Counter(accept), SECRET, ManualClock()))
    return app
