"""The registry of platforms: two files of one name are a platform, and nothing else has to know it."""

import ast
import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app.channels
import webhooks
from app import platforms
from app.config import Settings
from app.errors import NotFound
from app.events import Destination
from app.platforms import channels_of, listen, open_platforms
from tests.unit.core import rules

WAY_IN = """
    from fastapi import APIRouter
    from webhooks.way_in import Door, WayIn

    def is_configured(settings):
        return settings.agent_name == "Has a pigeon"

    def way_in(door):
        return WayIn(APIRouter())
"""

WAY_OUT = """
    from app.channels.http import MailboxChannel

    def channels(settings):
        return (MailboxChannel("pigeon"),)

    async def set_up(desk):
        desk.say("Feed it.")
"""


@pytest.fixture
def pigeon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A platform that lies elsewhere on the disk, in two files."""
    for package, text in ((webhooks, WAY_IN), (app.channels, WAY_OUT)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "pigeon.py").write_text(textwrap.dedent(text))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield
    for name in ("webhooks.pigeon", "app.channels.pigeon"):
        sys.modules.pop(name, None)


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)


def test_without_settings_there_are_the_terminal_and_http() -> None:
    assert sorted(channels_of(open_platforms(settings()))) == ["http", "terminal"]


async def test_a_token_brings_its_channel() -> None:
    opened = channels_of(open_platforms(settings(telegram_bot_token="1:secret")))
    assert sorted(opened) == ["http", "telegram", "terminal"]
    for channel in opened.values():
        await channel.close()


def test_a_platform_without_settings_loads_no_parsers() -> None:
    code = """
import sys
from app.config import Settings
from app.platforms import open_platforms
open_platforms(Settings(_env_file=None))
loaded = [name for name in sys.modules if name.startswith("app.channels.")]
sys.stdout.write(" ".join(sorted(loaded)) + " " + str("pyromark" in sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "app.channels.channel app.channels.http False"


async def test_two_files_are_a_platform(pigeon: None) -> None:
    assert "pigeon" in platforms.names()
    assert "pigeon" not in channels_of(open_platforms(settings()))
    opened = channels_of(open_platforms(settings(agent_name="Has a pigeon")))
    assert await opened["pigeon"].acknowledge(Destination(chat_id="roof"))


async def test_what_can_be_set_up_is_found_by_its_name(pigeon: None) -> None:
    said: list[str] = []

    class Desk:
        say = staticmethod(said.append)

    await platforms.set_up("pigeon")(Desk())  # type: ignore[arg-type]
    assert said == ["Feed it."]
    with pytest.raises(NotFound, match=r"under the name raven; accepted: .*pigeon"):
        platforms.set_up("raven")


def test_no_other_part_of_the_service_names_a_platform() -> None:
    """Settings have to, and the command that times the path of one; the terminal and HTTP are the service's own."""
    words = set(platforms.names()) - {"http"}
    free = ("webhooks/", "app/channels/", "app/config.py", "app/cli/bench")
    named = [
        (file.path, word)
        for file in rules.sources()
        if not file.path.startswith(free)
        for word in words
        if any(word in name.lower().split("_") for name in _names_in(file))
    ]
    assert named == []


def _names_in(file: rules.File) -> set[str]:
    names = {node.id for node in ast.walk(file.tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(file.tree) if isinstance(node, ast.Attribute)}
    for _, name, _ in rules.imports(file):
        names |= set(name.split("."))
    return names


async def test_what_listens_begins_again_when_it_breaks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(platforms, "LISTEN_AGAIN_AFTER_S", 0)
    tries = 0

    async def way() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("gone")

    async with asyncio.timeout(5):
        await listen("pigeon", way)
    assert tries == 3
    assert [record.getMessage() for record in caplog.records] == [
        "Listening to pigeon broke off; it begins again in 0 seconds."
    ] * 2
