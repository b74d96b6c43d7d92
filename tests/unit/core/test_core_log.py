"""The log: a sentence a line, and no secret in it, whoever wrote it."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from app.log import QUIET, redacted, set_up_logging

TOKEN = "123456789:AAH-a-secret-token-of-a-bot-0123456789"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The handlers and levels as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"POST https://api.telegram.org/bot{TOKEN}/sendMessage", "POST https://api.telegram.org/bot123456789:***/sendMessage"),
        (f"the token is {TOKEN}.", "the token is 123456789:***."),
        ("key sk-ant-api03-abcdefgh0123 end", "key sk-*** end"),
        ("xoxb-1234567890-abc and gsk_abcdefgh1 and AIzaSyA1234567", "xoxb-*** and gsk_*** and AIza***"),
        ("signkey-prod-0123456789abcdef", "signkey-***"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "authorization: Basic ***"),
        ("{'Authorization': 'Bearer abc+def/ghi=='}", "{'Authorization': 'Bearer ***'}"),
        ("[(b'authorization', b'Bearer abcdefghij')]", "[(b'authorization', b'Bearer ***')]"),
        ('{"x-api-key": "abcdefghij", "n": 1}', '{"x-api-key": "***", "n": 1}'),
        ("api_key=abcdefghij&x=1", "api_key=***&x=1"),
        ("X-Telegram-Bot-Api-Secret-Token: abcdefghij", "X-Telegram-Bot-Api-Secret-Token: ***"),
        ("password=hunter2hunter2", "password=***"),
        ("POST /e/abcdefghijkl 200", "POST /e/*** 200"),
        ("postgresql://moab:hunter2@db:5432/moab", "postgresql://moab:***@db:5432/moab"),
        ("max_tokens=12345678 and tokens: 12345678", "max_tokens=12345678 and tokens: 12345678"),
        ("run 01KE70EHG0VZKSG17QCFVTE67F at 12:00:00", "run 01KE70EHG0VZKSG17QCFVTE67F at 12:00:00"),
        ("http://127.0.0.1:8787/api/messages", "http://127.0.0.1:8787/api/messages"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


def logged(
    capsys: pytest.CaptureFixture[str], write: Any, *, level: str = "info", secrets: tuple[str, ...] = ()
) -> str:
    set_up_logging(level, known_secrets=secrets)
    write(logging.getLogger("moab.test"))
    return capsys.readouterr().err


def test_a_line_has_time_level_sentence_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    line = logged(capsys, lambda log: log.info("It is %s.", "done", extra={"run": "R1", "action": "end", "other": "x"}))
    assert "It is done." in line and "info" in line and "R1" in line and "end" in line and "other" not in line
    assert line.count("\n") == 1


def test_known_secrets_are_hidden_wherever_they_stand(capsys: pytest.CaptureFixture[str]) -> None:
    line = logged(
        capsys, lambda log: log.warning("It is %r.", ["tiny"], extra={"session": "my tiny secret"}), secrets=("tiny",)
    )
    assert "tiny" not in line and line.count("***") == 2


def test_secrets_in_an_exception_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    def write(log: logging.Logger) -> None:
        try:
            raise ValueError(f"no answer from https://api.telegram.org/bot{TOKEN}/getMe, key hunter2")
        except ValueError:
            log.exception("It failed.")

    text = logged(capsys, write, secrets=("hunter2",))
    assert "Traceback" in text and "ValueError" in text and "AAH-a-secret" not in text and "hunter2" not in text


def test_secrets_of_a_chained_exception_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    def write(log: logging.Logger) -> None:
        try:
            try:
                raise KeyError("Authorization: Bearer abcdefghijkl")
            except KeyError as error:
                raise ValueError("outer") from error
        except ValueError:
            log.exception("It failed.")

    text = logged(capsys, write)
    assert "outer" in text and "KeyError" in text and "abcdefghijkl" not in text


@pytest.mark.parametrize(("level", "lines"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_the_level_is_heard(capsys: pytest.CaptureFixture[str], level: str, lines: int) -> None:
    def write(log: logging.Logger) -> None:
        log.debug("d")
        log.info("i")
        log.warning("w")

    assert logged(capsys, write, level=level).count("\n") == lines


# TRAPS, Life and death: "httpx logs the bot token in URLs -> redaction in logs, errors, traces and step results".
def test_talkative_libraries_are_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """httpx writes the address of every request, and with it the bot's token."""
    set_up_logging("info")
    for name in QUIET:
        logging.getLogger(name).info("HTTP Request: POST https://api.telegram.org/bot%s/x", TOKEN)
    assert capsys.readouterr().err == ""


def test_setting_it_up_again_does_not_write_twice(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info")
    assert logged(capsys, lambda log: log.info("once")).count("once") == 1
