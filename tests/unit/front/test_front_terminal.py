"""The chat at a terminal: a real process at a real pseudo-terminal, typed at and read from."""

import errno
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.client import Activity
from app.cli.terminal import doing_now, rendered
from tests.unit.front.fake_service import HOLD, FakeService

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r|\x1b\][^\x07]*\x07")
CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"


class Screen:
    """`moab chat` at a pseudo-terminal: `type` writes keys, `until` reads until a text was shown."""

    def __init__(self, env: dict[str, str], cwd: Path, *arguments: str) -> None:
        self._fd, child = pty.openpty()
        termios.tcsetwinsize(child, (24, 100))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "chat", *arguments],
            stdin=child,
            stdout=child,
            stderr=subprocess.PIPE,
            env=env | {"PROMPT_TOOLKIT_NO_CPR": "1"},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(child)
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, text: str, within_s: float = 15.0) -> str:
        """What was shown up to and with `text`, without colours; it is taken off what was shown."""
        end = time.monotonic() + within_s
        while text not in self.shown:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} was not shown; what was: {self.shown!r}")
            self.shown = ESCAPES.sub("", self.shown + os.read(self._fd, 65536).decode("utf-8", "replace"))
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def ready(self) -> None:
        """Return once the first prompt is there: from then on keys are keys, and not the terminal's signals."""
        self.until("Ctrl-D leaves.")
        self.until("> ")

    def code(self, within_s: float = 15.0) -> int:
        """The exit code, once the process has ended; what it still shows is read away meanwhile."""
        end = time.monotonic() + within_s
        while select.select([self._fd], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                self.shown += ESCAPES.sub("", os.read(self._fd, 65536).decode("utf-8", "replace"))
            except OSError as error:
                assert error.errno == errno.EIO  # the process has closed its side of the terminal
                break
        return self.process.wait(max(1.0, end - time.monotonic()))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        os.close(self._fd)


@pytest.fixture
def screen(service: FakeService, moab_env: dict[str, str], tmp_path: Path) -> Iterator[Screen]:
    service.history = [
        {"role": "user", "text": "where were we?", "at": None},
        {"role": "assistant", "text": "At the beginning.", "at": None},
    ]
    screen = Screen(moab_env, tmp_path)
    yield screen
    screen.close()


def test_a_line_is_answered_above_the_prompt_and_ctrl_d_leaves(screen: Screen, service: FakeService) -> None:
    screen.until("At the beginning.")
    screen.ready()
    screen.type("hello" + ENTER)
    screen.until("You said: hello")
    screen.type(CTRL_D)
    assert screen.code() == 0
    assert service.texts() == ["hello"]


def test_ctrl_c_stops_the_turn_and_leaves_the_second_time_where_none_runs(screen: Screen, service: FakeService) -> None:
    service.script["dig"] = HOLD
    screen.ready()
    screen.type("dig" + ENTER)
    screen.until("bash  Ctrl-C stops")
    screen.type(CTRL_C)
    screen.until("Stopped.")
    assert service.texts() == ["dig", "/stop"]
    screen.until("> ")
    assert screen.process.poll() is None
    screen.type("half a line" + CTRL_C)
    screen.until("Ctrl-D leaves")
    screen.type("again" + ENTER)
    screen.until("You said: again")
    screen.type(CTRL_C)
    screen.until("Ctrl-D leaves")
    screen.type(CTRL_C)
    assert screen.code() == 0
    assert service.texts() == ["dig", "/stop", "again"]


def test_a_second_message_may_be_sent_while_a_turn_runs(screen: Screen, service: FakeService) -> None:
    service.script["dig"] = HOLD
    screen.ready()
    screen.type("dig" + ENTER)
    screen.until("bash  Ctrl-C stops")
    screen.type("deeper" + ENTER)
    screen.until("You said: deeper")
    assert service.texts() == ["dig", "deeper"]


def test_leaving_a_service_that_goes_on_does_not_stop_its_turn(screen: Screen, service: FakeService) -> None:
    service.script["dig"] = HOLD
    screen.ready()
    screen.type("dig" + ENTER)
    screen.until("bash  Ctrl-C stops")
    screen.type("/quit" + ENTER)
    screen.until("goes on in the service")
    assert screen.code() == 0
    assert service.texts() == ["dig"]


def test_what_comes_while_nobody_asks_is_shown(screen: Screen, service: FakeService) -> None:
    screen.ready()
    service.notice("A reminder.")
    screen.until("A reminder.")
    service.notice("**Late** but here.", kind="reply")
    screen.until("Late but here.")


def test_commands_and_help(screen: Screen, service: FakeService) -> None:
    service.script |= {"/new": "A new conversation.", "/help": "/undo takes back the last exchange"}
    screen.ready()
    screen.type("/new" + ENTER)
    screen.until("A new conversation.")
    screen.type("/help" + ENTER)
    screen.until("Ctrl-C stops what it is doing")
    screen.until("/undo takes back")
    assert service.texts() == ["/new", "/help"]


def test_a_line_that_could_not_be_sent_is_kept_at_the_prompt(screen: Screen, service: FakeService) -> None:
    screen.ready()
    with service.changed:
        service.refuse_posts.append((503, {"error": "Shutting down."}))
    screen.type("hello" + ENTER)
    screen.until("Shutting down.")
    screen.until("> hello")
    screen.type(ENTER)
    screen.until("You said: hello")


def test_sigterm_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    screen.ready()
    screen.process.send_signal(signal.SIGTERM)
    assert screen.code() == 0


def test_what_was_typed_is_kept_for_its_owner_alone(screen: Screen, tmp_path: Path) -> None:
    screen.ready()
    screen.type("hello" + ENTER)
    screen.until("You said: hello")
    screen.type(CTRL_D)
    assert screen.code() == 0
    history = tmp_path / "terminal_history"
    assert "hello" in history.read_text() and history.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("activity", "words"),
    [
        (Activity(state="thinking"), "thinking"),
        (Activity(state="tool", tool="bash"), "using bash"),
        (Activity(state="tool"), "thinking"),
        (Activity(state="waiting"), "waiting"),
        (Activity(), "thinking"),
    ],
)
def test_the_activity_in_words(activity: Activity, words: str) -> None:
    assert doing_now(activity) == words


def test_an_answer_is_markdown_without_control_characters() -> None:
    shown = rendered("# Title\n\nSome **bold**\x1b[2J text and [a link](https://example.org).", width=60)
    plain = ESCAPES.sub("", shown)
    assert "Title" in plain and "bold[2J text" in plain and "https://example.org" in plain
    assert "\x1b[2J" not in shown and "\x1b]8" not in shown
