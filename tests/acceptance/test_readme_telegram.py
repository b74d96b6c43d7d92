"""The section of the README on Telegram, followed word by word on a fresh home, against the fake Bot API."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.nursery import ROOT
from tests.acceptance.service import Service, until
from tests.fakes.process import FakeProcess
from tests.fakes.telegram_server import TOKEN

SECTION = "## Telegram in two minutes"
ADA = {"id": 77, "is_bot": False, "first_name": "Ada", "language_code": "en"}
BO = {"id": 78, "is_bot": False, "first_name": "Bo"}


def section() -> str:
    found = (ROOT / "README.md").read_text("utf-8").partition(SECTION)[2].partition("\n## ")[0]
    assert found, f"the README has no section {SECTION!r}"
    return found


def lines_of_readme() -> list[str]:
    return section().partition("```\n")[2].partition("```")[0].splitlines()


def named_in_readme() -> list[str]:
    """What the sentences around the lines name: commands of the shell and of the chat, and a variable."""
    before, _, rest = section().partition("```\n")
    return re.findall(r"`([^`]+)`", before + rest.partition("```")[2])


@pytest.fixture
def telegram() -> Iterator[FakeProcess]:
    with FakeProcess("telegram_server") as server:
        yield server


def write(telegram: FakeProcess, number: int, text: str, who: Mapping[str, Any] = ADA) -> None:
    chat = {"id": who["id"], "type": "private"}
    message = {"message_id": number, "date": int(time.time()), "chat": chat, "from": who, "text": text}
    telegram.control("/__updates", {"updates": [{"update_id": number, "message": message}]})


def texts(telegram: FakeProcess) -> list[str]:
    found = httpx.get(f"{telegram.url}/__sent").json()["messages"]
    return [message["text"] for message in found]


def output(line: str, service: Service, telegram: FakeProcess) -> str:
    """What a line of the README prints, which must go well."""
    with moab(line, service, telegram) as process:
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    return printed


def moab(line: str, service: Service, telegram: FakeProcess) -> "subprocess.Popen[str]":
    """Start a line of the README as a person does, with nothing set but what stands for the world outside."""
    program, *arguments = line.split()
    assert program == ".venv/bin/moab"
    outside = {"PATH", "HOME", "LANG", "MOAB_HOME", "AGENT_MODEL", "AGENT_API_BASE", "OPENAI_API_KEY"}
    given = service.command([]).environment
    environment = {name: given[name] for name in outside} | {"TELEGRAM_API_BASE_URL": telegram.url, "MOAB_PORT": "0"}
    folder = service.home.parent / "empty"
    folder.mkdir(exist_ok=True)
    with open(service.errors, "a", encoding="utf-8") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "app.cli", *arguments],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def test_three_lines_make_a_bot(make_service: MakeService, telegram: FakeProcess) -> None:
    service = make_service()
    service.home.mkdir(parents=True)
    first, setup, serve = lines_of_readme()
    newbot, kept, pair, people, deliveries, _, _ = named_in_readme()
    assert kept == "~/.moab/.env"
    assert newbot == "/newbot"  # said to somebody of Telegram's
    assert first == "make setup"  # .ci/run follows this one: it installs what is installed here
    assert subprocess.run(["make", "-n", "setup"], cwd=ROOT, capture_output=True).returncode == 0

    with moab(setup, service, telegram) as process:
        assert process.stdin and process.stdout
        process.stdin.write(f"{TOKEN}\n\n")
        process.stdin.flush()
        link = next(found for line in process.stdout if (found := re.search(r"t\.me/moab_bot\?start=(\w+)", line)))
        write(telegram, 1, f"/start {link[1]}")
        assert "paired as admin" in process.stdout.read()
        assert process.wait(20) == 0
    assert (service.home / ".env").stat().st_mode & 0o077 == 0
    assert texts(telegram)[0].startswith("Hello Ada! You are paired")

    with moab(serve, service, telegram) as process:
        try:
            write(telegram, 2, "Berlin")  # the hello of the set-up asked where Ada is
            until(lambda: texts(telegram)[1:] == ["Your time zone is Europe/Berlin."], "the time zone", 60)
            write(telegram, 3, "hello")
            until(lambda: texts(telegram)[2:] == ["You said: hello"], "the first answer", 60)
            write(telegram, 4, "me too", BO)
            until(lambda: texts(telegram)[3:], "the line to a stranger")
            assert "only talk to people who were invited" in texts(telegram)[3]
            write(telegram, 5, pair)
            code = until(lambda: re.search(r"\b[A-Z0-9]{8}\b", " ".join(texts(telegram)[4:])), "the code")
            write(telegram, 6, code[0], BO)
            until(lambda: any(text.startswith("Hello Bo!") for text in texts(telegram)), "the hello to the second")
            listed = output(people, service, telegram)
            assert re.search(r"telegram:77 +listed +admin .*Europe/Berlin", listed) and "telegram:78" in listed
            assert "Everything has arrived." in output(deliveries, service, telegram)
        finally:
            process.terminate()
            assert process.wait(20) == 0


def test_with_only_a_token_the_log_has_the_first_code(make_service: MakeService, telegram: FakeProcess) -> None:
    service = make_service()
    service.home.mkdir(parents=True)
    *_, variable, serve = named_in_readme()
    assert f"With nothing but `{variable}` set, `{serve}` writes the first code into its log." in section()
    (service.home / ".env").write_text(f"{variable}={TOKEN}\n")
    with moab(f".venv/bin/{serve}", service, telegram) as process:
        try:
            found = until(lambda: re.search(r"first admin: (\w{8}) ", log(service.errors)), "the code in the log", 60)
            write(telegram, 1, found[1])
            until(lambda: texts(telegram), "the hello")
            write(telegram, 2, "hello")
            until(lambda: "You said: hello" in texts(telegram), "the first answer", 60)
        finally:
            process.terminate()
            assert process.wait(20) == 0
    assert TOKEN not in log(service.errors)


def log(path: Path) -> str:
    return path.read_text() if os.path.exists(path) else ""
