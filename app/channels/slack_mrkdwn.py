"""Markdown as Slack's own markup, with everything in it escaped: the form every client and notification shows. Pure.

Source: docs.slack.dev, "Formatting message text".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyromark

from app.channels.markdown_whole import LANGUAGE, OPTIONS

BLOCKS = {"Paragraph", "Heading", "BlockQuote", "List", "Item", "CodeBlock", "Table", "HtmlBlock", "Rule"}
MARKS = {"Strong": "*", "Emphasis": "_", "Strikethrough": "~"}
RULE = "———"
IN_LINK = "<"
LINKED = re.compile(r"(?:https?://|mailto:)\S+", re.IGNORECASE)


@dataclass(frozen=True)
class Node:
    """A part of a document: its kind, what the parser says of it, its parts, and its place in the source in bytes."""

    kind: str
    about: Any
    parts: tuple["Node", ...]
    start: int
    end: int


def parse(markdown: str) -> tuple[Node, ...]:
    return tuple(_nodes(iter(pyromark.events_with_range(markdown, options=OPTIONS))))


def _nodes(events: Iterator[Any]) -> Iterator[Node]:
    """The nodes up to the end of the one they are in."""
    for event, span in events:
        kind, about = _named(event)
        if kind == "End":
            return
        parts: tuple[Node, ...] = ()
        if kind == "Start":
            kind, about = _named(about)
            parts = tuple(_nodes(events))
        yield Node(kind, about, parts, span["start"], span["end"])


def _named(event: Any) -> tuple[str, Any]:
    """What the parser gives: a name, or a dictionary with one key."""
    return (event, None) if isinstance(event, str) else next(iter(event.items()))


def mrkdwn(markdown: str) -> str:
    """`markdown` in Slack's markup. May raise on what the parser cannot take; the caller has another form then."""
    return _flow(parse(markdown), "\n\n")


def escaped(text: str) -> str:
    """Text that Slack shows as it is: no mention, no link and no tag is made of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _flow(nodes: Sequence[Node], gap: str) -> str:
    """Blocks under one another; words between them are a paragraph."""
    found: list[str] = []
    words: list[Node] = []
    for node in nodes:
        if node.kind not in BLOCKS:
            words.append(node)
            continue
        found += [_inline(words), _block(node)]
        words = []
    return gap.join(text for text in [*found, _inline(words)] if text.strip())


def _block(node: Node) -> str:
    match node.kind:
        case "Heading":
            return _wrapped("*", _inline(node.parts, within="*"))
        case "BlockQuote":
            return "\n".join(f"> {line}".rstrip() for line in _flow(node.parts, "\n\n").split("\n"))
        case "List":
            return "\n".join(_item(item, _number(node, place)) for place, item in enumerate(node.parts))
        case "CodeBlock":
            return fenced("\n".join(one for one in (_info(node), _plain(node.parts).rstrip("\n")) if one))
        case "Table":
            return fenced(table(node))
        case "HtmlBlock":
            return escaped(_plain(node.parts)).strip("\n")
        case "Rule":
            return RULE
    return _flow(node.parts, "\n") if node.kind == "Item" else _inline(node.parts)


def _info(code: Node) -> str:
    """What stands behind the signs that open a block of code, if it is more than the name of a language."""
    info = str(code.about.get("Fenced") or "") if isinstance(code.about, dict) else ""
    return "" if LANGUAGE.fullmatch(info) else info


def fenced(text: str) -> str:
    """A block of code; a fence inside of it is broken by a sign that nobody sees."""
    inside = escaped(text).replace("```", "`\u200b`\u200b`")
    return f"```\n{inside}\n```"


def _number(node: Node, place: int) -> str:
    return "•" if node.about is None else f"{node.about + place}."


def _item(item: Node, sign: str) -> str:
    first, *rest = _flow(item.parts, "\n").split("\n")
    return "\n".join([f"{sign} {first}", *(f"    {line}" if line else line for line in rest)])


def _inline(nodes: Sequence[Node], within: str = "") -> str:
    """Words of one line; `within` are marks that are set already and would end at their second."""
    return "".join(_words(node, within) for node in nodes)


def _words(node: Node, within: str) -> str:
    match node.kind:
        case "Text" | "Html" | "InlineHtml":
            return escaped(node.about)
        case "Code":
            return escaped(node.about) if "`" in node.about else f"`{escaped(node.about)}`"
        case "SoftBreak" | "HardBreak":
            return "\n"
        case "TaskListMarker":
            return "☑ " if node.about else "☐ "
        case "Link" | "Image":
            return _link(node, within)
        case "Strong" | "Emphasis" | "Strikethrough":
            mark = MARKS[node.kind]
            inner = _inline(node.parts, within + mark)
            return inner if mark in within else _wrapped(mark, inner)
    return _inline(node.parts, within)


def _wrapped(mark: str, text: str) -> str:
    """Each line between marks: Slack ends them at the end of the line, and does not take them beside white space."""
    return "\n".join(re.sub(r"\S(?:.*\S)?", lambda found: f"{mark}{found[0]}{mark}", line) for line in text.split("\n"))


def _link(node: Node, within: str) -> str:
    url = str(node.about["dest_url"])
    label = _inline(node.parts, within + IN_LINK).replace("\n", " ").strip()
    if IN_LINK in within or not LINKED.fullmatch(url):  # none is in another one there, as a picture that is a link
        return f"{label} ({escaped(url)})" if url and label != escaped(url) else label
    safe = escaped(url.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E"))
    return f"<{safe}|{label.replace('|', '¦')}>" if label and label != safe else f"<{safe}>"


def _plain(nodes: Sequence[Node]) -> str:
    """The text of nodes without any markup."""
    return "".join(str(node.about) if node.kind in ("Text", "Code", "Html", "InlineHtml") else _plain(node.parts)
                   for node in nodes)  # fmt: skip


def _cell(nodes: Sequence[Node]) -> str:
    """The text of a cell; where a link leads is written out, because columns bear none."""
    return "".join(
        _link_text(node) if node.kind in ("Link", "Image") else _cell(node.parts) or _plain((node,)) for node in nodes
    )


def _link_text(link: Node) -> str:
    label, url = _plain(link.parts), str(link.about["dest_url"])
    return f"{label} ({url})" if url and label != url else label


def table(node: Node) -> str:
    """A table as text in columns."""
    rows = [[_cell(cell.parts).replace("\n", " ").strip() for cell in row.parts] for row in node.parts]
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(max(map(len, rows)))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])
