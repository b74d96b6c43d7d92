"""find and grep: the same answers with ripgrep and without it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.agent.tool import ToolResult
from tools import scan
from tools.found import Names
from tools.plain_search import files
from tools.search import find_tool, grep_tool

Call = Callable[..., Awaitable[ToolResult]]

RG = scan.ripgrep({"PATH": os.environ.get("PATH", "")})
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not installed here")


@pytest.fixture(params=[pytest.param("rg", marks=needs_rg), "plain"])
def rg(request: pytest.FixtureRequest) -> Path | None:
    return RG if request.param == "rg" else None


def fill(root: Path, tree: dict[str, str | bytes]) -> None:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


PROJECT: dict[str, str | bytes] = {
    ".gitignore": "*.log\n/build/\nnode_modules/\n",
    ".git/config": "foo in git\n",
    ".hidden": "foo hidden\n",
    "a.py": "import os\n\ndef foo():\n    return 1\n\nx = foo()\n",
    "a.log": "foo log\n",
    "build/out.py": "foo built\n",
    "docs/.gitignore": "!keep.log\n",
    "docs/keep.log": "foo kept\n",
    "docs/drop/build/ok.txt": "FOO capital\r\n",
    "src/deep/b.ts": "foo()\n",
    "src/node_modules/m.js": "foo module\n",
    "bin.dat": b"foo\n\0\n",
    "late.dat": b"foo\n" + b"x\n" * 100_000 + b"\0",
    "utf16.txt": "\ufefffoo wide\n".encode("utf-16-le"),
    "latin.txt": b"foo caf\xe9\n",
    "long.txt": "foo" + "é" * 5000 + "\n",
}


async def test_find_respects_gitignore_without_a_repository(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, PROJECT)
    (workspace / ".git").rename(workspace / "git")
    found = (await call(find_tool(rg), pattern="*.{py,js,ts,log}")).text
    assert found.split("\n") == ["a.py", "docs/keep.log", "src/deep/b.ts"]
    assert (await call(find_tool(rg), pattern="src/**/*.ts")).text == "src/deep/b.ts"
    assert (await call(find_tool(rg), pattern="*.ts", path="src/deep")).text == "src/deep/b.ts"
    assert (await call(find_tool(rg), pattern="*.rs")).text.startswith("No file of . fits *.rs")


async def test_rules_above_the_searched_folder_hold(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, PROJECT)
    assert (await call(find_tool(rg), pattern="*", path="src")).text == "src/deep/b.ts"
    assert "docs/keep.log" in (await call(find_tool(rg), pattern="*", path="docs")).text
    # A folder that is named by the caller is wanted, even when a rule names it.
    assert (await call(find_tool(rg), pattern="*", path="src/node_modules")).text == "src/node_modules/m.js"
    assert "foo built" in (await call(grep_tool(rg), pattern="foo", path="build/out.py")).text


async def test_rules_above_the_workspace_do_not_hold(call: Call, workspace: Path, rg: Path | None) -> None:
    (workspace.parent / ".gitignore").write_text("*\n")
    fill(workspace, {"a.txt": "x"})
    assert (await call(find_tool(rg), pattern="*.txt")).text == "a.txt"


async def test_find_counts_what_it_does_not_show(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, {f"f{n}.txt": "" for n in range(9)})
    lines = (await call(find_tool(rg), pattern="*", limit=2)).text.split("\n")
    assert lines[:2] == ["f0.txt", "f1.txt"] and lines[2].startswith("[7 more files are not shown")


async def test_find_of_very_many_names_stays_small(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, {f"{n:03}{'n' * 200}": "" for n in range(200)})
    text = (await call(find_tool(rg), pattern="*", limit=1000)).text
    assert len(text) < 16_384 and " more files are not shown" in text


async def test_grep_shows_lines_under_their_file(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, PROJECT)
    text = (await call(grep_tool(rg), pattern="foo")).text
    assert text.split("\n") == [
        ".hidden",
        "  1: foo hidden",
        "a.py",
        "  3: def foo():",
        "  6: x = foo()",
        "docs/keep.log",
        "  1: foo kept",
        "latin.txt",
        "  1: foo caf\ufffd",
        "long.txt",
        "  1: foo" + "é" * 397 + " [...]",
        "src/deep/b.ts",
        "  1: foo()",
        "utf16.txt",
        "  1: foo wide",
    ]


async def test_grep_options(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, PROJECT)
    grep = grep_tool(rg)
    assert "capital" in (await call(grep, pattern="^foo capital$", ignore_case=True)).text
    assert (await call(grep, pattern="foo", glob="*.ts")).text == "src/deep/b.ts\n  1: foo()"
    assert (await call(grep, pattern="foo", path="src/deep/b.ts")).text == "src/deep/b.ts\n  1: foo()"
    around = (await call(grep, pattern="foo", path="a.py", context_lines=1)).text.split("\n")
    assert around == ["a.py", "  2- ", "  3: def foo():", "  4-     return 1", "  5- ", "  6: x = foo()"]
    apart = (await call(grep, pattern="import|x =", glob="*.py", context_lines=1)).text.split("\n")
    assert apart == ["a.py", "  1: import os", "  2- ", "  --", "  5- ", "  6: x = foo()"]
    assert (await call(grep, pattern="absent")).text == "No line of . matches absent."
    assert (await call(grep, pattern=r"(?<=def )\w+", path="a.py")).text == "a.py\n  3: def foo():"
    assert (await call(grep, pattern="-x", path="a.py")).ok
    assert (await call(grep, pattern="foo", path="bin.dat")).text == "No line of bin.dat matches foo."


async def test_grep_stops_at_its_limit(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, {"a.txt": "foo\n" * 1000})
    lines = (await call(grep_tool(rg), pattern="foo", limit=5)).text.split("\n")
    assert lines[-2:] == ["  5: foo", "[there are more matches: use a narrower pattern, path or glob]"]
    assert len((await call(grep_tool(rg), pattern="foo", limit=5)).text) < 200


async def test_grep_of_long_lines_stays_small(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, {"min.js": ("a" * 3_000_000 + "\n") * 3, "wide.txt": ("é" * 500 + "\n") * 400})
    text = (await call(grep_tool(rg), pattern="a|é", limit=500)).text
    assert len(text.encode()) < 16_384 and text.endswith("narrower pattern, path or glob]")


@pytest.mark.parametrize("pattern", ["foo(", "*x", "[a", "a{2,1}"])
async def test_a_bad_regex_explains_itself(call: Call, workspace: Path, rg: Path | None, pattern: str) -> None:
    fill(workspace, {"a.txt": "foo(\n"})
    result = await call(grep_tool(rg), pattern=pattern)
    assert not result.ok
    assert result.text.startswith(f"{pattern!r} is not a regular expression: ")
    assert "Accepted: for example" in result.text and "~~~" not in result.text


async def test_bad_arguments_are_named(call: Call, workspace: Path, rg: Path | None) -> None:
    fill(workspace, {"a.txt": ""})
    assert "is a file; accepted: a folder" in (await call(find_tool(rg), pattern="*", path="a.txt")).text
    assert "no such file or folder" in (await call(grep_tool(rg), pattern="x", path="none")).text
    assert "spans lines" in (await call(grep_tool(rg), pattern="a\nb")).text
    assert "is not a glob" in (await call(find_tool(rg), pattern=" ")).text
    assert "more than 64" in (await call(find_tool(rg), pattern="{a,b,c,d,e,f,g,h,i}" * 3)).text
    os.mkfifo(workspace / "pipe")
    assert "special file" in (await call(grep_tool(rg), pattern="x", path="pipe")).text


# TRAPS, Tools: "symlinks escape the workspace".
async def test_a_search_does_not_follow_links_out(call: Call, workspace: Path, rg: Path | None) -> None:
    outside = workspace.parent / "outside"
    fill(outside, {"secret.txt": "foo secret\n"})
    (workspace / "dir").symlink_to(outside)
    (workspace / "file.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(workspace / "pipe")
    assert (await call(find_tool(rg), pattern="*")).text.startswith("No file")
    assert (await call(grep_tool(rg), pattern="foo")).text.startswith("No line")
    for path in ("dir", "file.txt", ".."):
        assert "outside the workspace" in (await call(grep_tool(rg), pattern="foo", path=path)).text


# TRAPS, Tools: "A tool that hangs holds the turn".
async def test_an_endless_regex_is_killed(call: Call, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SCAN_S", 0.3)
    fill(workspace, {"a.txt": "a" * 60 + "b\n"})
    text = (await call(grep_tool(None), pattern="(a+)+$")).text
    assert "there may be more: use a narrower path" in text


def test_ripgrep_is_found_on_the_path_given_and_on_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert scan.ripgrep({}) is None
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.touch(0o755)
    assert scan.ripgrep({"PATH": str(program.parent)}) == program


names = st.sampled_from(["a", "b", "c.py", "d.log", "build", "x y"])
rules = st.sampled_from(
    [
        "a",
        "/a",
        "a/",
        "*.log",
        "!d.log",
        "build/",
        "b/c.py",
        "**/b",
        "!a",
        "x*",
        "\\!a",
        "#a",
        "/*",
        "a/*",
        "a/**",
        "**",
        "*/",
    ]
)


@needs_rg
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.lists(names, min_size=1, max_size=4).map("/".join), max_size=12),
    st.dictionaries(st.sampled_from(["", "a", "b", "build", "a/b"]), st.lists(rules, max_size=4), max_size=3),
)
@example(set(), {"a/b": [], "": ["**/b", "!a"]})
@example({"a/b", "b"}, {"": ["a/**", "**", "!b"]})
def test_both_walkers_list_the_same_files(paths: set[str], ignores: dict[str, list[str]]) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        for name in sorted(paths) + [f"{folder}/.gitignore".lstrip("/") for folder in ignores]:
            path = root / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(ignores.get(os.path.dirname(name), [])))
            except (NotADirectoryError, FileExistsError, IsADirectoryError):
                continue
        argv = scan._ripgrep(RG or Path(), scan.scope(root, ".", None), None)
        listed = subprocess.run(argv, cwd=root, stdout=subprocess.PIPE, text=True).stdout
        assert listed.split("\0")[:-1] == [f"./{path.relative_to(root)}" for path in files(root)]
    finally:
        shutil.rmtree(root)


@given(st.lists(st.sampled_from(["./a", "./b/c", "./é"])), st.integers(1, 9))
def test_names_arrive_whole_however_the_output_is_cut(found: list[str], step: int) -> None:
    collected = Names(scan.Scope(Path("/w"), Path("/w"), None, None, None), 1000)
    data = b"".join(name.encode() + b"\0" for name in found)
    for start in range(0, len(data), step):
        collected.take(data[start : start + step])
    assert collected.names == [name[2:] for name in found]
