"""Where what Slack sends is taken in, whichever way it came: in time, in the order of each chat, and never in silence.

Slack repeats an event that is not taken; a slash command or a press of a button it does not, so these are answered in
words. Sources: docs.slack.dev, "Slash commands", "Handling user interaction".
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.events import CommandReceived
from app.sentences import NOT_NOW, NOT_YET, NOT_YOUR_BUTTON, OLD_BUTTON, STRANGER, Sentence, say
from webhooks.fields import as_dict, as_id, as_text
from webhooks.slack_said import to_event
from webhooks.way_in import Accept, Input

ANSWER_WITHIN_S = 2.5
"""Slack waits three seconds for an answer, and the way there and back takes its share."""
MAX_TOLD = 1_000

log = logging.getLogger("moab.webhooks")


class About(Protocol):
    """What Slack tells of a person; "" where it does not say."""

    @property
    def name(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def zone(self) -> str: ...


class People(Protocol):
    """Who knows the people of Slack, and can say something to one of them alone."""

    async def about(self, user_id: str) -> About: ...

    async def whisper(self, url: str, text: str) -> bool:
        """Say `text` to who has just done something, at the address that Slack gave for it. Best effort."""
        ...


@dataclass(frozen=True)
class Heard:
    """What Slack is answered. `taken` is false if it is to deliver the payload again; `body` is what it shows to who
    gave a slash command."""

    taken: bool
    body: Mapping[str, Any] = field(default_factory=dict)


class Desk:
    """Where payloads are taken in."""

    def __init__(self, accept: Accept, people: People | None = None) -> None:
        self._accept, self._people = accept, people
        self._late: set[asyncio.Task[Any]] = set()
        self._last: dict[str, asyncio.Task[bool]] = {}
        self._languages: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()

    async def take(self, payload: Mapping[str, Any]) -> Heard:
        """Taken once the payload cannot be lost, or wants nothing.

        Answers in time whatever happens: what takes longer goes on, and a second delivery of it changes nothing.
        Payloads of one chat are stored in the order in which this is called.
        """
        event = to_event(payload)
        if event is None:
            if payload.get("type") == "block_actions":
                self._explain(payload, OLD_BUTTON)
            return Heard(True)
        stored = self._store_in_order(event)
        done, _ = await asyncio.wait({stored}, timeout=ANSWER_WITHIN_S)
        if done and stored.exception() is None:
            return Heard(True) if stored.result() else self._turned_away(payload, event)
        log.error(
            "Message %s could not be stored in time (%r); Slack delivers it again, or who sent it is asked to.",
            event.message_key,
            stored.exception() if done else "it still goes on",
            extra={"action": "accept_failed"},
        )
        return self._not_taken(payload, event, NOT_NOW if done else NOT_YET)

    def _not_taken(self, payload: Mapping[str, Any], event: Input, why: Sentence) -> Heard:
        if payload.get("command"):
            return Heard(True, _ephemeral(say(why, self._language(event))))
        if payload.get("type") == "block_actions":
            self._explain(payload, why)
            return Heard(True)
        return Heard(False)

    def _turned_away(self, payload: Mapping[str, Any], event: Input) -> Heard:
        """Only who did it sees why nothing happens, and once. What is only written somewhere stays unanswered."""
        who = event.sender.id if event.sender is not None else ""
        if isinstance(event, CommandReceived) and event.channel_meta.get("pressed"):
            if self._is_first(who, event.destination.message_id or ""):
                self._explain(payload, NOT_YOUR_BUTTON)
        elif payload.get("command") and event.channel_meta.get("group") and self._is_first(who, "command"):
            return Heard(True, _ephemeral(say(STRANGER, self._language(event))))
        return Heard(True)

    def _is_first(self, who: str, about: str) -> bool:
        if len(self._told) >= MAX_TOLD:
            self._told.clear()
        is_first = (who, about) not in self._told
        self._told.add((who, about))
        return is_first

    def _language(self, event: Input) -> str:
        return self._languages.get(event.sender.id if event.sender is not None else "", "")

    def _explain(self, payload: Mapping[str, Any], why: Sentence) -> None:
        """Say to who pressed a button why nothing came of it; Slack is answered meanwhile."""
        self._later(
            self._whisper(as_text(payload.get("response_url")), as_id(as_dict(payload.get("user")).get("id")), why)
        )

    async def _whisper(self, url: str, who: str | None, why: Sentence) -> None:
        if url and self._people is not None:
            known = await self._people.about(who) if who else None
            await self._people.whisper(url, say(why, known.language if known else ""))

    def _store_in_order(self, event: Input) -> asyncio.Task[bool]:
        """The task that stores an event, behind the one before it in its chat."""
        chat = event.destination.chat_id
        task: asyncio.Task[bool] = self._later(self._store(event, self._last.get(chat)))
        self._last[chat] = task
        task.add_done_callback(lambda ended: self._last.pop(chat) if self._last.get(chat) is ended else None)
        return task

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return task

    async def _store(self, event: Input, before: "asyncio.Task[bool] | None") -> bool:
        """Whether its sender is let in."""
        if self._people is not None and event.sender is not None:
            event = await self._with_person(event, self._people)
        if before is not None:
            await asyncio.wait({before})
        return await self._accept(event)

    async def _with_person(self, event: Input, people: People) -> Input:
        if event.sender is None:
            return event
        known = await people.about(event.sender.id)
        if len(self._languages) >= MAX_TOLD:
            self._languages.clear()
        self._languages[event.sender.id] = known.language
        told = {name: value for name, value in (("languageCode", known.language), ("timezone", known.zone)) if value}
        sender = event.sender.model_copy(update={"name": event.sender.name or known.name or None})
        return event.model_copy(update={"sender": sender, "channel_meta": event.channel_meta | told})


def _ephemeral(text: str) -> dict[str, str]:
    """The answer to a slash command that only who gave it sees."""
    return {"response_type": "ephemeral", "text": text}
