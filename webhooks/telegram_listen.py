"""What the bot does of its own accord: it learns its name, registers its commands, and fetches updates (long polling).

Source: core.telegram.org/bots/api, getMe, setMyCommands and getUpdates.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.clock import Clock
from app.errors import ChannelError
from app.events import wire_safe
from app.failpoints import reach
from app.sentences import LANGUAGES, MENU, say
from webhooks.telegram_said import Bot

POLL_S = 50
ANSWER_WITHIN_S = 15.0
"""How long Telegram may hold a poll back, and how much later its answer may come."""
PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
KINDS = (
    "message", "edited_message", "channel_post", "edited_channel_post", "callback_query",
)  # fmt: skip
"""The updates that are asked for; everything else would only be thrown away."""
NO_WEBHOOK = (
    "TELEGRAM_WEBHOOK_SECRET is set, and no webhook leads here, so no message comes in. Run `moab setup telegram`, or "
    "remove the secret to have messages fetched."
)
NO_MENU = "Telegram does not take the list of commands for its menu (%s); the next start tries again."
UNAUTHORIZED = (401, 404)
CONFLICT = 409

ANOTHER_POLLER = (
    "Another program fetches the messages of the same bot, so that each of them gets only some. Stop the other one; "
    "until then this one tries again."
)
WEBHOOK_IS_SET = (
    "A webhook is set for this bot, so nothing can be fetched. Run `moab setup telegram` to choose between webhook "
    "and polling, or set TELEGRAM_WEBHOOK_SECRET if the webhook leads here."
)
WRONG_TOKEN = "Telegram does not know TELEGRAM_BOT_TOKEN: ask @BotFather for the right one, and start again."  # noqa: S105

log = logging.getLogger("moab.webhooks")


class BotApi(Protocol):
    """The way out to Telegram, as far as it is needed here."""

    async def call(self, method: str, read_s: float | None = None, **params: Any) -> Any:
        """The result of a method; raises ChannelError with status and, where Telegram says so, how long to wait."""
        ...


class Take(Protocol):
    """Stores what is in an update; returns once it cannot be lost."""

    async def __call__(self, update: Mapping[str, Any]) -> None: ...


@dataclass
class Itself:
    """Who the bot is, as far as it is known by now."""

    bot: Bot


async def introduce(api: BotApi, clock: Clock, itself: Itself) -> bool:
    """Learn the bot's name and register its commands; false if Telegram does not know the token. Waits out trouble."""
    told, tries = "", 0
    while True:
        try:
            me = await api.call("getMe")
            itself.bot = Bot(itself.bot.id, str(me.get("username") or ""))
            _well_again(told)
            await _register(api)
            return True
        except ChannelError as error:
            if error.status in UNAUTHORIZED:
                log.error(WRONG_TOKEN, extra={"action": "wrong_token"})
                return False
            told = _tell(error, told)
            await clock.sleep(_pause(error, tries))
            tries += 1


async def _register(api: BotApi) -> None:
    """Commands work without being listed, so that nothing waits for the list."""
    for language in LANGUAGES:
        commands = [{"command": name, "description": say(text, language)} for name, text in MENU]
        params: dict[str, Any] = {"commands": commands} | ({} if language == "en" else {"language_code": language})
        try:
            await api.call("setMyCommands", **params)
        except ChannelError as error:
            log.warning(NO_MENU, error, extra={"action": "no_menu"})
            return


async def look_for_webhook(api: BotApi) -> None:
    """Say so where messages are to be brought, and Telegram has no address to bring them to."""
    try:
        info = await api.call("getWebhookInfo")
    except ChannelError as error:
        log.info("Whether a webhook is set is not known: %s", error, extra={"action": "webhook_unknown"})
        return
    if not info.get("url"):
        log.warning(NO_WEBHOOK, extra={"action": "no_webhook"})


async def poll(api: BotApi, clock: Clock, take: Take) -> None:
    """Fetch updates until cancelled, or until it makes no sense. What was stored is confirmed by the next question.

    Telegram forgets an update when it is asked for what comes behind it, and that is only asked once the update is on
    disk. Begun again, it asks for everything that is not confirmed.
    """
    offset: dict[str, int] = {}
    told, tries = "", 0
    while True:
        try:
            found = await api.call(
                "getUpdates", POLL_S + ANSWER_WITHIN_S, timeout=POLL_S, allowed_updates=list(KINDS), **offset
            )
            for update in found if isinstance(found, list) else ():
                await take(wire_safe(update))
                reach("poll.stored")
                offset = {"offset": int(update["update_id"]) + 1}
            told, tries = _well_again(told), 0
        except ChannelError as error:
            if error.status in UNAUTHORIZED:
                log.error(WRONG_TOKEN, extra={"action": "wrong_token"})
                return
            told = _tell(error, told)
            await clock.sleep(_pause(error, tries))
            tries += 1


def _tell(error: ChannelError, told: str) -> str:
    """Say once what is in the way; what was said."""
    words = str(error)
    if error.status == CONFLICT:
        words = WEBHOOK_IS_SET if "webhook" in words else ANOTHER_POLLER
    if words != told:
        log.warning("%s", words, extra={"action": "poll_trouble"})
    return words


def _well_again(told: str) -> str:
    if told:
        log.info("Messages of Telegram come in again.", extra={"action": "poll_well"})
    return ""


def _pause(error: ChannelError, tries: int) -> float:
    return error.after_s if error.after_s is not None else PAUSES_S[min(tries, len(PAUSES_S) - 1)]
