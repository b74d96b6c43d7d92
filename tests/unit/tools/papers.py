"""Small files of the kinds that read understands, made by hand."""

import struct
import zlib


def pdf(*pages: str) -> bytes:
    """A PDF with one line of text a page (an empty text is a page without any)."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R {resources} >>")
        content = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET" if text else ""
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    data, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{one}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode() + trailer.encode()


def png(width: int, height: int) -> bytes:
    """A black picture; a real one."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" * (width + 1)) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, preview: int = 0) -> bytes:
    """The start of a JPEG, with `preview` bytes about the camera that hold a smaller JPEG's header."""
    inner = jpeg(1, 1) if preview else b""
    about = b"\xff\xe1" + struct.pack(">H", preview + 2) + (inner * preview)[:preview] if preview else b""
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9 + about + b"\xff\xff" + frame[1:]


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int, height: int, kind: str = "VP8 ") -> bytes:
    """The start of a WebP in one of its three forms."""
    small = struct.pack("<HH", width & 0xFFFF, height & 0xFFFF)
    body = {
        "VP8 ": b"\0\0\0\x9d\x01\x2a" + small,
        "VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        "VP8X": b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
    }[kind]
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind.encode() + struct.pack("<I", len(body)) + body
