"""A fetched body as text for a model: web pages as Markdown, text as it is, everything else described."""

import codecs
import re
from dataclasses import dataclass

from html_to_markdown import ConversionError, ConversionOptions, convert

from app.agent.output import clean
from tools.sniff import SNIFF_BYTES, binary_kind, size

_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_HTML_START = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_DATA_LINK = re.compile(r"\]\(data:[^)]*\)")
_ENCODINGS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-?ascii|latin-?1|iso-?8859-?\d+|windows-?\d+|cp\d+|koi8-?[ru]|mac-?roman"
    r"|gb2312|gbk|gb18030|big5|euc-?(jp|kr)|shift-?_?jis|iso-?2022-?jp",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Body:
    """What a server sent: the bytes (perhaps only the first of them), the type it claims, where it came from."""

    data: bytes
    content_type: str
    url: str


def is_text(data: bytes) -> bool:
    return binary_kind(data[:SNIFF_BYTES]) is None


def document(body: Body) -> str:
    """The text of `body`. The bytes decide what it is; the claimed type only tells HTML and the character set."""
    if kind := binary_kind(body.data[:SNIFF_BYTES]):
        claimed = f", sent as {clean(body.content_type)[:100]}" if body.content_type else ""
        return f"(not text: {kind}{claimed}; {size(len(body.data))} looked at)"
    text = _decoded(body)
    if "html" in body.content_type.lower() or _HTML_START.match(text[:2000]):
        text = _markdown(text, body.url)
    return clean(text).strip() or "(no readable text)"


def _decoded(body: Body) -> str:
    for bom, codec in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if body.data.startswith(bom):
            return body.data[len(bom) :].decode(codec, errors="replace")
    found = _CHARSET.search(body.content_type.encode(errors="replace")) or _CHARSET.search(body.data[:2048])
    name = found[1].decode("ascii") if found else "utf-8"
    # Only encodings of the web: Python knows others that are slow, or no encodings of text at all.
    if not _ENCODINGS.fullmatch(name):
        name = "utf-8"
    try:
        return body.data.decode(name, errors="replace")
    except LookupError:
        return body.data.decode(errors="replace")


def _markdown(html: str, url: str) -> str:
    try:
        content = convert(html, ConversionOptions(extract_metadata=False, base_url=url)).content
    except ConversionError as error:
        return f"(the page could not be converted to text: {error})"
    # Pictures written into the page itself are long and mean nothing as text.
    return _DATA_LINK.sub("](data:...)", content or "")
