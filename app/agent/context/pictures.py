"""Which pictures a transcript has, and how they stand in messages for a model that sees or does not. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.agent.context.pruning import PICTURES, Message
from app.events import safe_text
from app.sessions.calls import CallRecord
from app.sessions.transcript import Entry

MAX_SHOWN = 6
"""How many of the newest pictures a model is shown at once: each is paid for with every call."""

MIMES = ("image/jpeg", "image/png", "image/gif", "image/webp")
SUFFIXES = (".jpg", ".png")
"""Of a result's file that is a picture; other results' files are text."""

BLIND = "blind"
"""In the data of an answer that came only without pictures: those before it are not shown again."""

UNSEEN = "[You cannot see pictures, and what this shows is not described here.]"
NOT_SHOWN = "[The picture {path} is not shown here. Read it to see it.]"
OF_RESULT = "[System note: the picture {path}, which a tool has read]"
OF_INPUT = "[The picture {path}]"


def picture_of(call: CallRecord) -> str | None:
    """The file with the picture that a call has read, relative to the workspace."""
    return call.artifact if call.artifact and call.artifact.endswith(SUFFIXES) else None


def attached_pictures(entry: Entry) -> tuple[str, ...]:
    """The files of the pictures that came with an input, relative to the workspace."""
    return tuple(
        safe_text(str(one["path"]))
        for one in entry.data.get("attachments") or ()
        if one.get("path") and (one.get("kind") == "photo" or one.get("mime") in MIMES)
    )


def wanted(entries: Sequence[Entry]) -> list[str]:
    """The files of the pictures to show, oldest first: the newest ones that no provider has refused."""
    found: dict[str, None] = {}
    for path in _from_newest(entries):
        found.setdefault(path)
        if len(found) == MAX_SHOWN:
            break
    return list(reversed(found))


def _from_newest(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in reversed(entries):
        yield from reversed(attached_pictures(entry))
        yield from filter(None, map(picture_of, reversed(entry.calls)))
        if entry.data.get(BLIND):
            return


def with_pictures(messages: Sequence[Message], loaded: Mapping[str, str] | None) -> list[Message]:
    """`messages` with the pictures that `loaded` has (path to data URL), and words in the place of the others.

    None is a model that does not see. Tool results are text in some formats, so their pictures stand behind all results
    of their round, in a message of the user or before the words of the one that follows.
    """
    if not any(PICTURES in message for message in messages):
        return list(messages)
    found: list[Message] = []
    waiting: list[dict[str, Any]] = []
    for message in messages:
        paths = message.get(PICTURES, ())
        bare = {key: value for key, value in message.items() if key != PICTURES} if paths else message
        if bare["role"] == "tool":
            waiting += _parts(paths, loaded, OF_RESULT)
            found.append(_told(bare, paths, loaded))
            continue
        if bare["role"] == "user":
            parts = [*waiting, *_parts(paths, loaded, OF_INPUT)]
            told = _told(bare, paths, loaded)
            found.append(told | {"content": [_text(told["content"]), *parts]} if parts else told)
        else:
            found += [{"role": "user", "content": waiting}] if waiting else []
            found.append(bare)
        waiting = []
    return found + ([{"role": "user", "content": waiting}] if waiting else [])


def _told(message: Message, paths: Sequence[str], loaded: Mapping[str, str] | None) -> Message:
    """The message with a line for each picture that is not shown."""
    if loaded is None:
        lines = [UNSEEN] if paths else []
    else:
        lines = [NOT_SHOWN.format(path=path) for path in paths if path not in loaded]
    return message | {"content": "\n".join([message["content"], *lines])} if lines else message


def _parts(paths: Sequence[str], loaded: Mapping[str, str] | None, label: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for path in paths:
        if loaded and path in loaded:
            parts += [_text(label.format(path=path)), {"type": "image_url", "image_url": {"url": loaded[path]}}]
    return parts


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def has_pictures(messages: Sequence[Message]) -> bool:
    """Whether a model is shown any picture in these messages."""
    contents = (message["content"] for message in messages if isinstance(message.get("content"), list))
    return any(part["type"] == "image_url" for content in contents for part in content)
