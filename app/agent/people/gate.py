"""Who is let in: those whom the settings list and those who were paired; a stranger hears one polite line."""

import logging
import secrets
from typing import Any

from app.agent.announce import announce, reply_event
from app.agent.harness import Harness
from app.agent.people.zones import city_like, shown, zone_of
from app.channels import outbox
from app.db import Tx
from app.events import CommandReceived, MessageReceived
from app.ids import new_code, new_id, read_code
from app.sentences import (
    ADMINS_ONLY,
    ASK_ZONE,
    CODE,
    GROUP_PAIRED,
    HELLO,
    STRANGER,
    WRONG_CODE,
    ZONE_FIXED,
    ZONE_SET,
    ZONE_WRONG,
    say,
)
from app.sessions import deposit, people, session
from app.sessions.approvals import identity
from app.sessions.people import Newcomer, State

log = logging.getLogger("moab.agent")

Input = MessageReceived | CommandReceived

MAX_ZONE_CHARS = 40

INVITATION = (
    "Nobody may talk to the agent on %s yet. Whoever sends this code to it is its first admin: %s (good once, for an "
    "hour; `moab people pair` makes others)."
)


async def admit(harness: Harness, event: Input) -> bool:
    """Whether `event` may come in. A stranger's code pairs him; the code itself is no message."""
    allowed = harness.settings.allow_lists.get(event.channel)
    if allowed is None or await harness.db.read(_is_welcome, event, allowed):
        if bool(read_code(_given(event))) and await harness.db.read(_has_paired, event):
            return False
        return allowed is None or not await _takes_zone(harness, event)
    events = await harness.db.write(_turn_away, harness, event)
    if events:
        await announce(harness, events)
    else:
        chat = people.chat_id(event)
        log.info("%s is not paired; what came from there is ignored.", chat, extra={"action": "chat_not_allowed"})
    return False


async def admit_started(harness: Harness, event: Input, message_key: str) -> bool:
    """Whether a run that `event` started may go on. What came by `accept` was admitted there.

    An event that somebody sent past it, such as a webhook of Inngest Cloud, is asked about here.
    """
    if isinstance(event, CommandReceived):
        came_in = event.behind is not None
    else:
        came_in = await harness.db.read(deposit.is_stored, message_key)
    return came_in or await admit(harness, event.model_copy(update={"message_key": message_key}))


def _is_welcome(tx: Tx, event: Input, allowed: tuple[str, ...]) -> bool:
    who, where = identity(event), people.chat_id(event)
    states = people.states(tx, (who, where))
    if State.REVOKED in states.values():
        return False
    ids = {event.destination.chat_id, event.sender.id if event.sender is not None else ""}
    return "*" in allowed or not ids.isdisjoint(allowed) or State.PAIRED in states.values()


def _has_paired(tx: Tx, event: Input) -> bool:
    """Whether this very message is the code that let its sender in, delivered once more."""
    return outbox.exists(tx, f"paired/{event.message_key}")


async def _takes_zone(harness: Harness, event: Input) -> bool:
    """Whether a message is the answer to where its sender is in time: the first words after he was let in."""
    if not isinstance(event, MessageReceived) or len(event.message) > MAX_ZONE_CHARS or event.edited:
        return False
    if not await harness.db.read(_awaits_zone, harness, event):
        return False
    events = await harness.db.write(_take_zone, harness, event)
    if events:
        await announce(harness, events)
    return bool(events)


def _awaits_zone(tx: Tx, harness: Harness, event: MessageReceived) -> bool:
    if outbox.exists(tx, f"zone/{event.message_key}"):
        return True  # this very answer, delivered once more
    if not _was_asked(tx, harness, identity(event)):
        return False
    if event.channel_meta.get("group") or event.channel_meta.get("timezone"):
        return False
    session_id = session.find(tx, event.session_key)
    return session_id is None or not session.count_messages(tx, session_id)


def _was_asked(tx: Tx, harness: Harness, person: str) -> bool:
    """Whether somebody was greeted with the question and did not answer: who was paired, and the admin of a set-up."""
    known = people.find(tx, person)
    if known is None or known.state != State.PAIRED:
        return person in harness.settings.approval_admins and (known is None or not known.timezone)
    return not known.timezone


def _take_zone(tx: Tx, harness: Harness, event: MessageReceived) -> list[dict[str, Any]]:
    """The zone is kept and said; no event if the message means none, or more than one."""
    who, zone = Newcomer.person(event), zone_of(event.message, harness.clock.now())
    if zone is None:
        return []
    people.set_zone(tx, who, zone, harness.clock.now())
    return [_put(tx, harness, event, "zone", _zone_is(harness, zone, who.language))]


def _zone_is(harness: Harness, zone: str, language: str | None) -> str:
    """What zone somebody has; and how to name a better one, if it may be wrong in half a year."""
    city = city_like(zone, harness.clock.now())
    if city is None:
        return say(ZONE_SET, language, zone=shown(zone))
    return say(ZONE_FIXED, language, zone=shown(zone), city=city)


def _turn_away(tx: Tx, harness: Harness, event: Input) -> list[dict[str, Any]]:
    """What is said to somebody who is not let in, at most one line a day besides the answers to codes."""
    now, who = harness.clock.now(), Newcomer.person(event)
    if event.channel_meta.get("group") or event.sender is None:
        return []  # where others listen, nothing is said
    known = people.find(tx, who.id)
    if known is not None and known.state == State.REVOKED:
        return []
    people.forget_strangers(tx, now)
    people.note(tx, who, State.STRANGER, now)
    code, first = read_code(_given(event)), people.is_first_word(tx, who.id, now)
    if isinstance(event, MessageReceived) and not people.is_expected(tx, code, now):
        code = ""  # eight letters that are words
    if code and not first and known is not None and known.tries >= people.MAX_TRIES:
        return []
    if code and people.use_code(tx, code, who, now):
        log.info("%s was paired with a code.", who.id, extra={"action": "paired"})
        hello = say(HELLO, who.language, name=who.name or who.username or "")
        asks = not event.channel_meta.get("timezone") and (known is None or not known.timezone)
        return [_put(tx, harness, event, "paired", f"{hello}\n\n{say(ASK_ZONE, who.language)}" if asks else hello)]
    if code:
        people.count_try(tx, who.id)
        return [_put(tx, harness, event, "code", say(WRONG_CODE, who.language))]
    return [] if not first else [_put(tx, harness, event, "stranger", say(STRANGER, who.language))]


def _given(event: Input) -> str:
    """What may be a code: all of a message, or what stands behind /start (a link that brings the code) or /pair."""
    if isinstance(event, MessageReceived):
        return event.message
    return event.args if event.command in ("start", "pair") else ""


def _put(tx: Tx, harness: Harness, event: Input, key: str, text: str) -> dict[str, Any]:
    """A line to who knocks. Strangers have no conversation: their lines belong to one session of the channel's own."""
    now = harness.clock.now()
    own = event.session_key if key in ("paired", "zone") else f"{event.channel}:door"
    channel = harness.channels.get(event.channel)
    outbox.put(
        tx,
        f"{key}/{event.message_key}",
        session_id=session.open_session(tx, own, new_id(harness.clock), now),
        run_id=None,
        kind="notice",
        channel=event.channel,
        destination=event.destination,
        parts=channel.parts(text) if channel is not None else ({"text": text},),
        text=text,
        now=now,
    )
    return reply_event(harness, event, own)


def make_code(tx: Tx, harness: Harness, role: str, made_by: str) -> tuple[str, str]:
    """A fresh code, and until when it is good: the local time with its zone."""
    code = new_code(secrets.token_bytes(5))
    until = people.add_code(tx, code, role, made_by, harness.clock.now())
    return code, f"{harness.daily_log.local(until):%H:%M} ({shown(harness.settings.timezone)})"


def is_admin(tx: Tx, harness: Harness, person: str) -> bool:
    """Whether a person may let others in: the operator, those of APPROVAL_ADMINS, and paired admins."""
    channel = person.partition(":")[0]
    return channel in outbox.REPEATABLE or person in (*harness.settings.approval_admins, *people.admins(tx))


def pair_command(tx: Tx, harness: Harness, event: CommandReceived) -> str:
    """/pair: a code for the next person, or, where several speak, all of the chat is let in."""
    language = event.channel_meta.get("languageCode")
    admin = identity(event)
    if not is_admin(tx, harness, admin):
        return say(ADMINS_ONLY, language)
    if event.channel_meta.get("group"):
        people.pair(tx, Newcomer.chat(event), "member", admin, harness.clock.now())
        return say(GROUP_PAIRED, language)
    code, until = make_code(tx, harness, "member", admin)
    return say(CODE, language, code=code, until=until)


def zone_command(tx: Tx, harness: Harness, event: CommandReceived) -> str:
    """/timezone: where a person is in time."""
    language, zone = event.channel_meta.get("languageCode"), event.args.strip()
    who = Newcomer.person(event)
    if not zone:
        known = people.find(tx, who.id)
        own = known.timezone if known is not None else None
        return _zone_is(harness, own, language) if own else say(ASK_ZONE, language)
    meant = zone_of(zone, harness.clock.now()) if len(zone) <= MAX_ZONE_CHARS else None
    if meant is None:
        return say(ZONE_WRONG, language, zone=zone[:MAX_ZONE_CHARS])
    people.set_zone(tx, who, meant, harness.clock.now())
    return _zone_is(harness, meant, language)


async def invite_first(harness: Harness) -> None:
    """At the start, where nobody could talk to the agent on a channel: a code in the log lets the first one in."""
    for channel, allowed in harness.settings.allow_lists.items():
        if channel not in harness.channels or allowed:
            continue
        code = await harness.db.write(_first_code, harness, channel)
        if code:
            log.warning(INVITATION, channel.capitalize(), code, extra={"action": "invitation"})


def _first_code(tx: Tx, harness: Harness, channel: str) -> str:
    if people.is_anybody_paired(tx, channel):
        return ""
    return make_code(tx, harness, "admin", "the operator")[0]
