"""What Slack sends, and the event it becomes. Pure.

Sources: docs.slack.dev, Events API (message, app_mention, message_changed), interaction payloads (block_actions), slash
commands, and "Formatting message text" for what stands between angle brackets.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from app.events import Attachment, CommandReceived, Destination, MessageReceived, Sender, as_input
from webhooks.fields import as_dict, as_id, as_int, as_list, as_text

BUTTONS = ("approve", "deny", "answer")
"""The commands that buttons may stand for."""

SAID = ("", "file_share", "thread_broadcast", "me_message")
"""Subtypes of messages in which a person says something; the others tell of joins, topics and the like."""

PRIVATE = "im"
HIDDEN_FILES = ("tombstone", "hidden_by_limit")
KINDS = {"image": "photo", "audio": "audio", "video": "video"}
"""What a file is by the first half of its MIME type; every other one is a document."""


def to_event(payload: Mapping[str, Any]) -> MessageReceived | CommandReceived | None:
    """The event for a payload, or None if there is nothing to answer in it.

    A message is for the agent in a direct chat, and elsewhere if it mentions the agent: a mention in a thread does not
    make the rest of the thread a matter of his. Slack sends a mention in up to two events; they have one key. Bots are
    ignored, or two of them would answer each other for ever.
    """
    if payload.get("command"):
        return _commanded(payload)
    if payload.get("type") == "block_actions":
        return _pressed(payload)
    event = as_dict(payload.get("event"))
    if payload.get("type") == "event_callback" and event.get("type") in ("message", "app_mention"):
        return _said(payload, event)
    return None


def _said(payload: Mapping[str, Any], event: Mapping[str, Any]) -> MessageReceived | CommandReceived | None:
    changed = event.get("subtype") == "message_changed"
    message = as_dict(event.get("message")) if changed else event
    before = as_text(as_dict(event.get("previous_message")).get("text"))
    team, chat, ts = as_id(payload.get("team_id")), as_id(event.get("channel")), as_id(message.get("ts"))
    if not team or not chat or not ts or is_bot(message) or as_text(message.get("subtype")) not in SAID:
        return None
    if changed and (not message.get("edited") or before == message.get("text")):
        return None  # Slack tells so, too, that the preview of a link has come or that somebody has answered
    me, private = _me(payload), _is_private(event, chat)
    text = as_text(message.get("text"))
    if not private and event.get("type") != "app_mention" and not _mentions(text, me) and not _mentions(before, me):
        return None
    words, attachments = spoken(text, me) + shared(message, me), tuple(files(message))
    if not words.strip() and not attachments:
        return None
    fields: dict[str, Any] = {
        "message_key": f"slack:{team}:{chat}:{ts}",
        "sender": sender({"id": message.get("user")}),
        "channel_meta": {"chatType": _chat_type(event, private), "group": not private},
        "sent_at": moment(ts),
        "attachments": attachments,
        **place(team, chat, ts, as_id(message.get("thread_ts")), private),
    }
    if changed and (private or _mentions(before, me)):
        edited = as_text(as_dict(message.get("edited")).get("ts")).replace(".", "")
        return MessageReceived(message=words, edited=edited or "0", **fields)
    if changed:  # a mention that came with the change: the agent has not seen the message before
        return MessageReceived(message=words, **fields)
    return as_input(words, **fields)


def place(team: str, chat: str, ts: str, thread_ts: str | None, private: bool) -> dict[str, Any]:
    """The session of a message and where its answer goes: a thread is a session, begun by the message if need be.

    In a direct chat what stands outside of threads is one conversation, and is answered there.
    """
    thread = thread_ts if thread_ts != ts or not private else None
    root = thread or (None if private else ts)
    where = f"slack:{team}:{chat}"
    return {
        "session_key": f"{where}:{root}" if root else where,
        "channel": "slack",
        "destination": Destination(chat_id=chat, message_id=ts, thread_id=root),
    }


def _commanded(payload: Mapping[str, Any]) -> MessageReceived | CommandReceived | None:
    """`/moab status` is the session command /status. Slack names no thread here, so in a channel it means the
    conversation there in which its sender has spoken last.
    """
    team, chat, user = as_id(payload.get("team_id")), as_id(payload.get("channel_id")), as_id(payload.get("user_id"))
    trigger = as_id(payload.get("trigger_id"))
    if not team or not chat or not user or not trigger:
        return None
    words = as_text(payload.get("text")).strip().removeprefix("/") or "help"
    where, private = f"slack:{team}:{chat}", _is_private({}, chat)
    fields: dict[str, Any] = {
        "message_key": f"{where}:command:{trigger}",
        "session_key": where,
        "channel": "slack",
        "sender": sender({"id": user, "username": payload.get("user_name")}),
        "channel_meta": {"group": not private, "namesNoThread": not private},
        "destination": Destination(chat_id=chat, reply_url=as_text(payload.get("response_url")) or None),
    }
    command = as_input(f"/{words}", **fields)
    return command if isinstance(command, CommandReceived) else as_input(words, **fields)


def _pressed(payload: Mapping[str, Any]) -> CommandReceived | None:
    """A button under a message of ours stands for a command; who pressed it is who gives the command."""
    message, action = as_dict(payload.get("message")), as_dict(next(iter(as_list(payload.get("actions"))), None))
    team, chat = as_id(as_dict(payload.get("team")).get("id")), as_id(as_dict(payload.get("channel")).get("id"))
    ts, at, presser = as_id(message.get("ts")), as_id(action.get("action_ts")), sender(as_dict(payload.get("user")))
    if not team or not chat or not ts or not at or presser is None:
        return None
    thread_ts = as_id(message.get("thread_ts"))
    event = as_input(
        f"/{as_text(action.get('value'))}",
        message_key=f"slack:{team}:{chat}:pressed:{ts}:{at}",
        sender=presser,
        channel_meta={"pressed": True, "group": not _is_private({}, chat)},
        **place(team, chat, ts, thread_ts, _is_private({}, chat)),
    )
    return event if isinstance(event, CommandReceived) and event.command in BUTTONS else None


def spoken(text: str, me: str) -> str:
    """Slack's text as a person reads it: names, links and signs written out, the mention in front taken away."""
    first = re.match(r"\s*<@(\w+)(?:\|[^<>]*)?>[ \t,:]*", text)
    said = text[first.end() :] if first and first[1] == me else text
    plain = re.sub(r"<([^<>|]*)(?:\|([^<>]*))?>", lambda found: _written_out(found[1], found[2] or ""), said)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _written_out(what: str, label: str) -> str:
    """`<@U1|ada>`, `<#C1|general>`, `<!here>`, `<!subteam^S1|@team>` or `<https://example.org|a link>`."""
    if what.startswith("@"):
        return f"@{label or what[1:]}"
    if what.startswith("#"):
        return f"#{label or what[1:]}"
    if what.startswith("!"):
        return label or f"@{what[1:]}"
    if what.startswith("mailto:") or what.startswith("tel:"):
        return label or what
    return f"[{label}]({what})" if label and label != what else what


def shared(message: Mapping[str, Any], me: str) -> str:
    """What others said and this message passes on, below its own words."""
    return "".join(
        f"\n\nForwarded from {as_text(one.get('author_name')) or 'somebody'}:\n{spoken(as_text(one.get('text')), me)}"
        for one in map(as_dict, as_list(message.get("attachments")))
        if one.get("is_share") is True and as_text(one.get("text"))
    )


def files(message: Mapping[str, Any]) -> Iterator[Attachment]:
    """The files of a message, and those of the messages that it passes on."""
    passed_on = [one for one in map(as_dict, as_list(message.get("attachments"))) if one.get("is_share") is True]
    for holder in (message, *passed_on):
        for file in map(as_dict, as_list(holder.get("files"))):
            if as_text(file.get("id")) and as_text(file.get("mode")) not in HIDDEN_FILES:
                yield _attachment(file)


def _attachment(file: Mapping[str, Any]) -> Attachment:
    mime = as_text(file.get("mimetype"))
    spoken_clip = file.get("subtype") == "slack_audio"
    return Attachment(
        kind="voice" if spoken_clip else KINDS.get(mime.split("/")[0], "document"),
        ref=as_text(file.get("id")),
        name=as_text(file.get("name")) or None,
        mime=mime or None,
        size=as_int(file.get("size")),
    )


def is_bot(message: Mapping[str, Any]) -> bool:
    """Whether a program wrote a message, this one included."""
    return bool(message.get("bot_id")) or message.get("user") == "USLACKBOT"


def sender(user: Mapping[str, Any]) -> Sender | None:
    user_id = as_id(user.get("id"))
    if user_id is None:
        return None
    return Sender(id=user_id, username=as_text(user.get("username")) or None)


def _me(payload: Mapping[str, Any]) -> str:
    """The user that the agent is in the workspace; "" if the payload does not say."""
    bots = (as_dict(one) for one in as_list(payload.get("authorizations")))
    return next((as_text(one.get("user_id")) for one in bots if one.get("is_bot") is True), "")


def _mentions(text: str, me: str) -> bool:
    return bool(me) and (f"<@{me}>" in text or f"<@{me}|" in text)


def _is_private(event: Mapping[str, Any], chat: str) -> bool:
    """A direct chat by its type, which mentions and buttons leave out, or by its id."""
    return (as_text(event.get("channel_type")) or PRIVATE) == PRIVATE and chat.startswith("D")


def _chat_type(event: Mapping[str, Any], private: bool) -> str:
    return as_text(event.get("channel_type")) or (PRIVATE if private else "channel")


def moment(ts: str) -> str | None:
    """The date of a message's `ts`, which begins with the seconds since 1970."""
    seconds = ts.split(".")[0]
    return datetime.fromtimestamp(int(seconds), UTC).isoformat() if re.fullmatch(r"\d{1,11}", seconds) else None
