"""`moab setup telegram`: the token is checked, a way in chosen, the first person paired, and all of it kept.

Source: core.telegram.org/bots/api, getMe, setWebhook, getUpdates and Deep linking.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from app.channels.channel import Desk, ask_until_right
from app.errors import BadInput, ChannelError
from app.ids import new_code, read_code
from app.sentences import ASK_ZONE, HELLO, LANGUAGES, MENU, say

TRIES = 3
POLL_S = 25
PAIR_WITHIN_S = 600.0
"""How long the person at the terminal has to press start."""
LOOK_AGAIN_S = 1.0
MOST_UPDATES = 100
"""How many waiting updates Telegram shows at once."""
UPDATES = ["message", "edited_message", "channel_post", "edited_channel_post", "callback_query"]

WELCOME = "First the bot: write /newbot to @BotFather in Telegram, follow it, and copy the token it gives you."
WAYS = (
    "Telegram can bring messages to a public https address of this service (webhook), or the service fetches them "
    "(polling), which needs no address. Leave the address empty to fetch."
)
PAIR = "Now you: open {link} and press Start, or send {code} to @{name}. Waiting (ten minutes; Ctrl-C leaves) ..."
ADDRESS = "Public address, such as https://moab.example.org (empty: fetch)"
DONE = (
    "{name} is paired as admin and got a hello; the settings are in {file}. Start the service, or start it anew if it "
    "runs: `moab serve`. /pair in the chat invites others."
)
BUSY = "Another program fetches the messages of this bot, perhaps a running `moab serve`: stop it, then run this again."
FULL = (
    "A hundred messages wait for this bot already, so yours cannot be seen among them. Start `moab serve`: it takes "
    "them in, and its log has a code for you."
)
NOBODY = "Nobody sent the code in time. Run `moab setup telegram` again, or start `moab serve`: its log has one too."


class Bot(Protocol):
    """The Bot API with one token."""

    async def call(self, method: str, read_s: float | None = None, **params: Any) -> Any: ...
    async def close(self) -> None: ...


async def set_up_bot(desk: Desk, connect: Callable[[str], Bot]) -> None:
    """Lead a person through it. `connect` gives the Bot API for a token. Raises MoabError."""
    desk.say(WELCOME)
    bot, me, token = await _bot(desk, connect)
    try:
        name = str(me.get("username") or "")
        desk.say(f"The token is right: it is @{name}.")
        desk.say(WAYS)
        address = await ask_until_right(desk, ADDRESS, _address)
        await _register(bot)
        desk.keep(telegram_bot_token=token, telegram_webhook_secret="")  # a secret whose webhook is gone hears nobody
        await bot.call("deleteWebhook")
        person = await _paired(desk, bot, name)
        desk.keep(telegram_allowed_chats=_with(desk.settings.telegram_allowed_chats, str(person["id"])))
        desk.keep(approval_admins=_with(desk.settings.approval_admins, f"telegram:{person['id']}"))
        if address:
            desk.keep(telegram_webhook_secret=await _webhook(desk, bot, address))
        desk.say(DONE.format(name=person.get("first_name") or person["id"], file=desk.settings.home / ".env"))
    finally:
        await bot.close()


async def _bot(desk: Desk, connect: Callable[[str], Bot]) -> tuple[Bot, Mapping[str, Any], str]:
    for _ in range(TRIES):
        token = await desk.ask("Token", secret=True)
        bot = connect(token)
        try:
            return bot, await bot.call("getMe"), token
        except ChannelError as error:
            await bot.close()
            if error.status not in (401, 404):
                raise
            desk.say("Telegram does not know this token; it looks like 123456789:AAE... and has no spaces.")
    raise BadInput("Three tokens were wrong. Ask @BotFather with /mybots for the right one.")


async def _address(given: str) -> str:
    """The address without a slash at its end. Raises BadInput for one that Telegram would not take."""
    parts = urlsplit(given)
    if given and (parts.scheme != "https" or not parts.hostname):
        raise BadInput(f"{given} is no address that Telegram takes; accepted: https://host, with a valid certificate.")
    return given.rstrip("/")


async def _register(bot: Bot) -> None:
    for language in LANGUAGES:
        commands = [{"command": name, "description": say(text, language)} for name, text in MENU]
        params: dict[str, Any] = {"commands": commands} | ({} if language == "en" else {"language_code": language})
        await bot.call("setMyCommands", **params)


async def _paired(desk: Desk, bot: Bot, name: str) -> Mapping[str, Any]:
    """The first person who sends the code, greeted. Raises BadInput when nobody does."""
    code = new_code(secrets.token_bytes(5))
    desk.say(PAIR.format(link=f"https://t.me/{name}?start={code}", code=code, name=name))
    try:
        async with asyncio.timeout(PAIR_WITHIN_S):
            update = await _brought(bot, code)
    except TimeoutError as error:
        raise BadInput(NOBODY) from error
    message = update["message"]
    await bot.call("getUpdates", offset=int(update["update_id"]) + 1, limit=1, timeout=0)
    await bot.call("sendMessage", chat_id=message["chat"]["id"], text=_hello(message["from"]))
    return dict(message["from"])


async def _brought(bot: Bot, code: str) -> Mapping[str, Any]:
    """The update that brings the code. What waits already makes every question answer at once, hence the pause."""
    while True:
        found = await _updates(bot)
        for update in found:
            message = update.get("message") or {}
            is_it = code == read_code(str(message.get("text") or "").removeprefix("/start"))
            if is_it and (message.get("from") or {}).get("id"):
                return update
        if len(found) >= MOST_UPDATES:
            raise BadInput(FULL)
        await asyncio.sleep(LOOK_AGAIN_S)


async def _updates(bot: Bot) -> list[dict[str, Any]]:
    """What waits, none of it confirmed: who wrote before the code must not be lost for the service."""
    try:
        found = await bot.call("getUpdates", POLL_S + 15, timeout=POLL_S, allowed_updates=UPDATES)
    except ChannelError as error:
        raise (BadInput(BUSY) if error.status == 409 else error) from error
    return list(found)


def _hello(person: Mapping[str, Any]) -> str:
    language = str(person.get("language_code") or "")
    return f"{say(HELLO, language, name=person.get('first_name') or '')}\n\n{say(ASK_ZONE, language)}"


async def _webhook(desk: Desk, bot: Bot, address: str) -> str:
    """Let Telegram bring messages to `address`; the secret by which they are known."""
    secret = secrets.token_urlsafe(32)
    url = f"{address}/webhooks/telegram"
    await bot.call("setWebhook", url=url, secret_token=secret, allowed_updates=UPDATES)
    desk.say(f"Telegram brings messages to {url} now.")
    return secret


def _with(known: tuple[str, ...], one: str) -> str:
    return ",".join((*(name for name in known if name != one), one))
