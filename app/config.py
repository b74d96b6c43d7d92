"""Settings: one frozen typed object, read once from the environment and `.env`; the only place that reads them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dotenv import load_dotenv
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.errors import ConfigError

LOCAL_MODEL = "local/smollm2-135m-instruct"

MODEL_FOR_KEY = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-6",
    "OPENAI_API_KEY": "openai/gpt-5.4",
    "GEMINI_API_KEY": "gemini/gemini-pro-latest",
    "MISTRAL_API_KEY": "mistral/mistral-large-latest",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
}
"""The model used when AGENT_MODEL is empty and a provider's key is there; the first key found wins."""


def _names(value: Any) -> Any:
    """`a, b` or `a b` as a tuple of names; an empty text is no names."""
    if isinstance(value, str):
        return tuple(part for part in value.replace(",", " ").split() if part)
    return value


class Settings(BaseSettings):
    """What an operator decides. Variable names are the field names in capitals; `.env.example` documents each."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        env_ignore_empty=True,
        populate_by_name=True,
    )

    agent_name: str = "Moab"
    agent_model: str = ""
    fallback_agent_model: str = ""
    agent_workspace: Path | None = None
    agent_max_iterations: Annotated[int, Field(ge=1, le=200)] = 20
    agent_api_base: str = ""
    model_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    heartbeat_cron: str = "*/30 * * * *"
    timezone: str = "UTC"

    moab_home: Path = Path("~/.moab")
    database_url: str = ""
    host: str = Field(default="127.0.0.1", validation_alias="moab_host")
    port: int = Field(default=8787, ge=0, le=65535, validation_alias="moab_port")
    api_token: SecretStr | None = Field(default=None, validation_alias="moab_api_token")
    log_level: str = "info"

    telegram_bot_token: SecretStr | None = None
    telegram_webhook_secret: SecretStr | None = None
    telegram_allowed_chats: Annotated[tuple[str, ...], NoDecode] = ()
    telegram_api_base_url: str = "https://api.telegram.org"

    slack_bot_token: SecretStr | None = None
    slack_signing_secret: SecretStr | None = None

    inngest_dev: str = ""
    inngest_event_key: SecretStr | None = None
    inngest_signing_key: SecretStr | None = None
    inngest_base_url: str = ""
    inngest_serve_origin: str = ""

    web_fetch_allow_private: bool = False
    failpoint: str = Field(default="", validation_alias="moab_failpoint")

    _split = field_validator("telegram_allowed_chats", mode="before")(_names)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{value!r} is not a time zone; accepted: a name such as Europe/Paris") from error
        return value

    @property
    def home(self) -> Path:
        """The data folder, absolute."""
        return self.moab_home.expanduser().resolve()

    @property
    def workspace(self) -> Path:
        """The folder of files that people and the agent edit, absolute."""
        return (self.agent_workspace or self.home / "workspace").expanduser().resolve()

    @property
    def database(self) -> str:
        """URL of the app database: sqlite:///path or postgresql://user@host/name."""
        return self.database_url or f"sqlite:///{self.home / 'moab.db'}"

    @property
    def model(self) -> str:
        """The model that answers: AGENT_MODEL, else the first provider with a key, else the local one."""
        return self.agent_model or _model_for_keys(os.environ) or LOCAL_MODEL

    @property
    def is_local_model(self) -> bool:
        return self.model == LOCAL_MODEL

    def secrets(self) -> tuple[str, ...]:
        """Values that must never be printed."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return tuple(v.get_secret_value() for v in values if isinstance(v, SecretStr) and v.get_secret_value())

    @property
    def telegram_bot_id(self) -> str:
        """The number before the colon of the bot token: who the bot is, not a secret."""
        return self.telegram_bot_token.get_secret_value().partition(":")[0] if self.telegram_bot_token else ""


MODEL_CLIENT_VARIABLES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks the network for prices, again and again
    "LITELLM_MODE": "PRODUCTION",  # else the import reads .env on its own
    "MAX_BASE64_LENGTH_FOR_LOGGING": "0",  # else each call copies the whole history for logs that nobody keeps
    "HF_HUB_OFFLINE": "1",  # else counting tokens of some models waits for a model hub
}


CHILD_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ")


def child_environment() -> dict[str, str]:
    """What commands of the agent inherit: enough to work, none of the service's keys."""
    return {name: os.environ[name] for name in CHILD_VARIABLES if name in os.environ}


def bench_environment() -> dict[str, str]:
    """What the processes of a benchmark inherit: nothing of this service's settings."""
    return child_environment() | {"PYTHONUNBUFFERED": "1"}


def _model_for_keys(environ: Mapping[str, str]) -> str:
    return next((model for key, model in MODEL_FOR_KEY.items() if environ.get(key)), "")


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment, `.env` here and `.env` in MOAB_HOME, in this order of precedence.

    Files are also put into the environment, because provider keys in them are read by the model client itself.
    Raises ConfigError with one line per variable that has a form not accepted.
    """
    load_dotenv(Path(".env"), override=False)
    load_dotenv(Path(os.environ.get("MOAB_HOME") or "~/.moab").expanduser() / ".env", override=False)
    for name, value in MODEL_CLIENT_VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        return Settings(**overrides)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc'])).upper()}: {e['msg']} (got {_shown(e)})" for e in error.errors()]
        raise ConfigError("These settings have a form that is not accepted:\n" + "\n".join(faults)) from error


def _shown(fault: Any) -> str:
    name = "".join(map(str, fault["loc"])).lower()
    secret = any(word in name for word in ("token", "secret", "key", "url"))
    return "a value that is not shown" if secret else repr(fault["input"])
