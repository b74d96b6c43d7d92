"""read of what is more than lines: pictures, PDF, notebooks, lines without end, files of any size."""

import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.tool import ToolResult
from app.errors import BadInput
from tests.unit.tools import papers
from tools import pdf
from tools.notebook import notebook
from tools.page import Window, page_of_file
from tools.pdf import page_range
from tools.picture import pixels
from tools.read import read

ROOT = Path(__file__).resolve().parents[3]
Call = Callable[..., Awaitable[ToolResult]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (papers.png(640, 480), "PNG picture, 640 x 480 pixels"),
        (papers.jpeg(4000, 3000), "JPEG picture, 4000 x 3000 pixels"),
        (papers.jpeg(4000, 3000, preview=60_000), "JPEG picture, 4000 x 3000 pixels"),
        (papers.gif(1, 65535), "GIF picture, 1 x 65535 pixels"),
        (papers.webp(800, 600), "WebP picture, 800 x 600 pixels"),
        (papers.webp(16384, 1, "VP8L"), "WebP picture, 16384 x 1 pixels"),
        (papers.webp(70000, 3, "VP8X"), "WebP picture, 70000 x 3 pixels"),
        (papers.png(640, 480)[:20], "PNG picture, size in pixels unknown, perhaps damaged"),
        (papers.webp(16384, 16384, "VP8L"), "WebP picture, 16384 x 16384 pixels"),
        (papers.jpeg(9, 9)[:21], "JPEG picture, size in pixels unknown, perhaps damaged"),
        (b"\x89PNG\r\n\x1a\n....", "PNG picture, size in pixels unknown"),
    ],
)
async def test_a_picture_is_known_by_its_content(workspace: Path, call: Call, content: bytes, said: str) -> None:
    (workspace / "notes.txt").write_bytes(content)
    result = await call(read, path="notes.txt")
    assert result.ok and f"notes.txt is a {said}" in result.text
    assert "bytes." in result.text or "KB." in result.text
    is_for_showing = "unknown" not in said and "16384 x 16384" not in said
    assert result.picture == (content if is_for_showing else None)
    assert ("cannot be shown" in result.text) is not is_for_showing


STARTS = st.sampled_from([papers.png(2, 2), papers.jpeg(2, 2, 500), papers.gif(2, 2), papers.webp(2, 2, "VP8X"), b""])


@given(STARTS, st.integers(0, 600), st.binary(max_size=40))
def test_damaged_pictures_raise_nothing(start: bytes, kept: int, rest: bytes) -> None:
    found = pixels(io.BytesIO(start[:kept] + rest))
    assert found is None or found[1] is None or all(0 < one < 1 << 32 for one in found[1])


# TRAPS, Context: "a PDF read as text fill[s] the window in one step -> ... content sniffed".
async def test_a_pdf_is_read_as_its_text_by_pages(workspace: Path, call: Call) -> None:
    (workspace / "paper.txt").write_bytes(papers.pdf("Hello", "", *(f"Page {n}" for n in range(3, 13))))
    text = (await call(read, path="paper.txt", pages="1-3")).text
    assert text.split("\n") == [
        "[page 1 of 12]",
        "Hello",
        "[page 2 of 12]",
        "(no text on this page: perhaps a picture)",
        "[page 3 of 12]",
        "Page 3",
    ]
    assert (await call(read, path="paper.txt", pages="12")).text == "[page 12 of 12]\nPage 12"
    assert (await call(read, path="paper.txt", pages="11-")).text.count("[page") == 2
    assert "has 12 pages; accepted: 1 to 12" in (await call(read, path="paper.txt", pages="13")).text
    assert "is no range of pages; accepted: 3, 3-7 or 3-" in (await call(read, path="paper.txt", pages="last")).text


async def test_a_long_pdf_comes_in_pieces_that_join(workspace: Path, call: Call) -> None:
    (workspace / "long.pdf").write_bytes(papers.pdf(*(f"P{n} " + "word " * 400 for n in range(1, 31))))
    seen, pages = 0, ""
    while True:
        text = (await call(read, path="long.pdf", pages=pages)).text
        assert len(text.encode()) < 16_384
        seen += text.count("[page ")
        if "goes on: read it with pages=" not in text:
            break
        pages = text.rsplit("=", 1)[1].rstrip("]")
    assert seen == 30


@pytest.mark.parametrize("content", [b"%PDF-1.7\nplain looking text\n", papers.pdf("x")[:200], b"%PDF-" + bytes(5000)])
async def test_a_damaged_pdf_is_said_to_be_one(workspace: Path, call: Call, content: bytes) -> None:
    (workspace / "a.pdf").write_bytes(content)
    result = await call(read, path="a.pdf")
    assert not result.ok and "a.pdf is a PDF whose text cannot be read: it is damaged" in result.text
    assert "Traceback" not in result.text


# TRAPS, Tools: "A tool that hangs holds the turn -> time limit per tool, process group killed".
async def test_a_pdf_that_takes_too_long_is_given_up(
    workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "EXTRACT_S", 0.01)
    (workspace / "a.pdf").write_bytes(papers.pdf("x"))
    assert "it took longer than 0.01 s" in (await call(read, path="a.pdf")).text


def test_a_pdf_may_not_take_the_memory() -> None:
    script = "from tools import pdf_text; pdf_text.main(1, 0); bytearray(1_500_000_000)"
    done = subprocess.run([sys.executable, "-c", script], input=b"", capture_output=True, cwd=ROOT)
    assert b"it is damaged" in done.stdout and b"MemoryError" in done.stderr


@given(st.text("0123456789- ,x", max_size=8))
def test_a_range_of_pages_is_two_numbers_or_a_sentence(pages: str) -> None:
    try:
        first, last = page_range(pages, "a.pdf")
    except BadInput:
        return
    assert first >= 1 and (last == 0 or last >= first)


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n", "\u001b[31mred\u001b[0m"]},
                {"output_type": "display_data", "data": {"image/png": "A" * 9000, "text/plain": ["<Figure>"]}},
                {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": ["line 1"]},
            ],
        },
    ]
}


async def test_a_notebook_is_read_as_its_cells(workspace: Path, call: Call) -> None:
    (workspace / "a.ipynb").write_text(json.dumps(NOTEBOOK))
    lines = [line.split("\t", 1)[-1] for line in (await call(read, path="a.ipynb")).text.split("\n")]
    assert lines == [
        "[a.ipynb is a notebook, shown as text; the file itself is JSON]",
        *("[cell 1, markdown]", "# Title", "text", "[cell 2, code]", "print(1)"),
        *("[output of cell 2]", "1", "red", "[output of cell 2]", "<Figure>", "(not shown: image/png (9.0 KB))"),
        *("[output of cell 2]", "KeyError: 'x'", "line 1"),
    ]
    assert "[a.ipynb goes on: read it with offset=3]" in (await call(read, path="a.ipynb", limit=2)).text


async def test_what_is_no_notebook_is_read_as_text(workspace: Path, call: Call) -> None:
    for content in ("{broken", "[]", '{"cells": 3}', "[" * 100_000):
        (workspace / "a.ipynb").write_text(content)
        assert (await call(read, path="a.ipynb")).text.startswith("     1\t" + content[:5])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["source", "outputs", "text", "data", "ename", "traceback"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_any_cells_become_text(cells: list[Any]) -> None:
    assert isinstance(notebook(json.dumps({"cells": cells})), str)


# TRAPS, Context: "280 KB tool output ... spilled to an artifact", readable in pieces, also one line.
async def test_one_line_of_280_kilobytes_is_read_in_pieces_that_join(workspace: Path, call: Call) -> None:
    whole = "".join(chr(97 + n % 26) if n % 7 else "é" for n in range(280_000))
    (workspace / "out.txt").write_text(f"first\n{whole}\nlast\n")
    text = (await call(read, path="out.txt")).text
    assert "278000 more characters in this line: read them with offset=2, column=2001]\n     3\tlast" in text
    seen, column = whole[:2000], 2001
    while True:
        piece, end = (await call(read, path="out.txt", offset=2, column=column)).text.rsplit("\n", 1)
        assert len(piece.encode()) <= 14_000
        seen += piece
        if end == "[end of line 2]":
            break
        column = int(end.rsplit("=", 1)[1].rstrip("]"))
    assert seen == whole
    over = await call(read, path="out.txt", offset=2, column=280_001)
    assert not over.ok and "line 2 has no column 280001; accepted: 1 to 280000" in over.text


# TRAPS, Tools: "Whole body read into memory -> capped stream".
async def test_a_sparse_file_of_a_gigabyte_takes_no_memory_to_speak_of(workspace: Path, call: Call) -> None:
    (workspace / "huge.log").write_bytes(b"first\nsecond\n" + b"z" * 9000)
    os.truncate(workspace / "huge.log", 1 << 30)
    await call(read, path="huge.log", limit=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = (await call(read, path="huge.log")).text
    assert text.startswith("     1\tfirst\n     2\tsecond\n     3\tzzz")
    assert "more characters in this line" in text and "for what follows use bash" in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    os.truncate(workspace / "huge.log", 0)
    os.truncate(workspace / "huge.log", 1 << 30)
    assert "is binary data (1.1 GB), not text" in (await call(read, path="huge.log")).text


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_explained(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(data)
    with path.open("rb") as file:
        try:
            page_of_file(file, "file", Window()).encode()
        except BadInput as error:
            assert "is " in str(error)
