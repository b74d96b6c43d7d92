"""Markdown as Slack takes it: a block that Slack renders itself, with text in its own markup beside it. Pure.

Limits: docs.slack.dev, "Markdown block" (12,000 characters), "Section block" (3,000), chat.postMessage (text).
"""

import re
from collections.abc import Iterator
from typing import Any

from app.channels.channel import Part
from app.channels.markdown_split import split_markdown
from app.channels.markdown_whole import whole
from app.channels.slack_mrkdwn import RULE, Node, escaped, mrkdwn, parse, table
from app.events import wire_safe

MARKDOWN_CHARS = 12_000
SECTION_CHARS = 3_000
NOTICE_CHARS = 4_000
BUTTON_CHARS = 75
LIMITS = (MARKDOWN_CHARS, MARKDOWN_CHARS // 2, MARKDOWN_CHARS // 6)
"""Tried one after the other: escaping makes of one character up to five, and the other form has a limit, too."""

MENTION = re.compile(r"<(?=!(?:here|channel|everyone|group|subteam\^|date\^)|@[UWB][A-Z0-9]{2}|#[CG][A-Z0-9]{2})")
"""What Slack would make a call to people of, which a text of the model must not be able to."""


def render(markdown: str) -> list[Part]:
    """`{"markdown", "text"}` for each message, in order. Total: what cannot be read as markdown goes out as it is."""
    source = MENTION.sub("<\u200b", wire_safe(markdown))
    if not source.strip():
        return []
    return list(_parts(_tamed(source), 0))


def _parts(source: str, level: int) -> Iterator[Part]:
    for piece in split_markdown(source, LIMITS[level]):
        text = _text(piece)
        if len(text) > MARKDOWN_CHARS and level + 1 < len(LIMITS):
            yield from _parts(piece, level + 1)
        else:
            yield {"markdown": piece, "text": text}


def _text(piece: str) -> str:
    """The other form of a piece; never blank."""
    try:
        found = mrkdwn(piece)
    except BaseException as error:  # the parser is native: its panics are no Exception, and a text must not be lost
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        found = ""
    return found if found.strip() and len(found) <= 5 * MARKDOWN_CHARS else escaped(piece)


def _tamed(source: str) -> str:
    """`source` without what the markdown block does not know: tables, rules, boxes to tick, and links that are
    defined elsewhere, which may come into another piece."""
    try:
        complete = whole(source)
        changes = sorted(_changes(parse(complete)), reverse=True)
    except BaseException as error:  # see above
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return source
    raw = complete.encode()
    for start, end, text in changes:
        raw = raw[:start] + text.encode() + raw[end:]
    return raw.decode()


def _changes(nodes: tuple[Node, ...], nested: bool = False) -> Iterator[tuple[int, int, str]]:
    """(start, end, what to put there), in bytes of the source."""
    for node in nodes:
        if node.kind == "Table" and not nested:
            text = table(node)
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            yield node.start, node.end, f"{fence}\n{text}\n{fence}\n"
        elif node.kind == "Rule" and not nested:
            yield node.start, node.end, f"{RULE}\n"
        elif node.kind == "TaskListMarker":
            yield node.start, node.end, "☑" if node.about else "☐"
        else:
            yield from _changes(node.parts, nested or node.kind in ("List", "BlockQuote"))


def blocks_of(part: Part, *, plain: bool = False) -> list[dict[str, Any]]:
    """The blocks of a part: its markdown, or `plain` sections of its text; and its buttons."""
    if part.get("markdown") and not plain:
        blocks: list[dict[str, Any]] = [{"type": "markdown", "text": part["markdown"]}]
    elif plain or part.get("buttons"):
        pieces = split_markdown(str(part["text"]), SECTION_CHARS)
        blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in pieces]
    else:
        blocks = []
    return [*blocks, *(_actions(row, number) for number, row in enumerate(part.get("buttons") or ()))]


def _actions(row: list[dict[str, str]], number: int) -> dict[str, Any]:
    buttons = [
        {
            "type": "button",
            "action_id": f"moab-{number}-{place}",
            "text": {"type": "plain_text", "text": button["text"][:BUTTON_CHARS] or "…"},
            "value": button["data"],
        }
        for place, button in enumerate(row)
    ]
    return {"type": "actions", "elements": buttons}


def caption(markdown: str) -> str:
    """Words beside a file in Slack's own markup, cut where they are very long; they can call nobody."""
    return "\n".join(notice(part) for part in render(markdown)[:1])


def notice(part: Part) -> str:
    """The text beside the blocks, for notifications and readers aloud."""
    text = str(part["text"])
    return text if len(text) <= NOTICE_CHARS else re.sub(r"&[a-z]{0,3}$", "", text[: NOTICE_CHARS - 1]) + "…"
