"""download against a server on this machine: whole or not at all, and what is said of it to the ledger."""

import os
from pathlib import Path
from typing import Any

import pytest

from app.agent.tool import Sighting, Tool, ToolResult
from tests.unit.tools import test_tool_web
from tests.unit.tools.test_tool_web import PUBLIC, Call, Names, Server
from tools import download as module
from tools.download import download_tool

server, names = test_tool_web.server, test_tool_web.names


@pytest.fixture
def download(names: Names) -> Tool:
    return download_tool(resolver=names, permits=lambda address: address == PUBLIC)


def url(server: Server, path: str) -> str:
    return f"http://site.test:{server.port}{path}"


def seen(result: ToolResult) -> list[tuple[str, Any]]:
    return [(one.kind, one.data.get("status") or one.data.get("reason")) for one in result.observed]


def download_of(result: ToolResult) -> Sighting:
    return next(one for one in result.observed if one.kind == "DOWNLOAD_OBSERVED")


def left(workspace: Path) -> list[str]:
    return sorted(path.name for path in workspace.rglob("*") if path.is_file())


async def test_a_file_arrives_as_it_is(call: Call, download: Tool, server: Server, workspace: Path) -> None:
    data = os.urandom(3_000_000)
    server.page("/a.bin", data, "application/octet-stream")
    server.redirect("/old", "/a.bin")
    result = await call(download, url=url(server, "/old"), path="in/a.bin")
    assert result.ok and (workspace / "in" / "a.bin").read_bytes() == data and left(workspace) == ["a.bin"]
    assert seen(result) == [("STARTED", None), ("DOWNLOAD_OBSERVED", "completed"), ("TASK_COMPLETED", None)]
    found = download_of(result)
    assert found.source == "site.test" and dict(found.data) == {
        "path": "in/a.bin", "status": "completed", "bytes": 3_000_000, "expected_bytes": 3_000_000,
    }  # fmt: skip


async def test_one_that_falls_short_is_incomplete_and_nothing_is_written(
    call: Call, download: Tool, server: Server, workspace: Path
) -> None:
    server.pages["/a"] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 400
    (workspace / "a").write_text("before")
    result = await call(download, url=url(server, "/a"), path="a")
    assert not result.ok and "the connection ended after 400 bytes of" in result.text
    assert seen(result) == [("STARTED", None), ("DOWNLOAD_OBSERVED", "incomplete")]
    assert (download_of(result).data["bytes"], download_of(result).data["expected_bytes"]) == (400, 1000)
    assert (workspace / "a").read_text() == "before" and left(workspace) == ["a"]


async def test_one_that_does_not_get_on_has_timed_out(
    call: Call, names: Names, server: Server, workspace: Path
) -> None:
    download = download_tool(resolver=names, permits=lambda address: address == PUBLIC, idle_s=0.2)
    server.pages["/silent"] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 400
    result = await call(download, url=url(server, "/silent"), path="a")
    assert not result.ok and "nothing came for 0.2 s" in result.text
    assert seen(result)[1] == ("DOWNLOAD_OBSERVED", "timeout") and left(workspace) == []


@pytest.mark.parametrize(("status", "is_final"), [(404, True), (403, True), (503, False), (429, False)])
async def test_a_server_that_refuses(
    call: Call, download: Tool, server: Server, workspace: Path, status: int, is_final: bool
) -> None:
    server.pages["/a"] = f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno".encode()
    result = await call(download, url=url(server, "/a"), path="a")
    assert f"status {status}" in result.text and left(workspace) == []
    assert (seen(result)[-1] == ("BLOCKED_CONFIRMED", "EXECUTION_ERROR")) is is_final


async def test_a_file_that_is_too_large_is_not_taken(
    call: Call, download: Tool, server: Server, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    server.page("/told", b"x" * 1001)
    server.pages["/untold"] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 1001
    for path in ("/told", "/untold"):
        result = await call(download, url=url(server, path), path="a")
        assert not result.ok and "are taken" in result.text and left(workspace) == []


@pytest.mark.parametrize("path", ["../a", "~/a", "folder"])
async def test_it_goes_only_where_files_may_be_written(
    call: Call, download: Tool, server: Server, workspace: Path, path: str
) -> None:
    (workspace / "folder").mkdir()
    server.page("/a", b"x")
    result = await call(download, url=url(server, "/a"), path=path)
    assert not result.ok and left(workspace) == [] and result.observed == ()


async def test_it_comes_only_from_where_pages_may_be_read(call: Call, download: Tool, server: Server) -> None:
    server.redirect("/", "http://inside.test/")
    assert "which is not public" in (await call(download, url=url(server, "/"), path="a")).text
    assert "is not a web address" in (await call(download, url="file:///etc/passwd", path="a")).text


async def test_the_same_again_is_the_same_task(call: Call, download: Tool, server: Server) -> None:
    server.page("/a", b"x")
    one = await call(download, url=url(server, "/a"), path="a")
    again = await call(download, {"step_key": "tool#1.0"}, url=url(server, "/a"), path="./a")
    other = await call(download, url=url(server, "/a"), path="b")
    assert one.observed[0].task_id == again.observed[0].task_id != other.observed[0].task_id
