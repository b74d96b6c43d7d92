"""Markdown in which every word is handed on by a parser: none is only a definition's, a title's, or beyond a table.

Pure. Source: CommonMark 0.31, "Link reference definitions"; GitHub Flavored Markdown, "Tables".
"""

import re
from collections.abc import Iterator
from typing import Any

import pyromark

# Neither math nor spoilers: `$5 and $6` and `a || b || c` are prose far more often than markup.
OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
REFERRING = ("Reference", "Collapsed", "Shortcut")
MAX_ROUNDS = 50
"""How often is looked again: of each name the parser knows one definition alone, and what was inside a title or a
definition may be a link once it is text."""
PIPE = re.compile(rb"(?<!\\)\|")
BARE_URL = re.compile(r"[^\s<>()\\]+")
LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{0,20}")
"""What may stand behind an opening fence without being words of the text."""
PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
ENTITY = re.compile(r"&(?=#?\w+;)")

Change = tuple[int, int, bytes]
"""(start, end, what to put there), in bytes of the source."""


def whole(markdown: str) -> str:
    """`markdown` with links where they are used instead of defined elsewhere, with definitions that nothing refers to
    as text, and with tables as wide as their widest row. What is shown of it is the same but for that.

    May raise what the parser raises.
    """
    source = markdown.encode()
    for _ in range(MAX_ROUNDS):
        changes = list(_links(source.decode())) or list(_definitions(source.decode()))
        if not changes:
            break
        source = _changed(source, changes)
    source = _changed(source, _hollow(source))
    return _changed(source, _tables(source)).decode()


def _changed(source: bytes, changes: "Iterator[Change] | list[Change]") -> bytes:
    for start, end, text in sorted(changes, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _links(markdown: str) -> Iterator[Change]:
    """`[words][name]` becomes `[words](url)`, and the definitions of the names that were used go; a link's title, which
    is shown nowhere, stands behind it."""
    definitions = pyromark.reference_definitions(markdown, options=OPTIONS)
    source, used = markdown.encode(), set[str]()
    inside: list[tuple[dict[str, Any] | None, int, int]] = []  # (tag, start of the label, end of what it holds so far)
    for event, span in pyromark.events_with_range(markdown, options=OPTIONS):
        match event:
            case {"Start": {"Link": tag} | {"Image": tag}}:
                label = source.find(b"[", span["start"]) + 1  # an address in angle brackets has none, and is left alone
                inside.append((tag if tag["link_type"] in REFERRING or tag["title"] else None, label, label))
                continue
            case {"End": "Link" | "Image"}:
                tag, label, end = inside.pop()
                if tag is not None:
                    if tag["link_type"] in REFERRING:
                        used.add(_name(tag["id"]))
                    yield _inlined(source, tag, end, span["end"])
        if inside:
            tag, label, end = inside[-1]
            inside[-1] = (tag, label, max(end, span["end"]))
    for name, found in definitions.items():
        if _name(name) in used:
            yield found["span"]["start"], found["span"]["end"], b""


def _inlined(source: bytes, tag: dict[str, Any], label_end: int, end: int) -> Change:
    bracket = source.index(b"]", label_end)
    until = {"Shortcut": bracket + 1, "Collapsed": bracket + 3}.get(tag["link_type"], end)
    url = ENTITY.sub("&amp;", tag["dest_url"])
    if not BARE_URL.fullmatch(url):
        url = "<" + re.sub(r"([<>\\])", r"\\\1", re.sub(r"\s+", "%20", url)) + ">"
    title = PUNCTUATION.sub(r"\\\g<0>", " ".join(tag["title"].split()))
    return bracket, until, (f"]({url})" + (f" ({title})" if title else "")).encode()


def _definitions(markdown: str) -> Iterator[Change]:
    """`[note]: words` that no link refers to is text: left alone, the parser would swallow it."""
    for found in pyromark.reference_definitions(markdown, options=OPTIONS).values():
        yield found["span"]["start"], found["span"]["start"], b"\\"


def _hollow(source: bytes) -> Iterator[Change]:
    """A block of code in which there is only what stands behind its opening signs, which is shown nowhere, is that."""
    info, text = "", ""
    for event, span in pyromark.events_with_range(source.decode(), options=OPTIONS):
        match event:
            case {"Start": {"CodeBlock": tag}}:
                info, text = str(tag["Fenced"]) if isinstance(tag, dict) else "", ""
            case {"Text": str(found)}:
                text += found
            case {"End": "CodeBlock"} if info and not text.strip():
                signs = "`" * max(2, 1 + max(map(len, re.findall("`+", info)), default=0))
                yield span["start"], span["end"], f"{signs} {info} {signs}\n".encode()


def _name(text: str) -> str:
    return " ".join(text.split()).casefold()


def _tables(source: bytes) -> Iterator[Change]:
    """Cells beyond the last heading get one, or they would be dropped."""
    head_end, columns, most = 0, 0, 0
    for event, span in pyromark.events_with_range(source.decode(), options=OPTIONS):
        match event:
            case {"Start": "TableHead"}:
                head_end = columns = most = 0
            case {"End": "TableHead"}:
                head_end = span["end"]
                columns = most = _cells(source[span["start"] : span["end"]])
            case {"Start": "TableRow"}:
                most = max(most, _cells(source[span["start"] : span["end"]]))
            case {"End": "Table"} if most > columns:
                head_line = len(source[:head_end].rstrip())
                rule_end = source.find(b"\n", source.index(b"\n", head_line) + 1)
                rule_line = len(source[: rule_end if rule_end >= 0 else len(source)].rstrip())
                for at, cell in ((head_line, b" |"), (rule_line, b"-|")):
                    edge = b"" if PIPE.search(source, at - 1, at) else b"|"
                    yield at, at, edge + cell * (most - columns)


def _cells(row: bytes) -> int:
    line = row.strip()
    pipes = len(PIPE.findall(line))
    edges = line.startswith(b"|") + (len(line) > 1 and PIPE.search(line, len(line) - 1) is not None)
    return pipes - edges + 1
