"""What kind of content some bytes are, told from the bytes and never from a name or a header."""

SNIFF_BYTES = 8192

_MAGIC = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\x03\x04", "a zip archive or office document"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\0", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a", "a RAR archive"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"{\\rtf", "an RTF document"),
    (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"\0asm", "a WebAssembly module"),
)
_TEXT_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\x1b\b")


def binary_kind(head: bytes) -> str | None:
    """What content that begins with `head` (SNIFF_BYTES are enough) is, or None when it is text."""
    if head.startswith(b"RIFF"):
        return {b"WEBP": "a WebP image", b"WAVE": "WAV audio"}.get(head[8:12], "RIFF media")
    if head[4:8] == b"ftyp":
        return "MP4 media"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(_TEXT_BOMS):
        return None
    controls = sum(1 for byte in head if byte < 32 and byte not in _TEXT_CONTROLS)
    # A few stray controls stand in logs and legacy text; a NUL or one byte in thirty does not.
    return "binary data" if b"\0" in head or controls * 30 > len(head) else None


def is_pdf(head: bytes | bytearray) -> bool:
    """Whether content that begins with `head` is a PDF; some have a few bytes before the mark."""
    return head[:1024].lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"%PDF-")


def size(count: int) -> str:
    """`count` bytes for people: 340 bytes, 1.2 KB, 3.4 MB."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    for unit, scale in (("KB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < scale * 999.95 or unit == "GB":
            return f"{count / scale:.1f} {unit}"
    raise AssertionError("the last unit takes every size")
