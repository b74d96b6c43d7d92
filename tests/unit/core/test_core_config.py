"""Settings: every variable by its name, a fault named with what is accepted, no secret shown."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.cli.setup import TerminalDesk, keep_in
from app.config import LOCAL_MODEL, MODEL_FOR_KEY, Settings, child_environment, load_settings
from app.errors import ConfigError

TOKEN = "123456789:AAH-a-secret-token-of-a-bot-0123456789"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """An environment that holds nothing but a home; the current folder is empty."""
    home = tmp_path / "home"
    home.mkdir()
    here = tmp_path / "here"
    here.mkdir()
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    monkeypatch.setattr(os, "environ", environ)
    monkeypatch.chdir(here)
    yield environ


def complaint(**given: Any) -> str:
    with pytest.raises(ConfigError) as found:
        load_settings(**given)
    assert found.value.__cause__ is None, "the cause shows what was given"
    return str(found.value)


def test_without_anything_there_are_defaults(environment: dict[str, str]) -> None:
    settings = load_settings()
    assert (settings.agent_name, settings.host, settings.port, settings.agent_max_iterations) == (
        "Moab",
        "127.0.0.1",
        8787,
        20,
    )
    assert settings.home == Path(environment["HOME"]) / ".moab"
    assert settings.workspace == settings.home / "workspace"
    assert settings.database == f"sqlite:///{settings.home}/moab.db"
    assert settings.telegram_allowed_chats == () and settings.secrets() == ()


def test_variables_have_the_names_of_the_documentation(environment: dict[str, str], tmp_path: Path) -> None:
    environment |= {
        "AGENT_NAME": "Ada",
        "AGENT_WORKSPACE": str(tmp_path / "w"),
        "AGENT_MAX_ITERATIONS": "7",
        "MOAB_HOME": str(tmp_path / "data"),
        "MOAB_HOST": "0.0.0.0",
        "MOAB_PORT": "9000",
        "MOAB_API_TOKEN": "a-token-for-the-api",
        "LOG_LEVEL": "WARNING",
        "WEB_FETCH_ALLOW_PRIVATE": "true",
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "DATABASE_URL": "postgresql://u:p@db/moab",
    }
    settings = load_settings()
    assert (settings.agent_name, settings.host, settings.port, settings.log_level) == (
        "Ada",
        "0.0.0.0",
        9000,
        "warning",
    )
    assert settings.home == tmp_path / "data" and settings.workspace == tmp_path / "w"
    assert settings.agent_max_iterations == 7 and settings.web_fetch_allow_private
    assert settings.database == "postgresql://u:p@db/moab" and settings.telegram_bot_id == "123456789"


@pytest.mark.parametrize("name", ["HOST", "PORT", "API_TOKEN", "FAILPOINT"])
def test_names_that_belong_to_others_are_not_read(environment: dict[str, str], name: str) -> None:
    """HOST and PORT are set by shells and platforms for other reasons."""
    environment[name] = "12345"
    settings = load_settings()
    assert (settings.host, settings.port, settings.api_token, settings.failpoint) == ("127.0.0.1", 8787, None, "")


@pytest.mark.parametrize("text", ["1, 2 3", "1,2,3", " 1 2  3 ", "1\n2\n3"])
def test_lists_are_written_as_people_do(environment: dict[str, str], text: str) -> None:
    environment["TELEGRAM_ALLOWED_CHATS"] = text
    assert load_settings().telegram_allowed_chats == ("1", "2", "3")


@pytest.mark.parametrize(("text", "chats"), [("", ()), ("*", ("*",)), ("-100123", ("-100123",))])
def test_lists_of_few(environment: dict[str, str], text: str, chats: tuple[str, ...]) -> None:
    environment["TELEGRAM_ALLOWED_CHATS"] = text
    assert load_settings().telegram_allowed_chats == chats


def test_an_empty_variable_is_as_good_as_none(environment: dict[str, str]) -> None:
    environment |= {"AGENT_MODEL": "", "MOAB_PORT": "", "TELEGRAM_BOT_TOKEN": "", "MODEL_TIMEOUT_S": ""}
    settings = load_settings()
    assert (settings.agent_model, settings.port, settings.telegram_bot_token) == ("", 8787, None)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MOAB_PORT", "http", "MOAB_PORT: Input should be a valid integer"),
        ("MOAB_PORT", "70000", "less than or equal to 65535 (got '70000')"),
        ("AGENT_MAX_ITERATIONS", "0", "AGENT_MAX_ITERATIONS: Input should be greater than or equal to 1"),
        ("MODEL_TIMEOUT_S", "0", "MODEL_TIMEOUT_S: Input should be greater than 0"),
        ("WEB_FETCH_ALLOW_PRIVATE", "perhaps", "WEB_FETCH_ALLOW_PRIVATE: Input should be a valid boolean"),
        ("TIMEZONE", "Mars/Base", "TIMEZONE: 'Mars/Base' is not a time zone; accepted: a name such as"),
        ("TIMEZONE", "Europe", "'Europe' is not a time zone"),
        ("TIMEZONE", "../../etc/passwd", "is not a time zone"),
        ("HEARTBEAT_CRON", "often", "HEARTBEAT_CRON: 'often' is not a schedule"),
        ("HEARTBEAT_CRON", "@daily", "accepted: minute hour day month weekday"),
        ("HEARTBEAT_CRON", "0 0 * * * *", "is not a schedule"),
        ("HEARTBEAT_CRON", "61 * * * *", "is not a schedule"),
        ("HEARTBEAT_CRON", "0 9 * * 7", "weekdays from 0 (Sunday) to 6"),
        ("HEARTBEAT_CRON", "0 9 L * *", "no last days and no counted weekdays"),
        ("HEARTBEAT_CRON", "0 9 * * 1#2", "no last days and no counted weekdays"),
        ("HEARTBEAT_CRON", "0 9 * * 5L", "no last days and no counted weekdays"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL: 'loud' is not a level; accepted: debug, info, warning, error"),
    ],
)
def test_a_fault_names_the_variable_and_what_is_accepted(
    environment: dict[str, str], name: str, value: str, said: str
) -> None:
    environment[name] = value
    assert said in complaint()


def test_all_faults_are_told_at_once(environment: dict[str, str]) -> None:
    environment |= {"MOAB_PORT": "x", "TIMEZONE": "y", "LOG_LEVEL": "z"}
    lines = complaint().splitlines()
    assert len(lines) == 4 and lines[0].endswith("not accepted:")


@pytest.mark.parametrize("cron", ["*/30 * * * *", "5 4 * * 0-6", "0 9 ? * 1", "0 0 1 JUL *", "0 9 * * WED"])
def test_schedules_that_are_accepted(environment: dict[str, str], cron: str) -> None:
    environment["HEARTBEAT_CRON"] = cron
    assert load_settings().heartbeat_cron == cron


SECRET = {
    "telegram_bot_token": TOKEN,
    "telegram_webhook_secret": "hook-secret-1",
    "slack_bot_token": "xoxb-secret-2",
    "slack_signing_secret": "sign-secret-3",
    "api_token": "api-secret-4",
    "inngest_event_key": "event-secret-5",
    "inngest_signing_key": "signkey-secret-6",
    "database_url": "postgresql://moab:p%40ss-secret-7@db/moab",
}


def test_secrets_are_shown_nowhere() -> None:
    settings = Settings(**SECRET)
    shown = f"{settings!r} {settings} {settings.telegram_bot_token!r}"
    assert not [value for value in SECRET.values() if value in shown] and "secret-7" not in shown
    assert set(settings.secrets()) == {*list(SECRET.values())[:7], "p@ss-secret-7"}


def test_secrets_are_not_shown_in_a_complaint() -> None:
    text = complaint(telegram_bot_token=987654321, api_token=["a-secret-list"], port="x")
    assert "987654321" not in text and "a-secret-list" not in text
    assert "TELEGRAM_BOT_TOKEN: Input should be a valid string (got a value that is not shown)" in text


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        load_settings().agent_name = "other"  # type: ignore[misc]


def test_the_first_provider_with_a_key_answers(environment: dict[str, str]) -> None:
    assert load_settings().model == LOCAL_MODEL and load_settings().is_local_model
    for key in reversed(MODEL_FOR_KEY):
        environment[key] = "sk-x"
        assert load_settings().model == MODEL_FOR_KEY[key] and not load_settings().is_local_model
    environment["AGENT_MODEL"] = "mine/own"
    assert load_settings().model == "mine/own"


def test_an_empty_key_is_no_key(environment: dict[str, str]) -> None:
    environment["OPENAI_API_KEY"] = ""
    assert load_settings().is_local_model


def test_the_environment_wins_over_the_file_here_and_that_over_the_one_at_home(environment: dict[str, str]) -> None:
    home = Path(environment["HOME"]) / ".moab"
    home.mkdir()
    (home / ".env").write_text("AGENT_NAME=home\nAGENT_MODEL=home/model\nMOAB_PORT=1\nMISTRAL_API_KEY=from-home\n")
    Path(".env").write_text("AGENT_NAME=here\nAGENT_MODEL=here/model\n")
    environment["AGENT_NAME"] = "environment"
    settings = load_settings()
    assert (settings.agent_name, settings.agent_model, settings.port) == ("environment", "here/model", 1)
    assert environment["MISTRAL_API_KEY"] == "from-home", "the model client reads the keys of providers itself"


def test_the_file_here_may_say_where_home_is(environment: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    home.mkdir()
    (home / ".env").write_text("AGENT_NAME=elsewhere\n")
    Path(".env").write_text(f"MOAB_HOME={home}\n")
    settings = load_settings()
    assert (settings.home, settings.agent_name) == (home, "elsewhere")


def test_what_is_given_wins_over_all(environment: dict[str, str]) -> None:
    environment["MOAB_PORT"] = "9000"
    assert load_settings(port=1234).port == 1234


def test_commands_of_the_agent_inherit_no_key(environment: dict[str, str]) -> None:
    environment |= {"OPENAI_API_KEY": "sk-x", "TELEGRAM_BOT_TOKEN": TOKEN, "LANG": "C.UTF-8", "LD_PRELOAD": "x.so"}
    assert set(child_environment()) == {"HOME", "PATH", "LANG"}


def test_kept_settings_hold_at_once_and_after_a_restart(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "home" / ".moab" / ".env"
    environment["TELEGRAM_BOT_TOKEN"] = "old"
    desk = TerminalDesk()
    desk.keep(telegram_bot_token=TOKEN, agent_name='Ada\'s # "one"', telegram_webhook_secret="")
    assert desk.settings.telegram_bot_id == "123456789" and desk.settings.telegram_webhook_secret is None
    del environment["TELEGRAM_BOT_TOKEN"]
    assert load_settings().agent_name == 'Ada\'s # "one"' and load_settings().telegram_bot_id == "123456789"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_setting_is_not_kept_where_another_file_goes_before(environment: dict[str, str], tmp_path: Path) -> None:
    Path(".env").write_text("AGENT_NAME=Eve\n")
    with pytest.raises(ConfigError, match=r"AGENT_NAME: .* goes before"):
        keep_in(tmp_path / ".env", {"AGENT_NAME": "Ada"})
    assert not (tmp_path / ".env").exists()


@pytest.mark.parametrize(
    ("given", "cron"),
    [
        ({}, "* * * * *"),
        ({"inngest_dev": "http://127.0.0.1:8288"}, "* * * * *"),
        ({"inngest_event_key": "e", "inngest_signing_key": "s"}, "*/30 * * * *"),
        ({"inngest_event_key": "e", "inngest_base_url": "http://inngest.example"}, "* * * * *"),
        ({"inngest_event_key": "e", "heartbeat_cron": "0 * * * *"}, "0 * * * *"),
    ],
)
def test_the_heart_beats_every_minute_but_where_runs_are_counted(given: dict[str, str], cron: str) -> None:
    assert Settings(_env_file=None, **given).beat_cron == cron  # type: ignore[arg-type]  # as the environment gives it
