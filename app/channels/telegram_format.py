"""Markdown as Telegram takes it: plain text with entities, cut into parts that keep every limit. Pure.

The text of a part is the source without its markup, so a part without its entities is its own plain fallback.
Limits: core.telegram.org/bots/api, sendMessage and MessageEntity (offsets are UTF-16 code units).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyromark
from telegramify_markdown.config import RenderConfig
from telegramify_markdown.converter import EventWalker

from app.channels.channel import Part
from app.channels.markdown_whole import LANGUAGE, OPTIONS, whole
from app.channels.split import Entity, split
from app.events import wire_safe

CODE = ("code", "pre")
MAX_URL_CHARS = 2048
# Telegram refuses the whole message for a link without a dot in its host, or of another scheme.
USABLE_URL = re.compile(r"(https?://[^\s/?#@\[\]]+\.[^\s/?#@\[\]]+(?:[/?#]\S*)?|tg://\S+)", re.IGNORECASE)

Event = Any
"""What the parser gives: a name, or a dictionary with one key."""


def render(markdown: str) -> list[Part]:
    """`{"text", "entities"}` for each message, in order. Total: what cannot be read as markdown goes out as it is."""
    source = wire_safe(markdown)
    if not source.strip():
        return []
    try:
        text, entities = _converted(source)
    except BaseException as error:  # the parser is native: its panics are no Exception, and a text must not be lost
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        text, entities = source, []
    return split(text, entities) or split(source, [])


def _converted(markdown: str) -> tuple[str, list[Entity]]:
    source = whole(markdown)
    events = pyromark.events_with_range(source, options=OPTIONS)
    text, found, _ = EventWalker(_config(), source).walk(tuple(_tamed(events, source.encode())))
    return text, list(_accepted([entity.to_dict() for entity in found]))


def _config() -> RenderConfig:
    config = RenderConfig.isolated()
    config.cite_expandable = False
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item, symbols.task_completed, symbols.task_uncompleted = "•", "☑", "☐"
    return config


def _accepted(entities: list[Entity]) -> Iterator[Entity]:
    """In order of the text, without underlined headings and without what is inside its own like, as quotes in quotes.

    Nothing is inside code there but code: other marks go around it, and of code in a link the link is kept.
    """
    until: dict[str, int] = {}
    for entity in _in_order(_around_code(_in_order(entities))):
        if entity["type"] == "underline" or entity["offset"] < until.get(entity["type"], 0):
            continue
        until[entity["type"]] = entity["offset"] + entity["length"]
        yield entity


def _in_order(entities: Iterable[Entity]) -> list[Entity]:
    return sorted(entities, key=lambda e: (e["offset"], -e["length"]))


def _around_code(entities: list[Entity]) -> Iterator[Entity]:
    links = [entity for entity in entities if entity["type"] == "text_link"]
    code = [entity for entity in entities if entity["type"] in CODE and not _meeting(entity, links)]
    yield from code
    for entity in entities:
        if entity["type"] in ("blockquote", "text_link"):
            yield entity
        elif entity["type"] not in CODE:
            yield from _without(entity, _meeting(entity, code))


def _meeting(entity: Entity, others: list[Entity]) -> list[Entity]:
    """Those of `others` that share characters with it; they are in order and apart from one another."""
    end = entity["offset"] + entity["length"]
    first = bisect_right(others, entity["offset"], key=lambda e: e["offset"] + e["length"])
    return others[first : bisect_left(others, end, key=lambda e: e["offset"])]


def _without(entity: Entity, holes: list[Entity]) -> Iterator[Entity]:
    """What is left of an entity around others, which are in order."""
    start, end = entity["offset"], entity["offset"] + entity["length"]
    for hole in holes:
        if start < hole["offset"]:
            yield entity | {"offset": start, "length": hole["offset"] - start}
        start = hole["offset"] + hole["length"]
    if start < end:
        yield entity | {"offset": start, "length": end - start}


@dataclass
class _Link:
    """A link being read: `url` is shown as text if it is not `active`, or if there is nothing else to click on."""

    url: str
    active: bool
    text: str = ""


def _tamed(events: Any, source: bytes) -> Iterator[tuple[Event, Any]]:
    """The events, with what the renderer would drop turned into text: HTML, lone tildes, links it cannot show."""
    links: list[_Link] = []
    in_cell = False
    for event, span in events:
        tamed = _tamed_link(event, links, in_cell) or _tamed_fence(event)
        for out in tamed or [_tamed_markup(event, span, source, in_cell)]:
            match out:
                case {"Start": "TableCell"}:
                    in_cell = True
                case {"End": "TableCell"}:
                    in_cell = False
                case {"Text": text} | {"Code": text}:
                    for link in links:
                        link.text += text
            if out is not None:
                yield out, span


def _tamed_fence(event: Event) -> list[Event]:
    """A fence with more behind it than a language, with that in its first line; an empty list for any other event."""
    match event:
        case {"Start": {"CodeBlock": {"Fenced": info}}} if not LANGUAGE.fullmatch(info):
            return [{"Start": {"CodeBlock": {"Fenced": ""}}}, {"Text": f"{info}\n"}]
    return []


def _tamed_markup(event: Event, span: Any, source: bytes, in_cell: bool) -> Event:
    match event:
        case {"Start": "HtmlBlock"}:
            return {"Start": "Paragraph"}
        case {"End": "HtmlBlock"}:
            return {"End": "Paragraph"}
        case {"InlineHtml": html} if in_cell and re.fullmatch(r"<br\s*/?>", html, re.IGNORECASE):
            return {"Text": " "}
        case {"Html": html} | {"InlineHtml": html}:
            return {"Text": html}
        case {"Start": "Strikethrough"} | {"End": "Strikethrough"} if source[span["start"] + 1] != ord("~"):
            return {"Text": "~"}  # one tilde means "about"
    return event


def _tamed_link(event: Event, links: list[_Link], in_cell: bool) -> list[Event]:
    """The events for the start or end of a link or image; an empty list for any other event."""
    match event:
        case {"Start": {"Link": tag} | {"Image": tag}}:
            url = tag["dest_url"]
            usable = len(url) <= MAX_URL_CHARS and USABLE_URL.fullmatch(url) is not None
            links.append(_Link(url, active=usable and not in_cell and not links))
            return [{"Start": {"Link": tag}} if links[-1].active else None]
        case {"End": "Link" | "Image"}:
            link = links.pop()
            shown = "" if link.url.startswith(("data:", "#")) else link.url
            if link.active:
                return [None if link.text.strip() else {"Text": shown}, {"End": "Link"}]
            if not link.text.strip():
                return [{"Text": shown}]
            return [{"Text": f" ({shown})"} if shown and shown not in link.text else None]
    return []
