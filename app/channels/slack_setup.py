"""Setting Slack up: the manifest of an app to paste, then tokens, scopes and events are checked.

Source: docs.slack.dev, "App manifest reference".
"""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx

from app.channels.channel import Desk, ask_until_right
from app.channels.slack_api import Answer, SlackApi
from app.channels.slack_socket import Socket, connect
from app.errors import BadInput, ChannelError, ConfigError, MoabError

SCOPES = (
    *("app_mentions:read", "channels:history", "chat:write", "commands", "files:read", "files:write", "groups:history"),
    *("im:history", "im:write", "metadata.message:read", "mpim:history", "reactions:write", "users:read"),
)
EVENTS = ("app_mention", "message.channels", "message.groups", "message.im", "message.mpim")
PATH = "/webhooks/slack"
ADDRESS = "Public address, such as https://moab.example.org; empty for the socket"
UNHEARD = (
    "The socket to Slack did not open or broke off, so nobody could be heard yet. Your tokens are kept: run "
    "`moab serve`, which opens it again and again, and logs a code that lets the first person in."
)
HEAR_WITHIN_S = 120
REACH_WITHIN_S = 10


def manifest(name: str, address: str | None) -> dict[str, Any]:
    """The manifest of an app called `name`; `address` is where Slack reaches this service, None for Socket Mode."""
    url = {} if address is None else {"url": f"{address}{PATH}"}
    request_url = {} if address is None else {"request_url": f"{address}{PATH}"}
    return {
        "display_information": {"name": name, "description": "An AI agent that never loses work."},
        "features": {
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": [
                {
                    "command": "/moab",
                    "description": "Ask for the state, stop, begin anew",
                    "usage_hint": "status | stop | new | help",
                    "should_escape": False,
                    **url,
                }
            ],
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES)}},
        "settings": {
            "event_subscriptions": {"bot_events": list(EVENTS), **request_url},
            "interactivity": {"is_enabled": True, **request_url},
            "org_deploy_enabled": False,
            "socket_mode_enabled": address is None,
            "token_rotation_enabled": False,
        },
    }


async def set_up(desk: Desk) -> None:
    """From the manifest to a person who is heard. Raises ChannelError with what Slack does not take."""
    desk.say("Slack can reach Moab over a socket that Moab opens, or at a public https address of yours.")
    address = await ask_until_right(desk, ADDRESS, _address)
    desk.say("\n1. Open https://api.slack.com/apps, choose Create New App, From a manifest, and paste this as JSON:\n")
    desk.say(json.dumps(manifest(desk.settings.agent_name, address), indent=2))
    desk.say("\n2. Install the app to your workspace; the token of the bot is on the page OAuth & Permissions.")
    api = await ask_until_right(desk, "Token of the bot (xoxb-...)", partial(_bot, desk), secret=True)
    try:
        if address is None:
            await _set_up_socket(desk, api)
        else:
            await _set_up_address(desk, address)
    finally:
        await api.close()
    allowed = (
        ", ".join(desk.settings.slack_allowed) or "nobody yet; `moab serve` logs a code that lets the first one in"
    )
    desk.say(f"Kept in {desk.settings.home / '.env'}. Allowed to talk to the agent: {allowed}. Now run `moab serve`.")


async def _address(given: str) -> str | None:
    if given and not given.startswith("https://"):
        raise BadInput(f"{given} is no address that Slack takes; accepted: one that begins with https://, or nothing.")
    return given.rstrip("/") or None


async def _bot(desk: Desk, token: str) -> SlackApi:
    """The API as this bot, whose token is kept. Raises BadInput for what is no token, and for missing scopes."""
    if not token.startswith("xoxb-"):
        raise BadInput("That is no token of a bot: those begin with xoxb-.")
    api = SlackApi(token, desk.settings.slack_api_base_url)
    try:
        desk.say(await _who(api))
    except MoabError:
        await api.close()
        raise
    desk.keep(slack_bot_token=token)
    return api


async def _who(api: SlackApi) -> str:
    """Who the bot is, in one sentence."""
    found = await _taken(api, "auth.test", "auth.test")
    granted = {scope.strip() for scope in found.headers.get("x-oauth-scopes", "").split(",")}
    missing = [scope for scope in SCOPES if scope not in granted]
    if missing:
        raise BadInput(
            f"The bot lacks {', '.join(missing)}: add them under OAuth & Permissions and install the app again."
        )
    return f"The bot is {found.body.get('user')} in {found.body.get('team')}, and has every scope."


async def _taken(api: SlackApi, method: str, what: str, token: str | None = None) -> Answer:
    """Raises BadInput where Slack does not take the token, ChannelError with any other reason; `what` begins it."""
    said = await api.call(method, token=token)
    if isinstance(said, Answer) and said.ok:
        return said
    refused = isinstance(said, Answer) and not said.is_busy and not said.is_doubtful
    raise (BadInput if refused else ChannelError)(f"{what}: {said.reason}")


async def _set_up_socket(desk: Desk, api: SlackApi) -> None:
    desk.say("\n3. On Basic Information, under App-Level Tokens, make a token with the scope connections:write.")
    url = await ask_until_right(desk, "Token of the app (xapp-...)", partial(_app, desk, api), secret=True)
    desk.say("\n4. In Slack, open Apps, choose the bot and write it a message. Waiting for two minutes.")
    try:
        async with connect(url) as socket:
            event = await _hear(socket)
    except ConnectionError as error:
        raise ChannelError(UNHEARD) from error
    if event is None:
        raise ChannelError(
            f"Nothing was heard. Under Event Subscriptions these must be on: {', '.join(EVENTS)}. The tokens are kept."
        )
    await _allow(desk, api, event)


async def _app(desk: Desk, api: SlackApi, token: str) -> str:
    """The address of a socket that the app's token opens; the token is kept."""
    if not token.startswith("xapp-"):
        raise BadInput("That is no token of an app: those begin with xapp-.")
    opened = await _taken(api, "apps.connections.open", "The token opens no socket", token)
    desk.keep(slack_app_token=token)
    return str(opened.body.get("url"))


async def _hear(socket: Socket) -> Mapping[str, Any] | None:
    """The first message of a person, or None after two minutes."""
    try:
        async with asyncio.timeout(HEAR_WITHIN_S):
            async for text in socket:
                envelope = json.loads(text)
                event = (envelope.get("payload") or {}).get("event") or {}
                if envelope.get("envelope_id"):
                    await socket.send(json.dumps({"envelope_id": envelope["envelope_id"]}))
                if event.get("user") and not event.get("bot_id") and event.get("type") in ("message", "app_mention"):
                    return dict(event)
    except TimeoutError:
        return None
    return None


async def _allow(desk: Desk, api: SlackApi, event: Mapping[str, Any]) -> None:
    who = str(event["user"])
    said = await api.call("users.info", user=who)
    user = said.body.get("user") or {} if isinstance(said, Answer) else {}
    named = f"{user.get('real_name') or user.get('name') or 'somebody'} ({who})"
    if (await desk.ask(f"Heard {named}. May this person talk to the agent? y or n", default="y")).lower() != "y":
        return
    desk.keep(slack_allowed=",".join(dict.fromkeys([*desk.settings.slack_allowed, who])))
    await api.result("chat.postMessage", channel=str(event.get("channel")), text="We are connected.")


async def _set_up_address(desk: Desk, address: str) -> None:
    desk.say("\n3. The signing secret is on the page Basic Information, under App Credentials.")
    secret = await ask_until_right(desk, "Signing secret", _signing_secret, secret=True)
    desk.keep(slack_signing_secret=secret)
    desk.say(await _reached(f"{address}{PATH}"))
    desk.say("Under Event Subscriptions, choose Retry beside the request URL once `moab serve` runs.")


async def _signing_secret(given: str) -> str:
    if not (len(given) >= 16 and given.isascii() and given.isalnum()):
        raise BadInput("That is no signing secret: those are 32 letters and digits.")
    return given


async def _reached(url: str) -> str:
    """Whether the service answers at its address: what is not signed is refused there."""
    try:
        async with httpx.AsyncClient() as http:
            status = (await http.post(url, content=b"{}", timeout=REACH_WITHIN_S)).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{url} does not answer yet ({type(error).__name__}): start `moab serve` there."
    if status == httpx.codes.UNAUTHORIZED:
        return f"{url} answers, and refuses what Slack has not signed."
    raise ConfigError(f"{url} answers with status {status}; a Moab that has this secret answers with 401.")
