"""read, write, edit, ls on real files."""

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.agent.tool import ToolResult
from tools import page, textfile
from tools.edit import edit
from tools.files import ls, write
from tools.read import read

Call = Callable[..., Awaitable[ToolResult]]


async def test_read_numbers_the_lines_and_says_how_to_go_on(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert (await call(read, path="a.txt", offset=9)).text == "     9\tline 9\n    10\tline 10"
    first = await call(read, path="a.txt", limit=2)
    assert first.text == "     1\tline 1\n     2\tline 2\n[a.txt goes on (71 bytes in all): read it with offset=3]"
    assert "offset 11 is past the end; accepted: 1 to 10" in (await call(read, path="a.txt", offset=11)).text
    assert not (await call(read, path="missing.txt")).ok


async def test_read_of_an_empty_file_says_so(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").touch()
    assert (await call(read, path="a.txt")).text == "(a.txt is empty)"


# TRAPS, Context: "280 KB tool output ... fill the window in one step"
async def test_a_page_of_a_long_file_is_bounded_and_pages_join(workspace: Path, call: Call) -> None:
    lines = [f"row {n} " + "é" * (n % 90) for n in range(3000)]
    (workspace / "long.txt").write_text("\n".join(lines))
    seen: list[str] = []
    offset = 1
    while True:
        text = (await call(read, path="long.txt", offset=offset)).text
        assert len(text.encode()) < 16_384
        rows = text.split("\n")
        seen += [row.split("\t", 1)[1] for row in rows if "\t" in row]
        if "goes on" not in rows[-1]:
            break
        offset = int(rows[-1].rsplit("=", 1)[1].rstrip("]"))
    assert seen == lines


async def test_a_line_without_end_is_cut(workspace: Path, call: Call) -> None:
    (workspace / "min.js").write_text("x" * 100_000 + "\nnext\n")
    text = (await call(read, path="min.js")).text
    assert "x [... 98000 more characters in this line: read them with offset=1, column=2001]\n     2\tnext" in text


# TRAPS, Tools: "Whole body read into memory -> capped stream": a sparse file of a terabyte is read like any other.
async def test_a_huge_file_is_not_read_into_memory(
    workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "huge.log").write_bytes(b"first\nsecond\n" + b"z" * 9000)
    os.truncate(workspace / "huge.log", 1 << 40)
    text = (await call(read, path="huge.log", limit=2)).text
    assert text.endswith("[huge.log goes on (1099.5 GB in all): read it with offset=3]")
    monkeypatch.setattr(page, "SKIP_CHARACTERS", 100_000)
    assert "too far into the file" in (await call(read, path="huge.log", offset=5)).text


# TRAPS, Context: "a PDF read as text".
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x1f\x8b\x08 plain looking text\n", "gzip-compressed data"),
        (b"PK\x03\x04 plain looking text\n", "a zip archive or office document"),
        (b"text and a \0 in it", "binary data"),
        (bytes(range(1, 32)) * 4, "binary data"),
    ],
)
async def test_what_is_not_text_is_named_and_not_shown(workspace: Path, call: Call, content: bytes, kind: str) -> None:
    (workspace / "file").write_bytes(content)
    result = await call(read, path="file")
    assert not result.ok
    assert f"file is {kind} ({len(content)} bytes), not text" in result.text
    assert not (await call(edit, path="file", old_text="text", new_text="x")).ok
    assert (workspace / "file").read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        "é\n".encode("latin-1"),
        "\ufeffé\r\n".encode(),
        "\ufeffé\n".encode("utf-16-le"),
        "\ufeffé\n".encode("utf-16-be"),
    ],
)
async def test_read_understands_the_common_encodings(workspace: Path, call: Call, content: bytes) -> None:
    (workspace / "a.txt").write_bytes(content)
    assert (await call(read, path="a.txt")).text == "     1\té"


async def test_a_character_across_the_sniffed_head_is_still_utf8(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("x" * 8191 + "é\nß\n")
    assert "\n     2\tß" in (await call(read, path="a.txt")).text


# TRAPS, Tools: "A tool that hangs holds the turn".
async def test_read_of_a_fifo_does_not_wait(workspace: Path, call: Call) -> None:
    os.mkfifo(workspace / "fifo")
    assert "special file" in (await call(read, path="fifo")).text
    assert "special file" in (await call(write, path="fifo", content="x")).text


async def test_write_makes_folders_and_says_what_it_did(workspace: Path, call: Call) -> None:
    assert (await call(write, path="notes/a.md", content="one\ntwo\n")).text == "Created notes/a.md (2 lines, 8 bytes)."
    assert (await call(write, path="notes/a.md", content="1")).text == "Replaced notes/a.md (1 line, 1 byte)."
    assert (workspace / "notes" / "a.md").read_text() == "1"
    assert sorted(os.listdir(workspace / "notes")) == ["a.md"]


async def test_write_keeps_the_mode_and_gives_new_files_the_usual_one(workspace: Path, call: Call) -> None:
    script = workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    await call(write, path="run.sh", content="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    await call(write, path="new.txt", content="new")
    (workspace / "usual").touch()
    assert (workspace / "new.txt").stat().st_mode == (workspace / "usual").stat().st_mode


async def test_a_write_that_fails_leaves_the_old_content_and_no_draft(
    workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "a.txt").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = await call(write, path="a.txt", content="new")
    assert (result.ok, result.text) == (False, "a.txt: no space left on device")
    assert os.listdir(workspace) == ["a.txt"]
    assert (workspace / "a.txt").read_text() == "old"


# TRAPS, Tools: "`~` and symlinks escape the workspace".
async def test_nothing_is_written_or_read_through_a_link_that_leads_out(workspace: Path, call: Call) -> None:
    outside = workspace.parent / "secret.txt"
    outside.write_text("secret")
    (workspace / "link.txt").symlink_to(outside)
    (workspace / "dir").symlink_to(workspace.parent)
    for path in ("link.txt", "dir/secret.txt", "dir/new.txt", "../secret.txt", str(outside)):
        for result in (
            await call(read, path=path),
            await call(write, path=path, content="x"),
            await call(edit, path=path, old_text="secret", new_text="x"),
        ):
            assert not result.ok
            assert f"{path} leads outside the workspace" in result.text
    assert outside.read_text() == "secret"
    assert not (workspace.parent / "new.txt").exists()


async def test_write_through_a_link_inside_keeps_the_link(workspace: Path, call: Call) -> None:
    (workspace / "real.txt").write_text("old")
    (workspace / "link.txt").symlink_to("real.txt")
    assert (await call(write, path="link.txt", content="new")).text.startswith("Replaced real.txt")
    assert (workspace / "link.txt").is_symlink()
    assert (workspace / "real.txt").read_text() == "new"


async def test_write_refuses_what_cannot_be_a_file(workspace: Path, call: Call) -> None:
    (workspace / "file").touch()
    assert "is a folder" in (await call(write, path=".", content="x")).text
    assert "a part of this path is a file" in (await call(write, path="file/a.txt", content="x")).text
    assert "file name too long" in (await call(write, path="n" * 300, content="x")).text
    assert "does not exist in utf-8" in (await call(write, path="a.txt", content="\ud800")).text


async def test_edit_keeps_line_endings_byte_order_mark_and_encoding(workspace: Path, call: Call) -> None:
    (workspace / "win.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    result = await call(edit, path="win.txt", old_text="one\ntwo", new_text="1\n2\n2b")
    assert result.text == "Edited win.txt: replaced at line 1."
    assert (workspace / "win.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree\r\n"
    (workspace / "old.txt").write_bytes("caf\xe9 bar\n".encode("latin-1"))
    await call(edit, path="old.txt", old_text="café", new_text="thé")
    assert (workspace / "old.txt").read_bytes() == b"th\xe9 bar\n"
    assert "does not exist in latin-1" in (await call(edit, path="old.txt", old_text="thé", new_text="€")).text
    (workspace / "wide.txt").write_bytes("\ufeffa\nb\n".encode("utf-16-be"))
    await call(edit, path="wide.txt", old_text="b", new_text="ü")
    assert (workspace / "wide.txt").read_bytes() == "\ufeffa\nü\n".encode("utf-16-be")


async def test_several_edits_are_made_at_once_or_not_at_all(workspace: Path, call: Call) -> None:
    content = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\ntwo\r\n"
    (workspace / "a.txt").write_bytes(content)
    wrong = await call(edit, path="a.txt", edits=[{"old_text": "one", "new_text": "1"}, {"old": "four", "new": "4"}])
    assert not wrong.ok and "edit 2 of 2 does not fit. a.txt: old_text is not in the file" in wrong.text
    assert (workspace / "a.txt").read_bytes() == content
    edits = [{"old_text": "one\ntwo", "new_text": "1"}, {"old_text": "t", "new_text": "T", "replace_all": True}]
    assert (await call(edit, path="a.txt", edits=edits)).text == "Edited a.txt: 2 edits, replaced at lines 1, 2, 3."
    assert (workspace / "a.txt").read_bytes() == b"\xef\xbb\xbf1\r\nThree\r\nTwo\r\n"


async def test_what_models_write_instead_of_a_list_of_edits_is_understood(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("one two")
    assert (await call(edit, path="a.txt", edits='[{"old": "one", "new": "1", "all": true}]')).ok
    assert (await call(edit, path="a.txt", old_text="two", new_text="2", edits=[])).ok
    assert (workspace / "a.txt").read_text() == "1 2"
    both = await call(edit, path="a.txt", old_text="1", new_text="", edits=[{"old_text": "2", "new_text": "3"}])
    assert "both old_text and edits are given" in both.text
    assert "edits.0.new_text: Field required" in (await call(edit, path="a.txt", edits=[{"old_text": "2"}])).text


async def test_a_forgotten_new_text_removes_nothing(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("one")
    assert "new_text is missing" in (await call(edit, path="a.txt", old_text="one")).text
    assert "old_text is missing" in (await call(edit, path="a.txt")).text
    assert (workspace / "a.txt").read_text() == "one"


async def test_edit_of_a_very_long_file_is_refused(
    workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textfile, "EDIT_LIMIT_BYTES", 10)
    (workspace / "a.txt").write_text("x" * 11)
    assert "accepted: at most 10 bytes" in (await call(edit, path="a.txt", old_text="x", new_text="y")).text


async def test_ls_is_sorted_and_marks_what_things_are(workspace: Path, call: Call) -> None:
    (workspace / "b").mkdir()
    (workspace / "a.txt").write_text("x" * 1200)
    (workspace / ".env").touch()
    (workspace / "in").symlink_to("a.txt")
    (workspace / "out").symlink_to("/etc")
    (workspace / "two\nlines").touch()
    os.mkfifo(workspace / "pipe")
    assert (await call(ls)).text.split("\n") == [
        ".env (0 bytes)",
        "a.txt (1.2 KB)",
        "b/",
        "in -> a.txt",
        "out -> outside the workspace, not usable",
        "pipe (special file)",
        "two?lines (0 bytes)",
    ]
    assert (await call(ls, path="b")).text == "(b is empty)"
    assert not (await call(ls, path="out")).ok


async def test_ls_counts_what_it_does_not_show(workspace: Path, call: Call) -> None:
    for n in range(7):
        (workspace / f"f{n}").touch()
    lines = (await call(ls, limit=3)).text.split("\n")
    assert lines[:3] == ["f0 (0 bytes)", "f1 (0 bytes)", "f2 (0 bytes)"]
    assert lines[3].startswith("[4 more entries are not shown")
