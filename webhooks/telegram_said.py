"""What a message of Telegram says: words, files, what it quotes or passes on, and whether the bot is meant. Pure.

Source: core.telegram.org/bots/api, Message and the types it is made of.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.events import Attachment, Sender
from webhooks.fields import as_dict, as_id, as_int, as_list, as_text

FILE_KINDS = ("voice", "audio", "video", "video_note", "animation", "document")
USUAL_TYPE = {
    "photo": "image/jpeg",
    "voice": "audio/ogg",
    "video_note": "video/mp4",
    "video": "video/mp4",
    "animation": "video/mp4",
}
"""What Telegram makes of a file of a kind, where it does not say it."""
UNREADABLE = {
    "story": "A story",
    "paid_media": "Paid media",
    "game": "A game",
    "invoice": "An invoice",
    "giveaway": "A giveaway",
}
"""What a bot is told of, and not shown."""
QUOTED_CHARS = 1_000
LONG_SIGN = re.compile("[\U00010000-\U0010ffff]")
"""A sign that counts twice in an entity's offset, which is in units of UTF-16."""
GROUPS = ("group", "supergroup", "channel")


@dataclass(frozen=True)
class Bot:
    """Who reads: the number of the bot, and its name without the @ ("" while it is not known)."""

    id: str
    username: str = ""


def words(message: Mapping[str, Any]) -> str:
    """The text or caption of a message, with what it shows on a map or in a card written out."""
    text, caption = as_text(message.get("text")), as_text(message.get("caption"))
    entities = message.get("entities") if text else message.get("caption_entities")
    said = linked(text or caption, as_list(entities))
    return "\n".join(part for part in (said, *_written_out(message)) if part.strip())


def linked(text: str, entities: list[Any]) -> str:
    """`text` with the addresses behind its words, as `[words](address)`."""
    links = [entity for entity in map(as_dict, entities) if _is_link(entity)]
    return "".join(_signs(text, links)) if links else text


def _is_link(entity: Mapping[str, Any]) -> bool:
    offset, length = as_int(entity.get("offset")), as_int(entity.get("length"))
    is_whole = offset is not None and length is not None and length > 0 and as_text(entity.get("url")) != ""
    return entity.get("type") == "text_link" and is_whole


def _signs(text: str, links: list[Mapping[str, Any]]) -> Iterator[str]:
    begins = {link["offset"]: "[" for link in links}
    ends = {link["offset"] + link["length"]: f"]({link['url']})" for link in links}
    at = 0
    for sign in text:
        yield ends.get(at, "")
        yield begins.get(at, "")
        yield sign
        at = at + (2 if LONG_SIGN.match(sign) else 1)
    yield ends.get(at, "")


def _written_out(message: Mapping[str, Any]) -> Iterator[str]:
    venue, place = as_dict(message.get("venue")), as_dict(message.get("location"))
    if venue:
        place = as_dict(venue.get("location")) or place
    if "latitude" in place and "longitude" in place:
        name = ", ".join(part for part in (as_text(venue.get("title")), as_text(venue.get("address"))) if part)
        live = " (live)" if place.get("live_period") else ""
        yield f"Location{live}: {f'{name}, ' if name else ''}{place['latitude']}, {place['longitude']}"
    contact = as_dict(message.get("contact"))
    if contact:
        yield f"Contact: {name_of(contact) or 'no name'}, {as_text(contact.get('phone_number')) or 'no number'}"
    poll = as_dict(message.get("poll"))
    if poll:
        options = "; ".join(as_text(as_dict(option).get("text")) for option in as_list(poll.get("options")))
        yield f"Poll: {as_text(poll.get('question'))} ({options})"
    checklist = as_dict(message.get("checklist"))
    if checklist:
        yield f"Checklist: {as_text(checklist.get('title'))}"
        for task in map(as_dict, as_list(checklist.get("tasks"))):
            yield f"{'[x]' if task.get('completion_date') else '[ ]'} {as_text(task.get('text'))}"
    dice, sticker = as_dict(message.get("dice")), as_dict(message.get("sticker"))
    if dice:
        yield f"{as_text(dice.get('emoji'))} shows {dice.get('value')}"
    if sticker:
        yield f"Sticker: {as_text(sticker.get('emoji')) or as_text(sticker.get('set_name')) or 'without a name'}"
    for kind, name in UNREADABLE.items():
        if message.get(kind):
            yield f"{name} that a bot cannot look at"


def marks(message: Mapping[str, Any], bot: Bot) -> tuple[str, ...]:
    """What stands beside the words: whom they answer and what was said there, and from whom they were passed on."""
    found = (_forwarded(message), _answering(message, bot))
    return tuple(mark for mark in found if mark)


def _forwarded(message: Mapping[str, Any]) -> str:
    origin = as_dict(message.get("forward_origin"))
    if not origin:
        return ""
    chat = as_dict(origin.get("sender_chat")) or as_dict(origin.get("chat"))
    hidden = as_text(origin.get("sender_user_name"))
    return f"Forwarded from {name_of(as_dict(origin.get('sender_user'))) or hidden or name_of(chat) or 'somebody'}"


def _answering(message: Mapping[str, Any], bot: Bot) -> str:
    replied = _replied(message) or as_dict(message.get("external_reply"))
    if not replied:
        return ""
    quote = as_dict(message.get("quote"))
    quoted = linked(as_text(quote.get("text")), as_list(quote.get("entities"))) or words(replied)
    kinds = " and ".join(attachment.kind.replace("_", " ") for attachment in own_files(replied))
    who = "your message" if is_bot(replied, bot) else f"the message of {_writer(replied) or 'somebody'}"
    flat = " ".join(quoted.split())
    cut = flat if len(flat) <= QUOTED_CHARS else flat[: QUOTED_CHARS - 1] + "…"
    said = f': "{cut}"' if cut else ""
    return f"In answer to {who}{f' with a {kinds}' if kinds else ''}{said}"


def _replied(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that is answered; in a topic every message also answers the note that the topic was made."""
    replied = as_dict(message.get("reply_to_message"))
    return {} if "forum_topic_created" in replied else replied


def _writer(message: Mapping[str, Any]) -> str:
    sender = sender_of(message) or sender_of({"sender_chat": as_dict(message.get("origin")).get("sender_chat")})
    return (sender.name or sender.username or "") if sender else ""


def files(message: Mapping[str, Any], bot: Bot) -> tuple[Attachment, ...]:
    """The files of a message, and those of the message it answers: "what is in this picture?" means that one."""
    replied = _replied(message) or as_dict(message.get("external_reply"))
    quoted = () if is_bot(replied, bot) else tuple(own_files(replied, True))
    return (*own_files(message), *quoted)


def own_files(message: Mapping[str, Any], quoted: bool | None = None) -> Iterator[Attachment]:
    sizes = [size for size in map(as_dict, as_list(message.get("photo"))) if as_text(size.get("file_id"))]
    if sizes:
        largest = max(sizes, key=lambda size: (as_int(size.get("width")) or 0) * (as_int(size.get("height")) or 0))
        yield _attachment("photo", largest, quoted)
    for kind in FILE_KINDS:
        file = as_dict(message.get(kind))
        if as_text(file.get("file_id")):
            yield _attachment(kind, file, quoted)
            return  # an animation comes a second time as a document; no message carries two files


def _attachment(kind: str, file: Mapping[str, Any], quoted: bool | None) -> Attachment:
    return Attachment(
        kind=kind,
        ref=as_text(file.get("file_id")),
        name=as_text(file.get("file_name")) or None,
        mime=as_text(file.get("mime_type")) or USUAL_TYPE.get(kind),
        size=as_int(file.get("file_size")),
        duration_s=as_int(file.get("duration")),
        quoted=quoted,
    )


def is_meant(message: Mapping[str, Any], bot: Bot) -> bool:
    """Whether a message is for the bot: all of a private chat; elsewhere a mention, a command or an answer to it."""
    if as_text(as_dict(message.get("chat")).get("type")) not in GROUPS:
        return True
    said = as_text(message.get("text")) or as_text(message.get("caption"))
    if is_bot(_replied(message), bot) or re.match(r"/[A-Za-z]\w*(@\w+)?(\s|$)", said):
        return True
    entities = as_list(message.get("entities")) + as_list(message.get("caption_entities"))
    by_name = any(as_id(as_dict(as_dict(entity).get("user")).get("id")) == bot.id for entity in entities)
    return by_name or _mention(bot).search(said) is not None


def names_nobody(message: Mapping[str, Any], bot: Bot) -> dict[str, Any]:
    """`unnamed` for a command of a group that does not say which bot it is for, and may be for another one."""
    in_group = as_text(as_dict(message.get("chat")).get("type")) in GROUPS
    is_bare = in_group and not is_bot(_replied(message), bot) and re.match(r"/[A-Za-z]\w*(\s|$)", words(message))
    return {"unnamed": True} if is_bare else {}


def is_for_another(text: str, bot: Bot) -> bool:
    """Whether a text is a command that names another bot."""
    named = re.match(r"/\w+@(\w+)", text.strip())
    return bool(named and bot.username and named[1].lower() != bot.username.lower())


def unmentioned(text: str, bot: Bot) -> str:
    """`text` without the bot's name in front, which only says who is meant."""
    found = _mention(bot).match(text.lstrip())
    return text.lstrip()[found.end() :].lstrip(" ,:") if found else text


def _mention(bot: Bot) -> re.Pattern[str]:
    name = re.escape(bot.username)
    return re.compile(rf"(?<![\w@])@{name}(?!\w)", re.IGNORECASE) if name else re.compile(r"(?!)")


def is_bot(message: Mapping[str, Any], bot: Bot) -> bool:
    """Whether the bot itself wrote a message."""
    return as_id(as_dict(message.get("from")).get("id")) == bot.id


def sender_of(message: Mapping[str, Any]) -> Sender | None:
    """Who wrote a message; for a channel, and for admins of a group who hide, the chat they write as."""
    chat, user = as_dict(message.get("sender_chat")), as_dict(message.get("from"))
    return sender(chat) if chat else sender(user)


def sender(user: Mapping[str, Any]) -> Sender | None:
    user_id = as_id(user.get("id"))
    if user_id is None:
        return None
    return Sender(id=user_id, name=name_of(user) or None, username=as_text(user.get("username")) or None)


def name_of(user: Mapping[str, Any]) -> str:
    """The name of a user, a contact or a chat."""
    parts = (as_text(user.get("first_name")), as_text(user.get("last_name")))
    return " ".join(part for part in parts if part) or as_text(user.get("title"))
