"""Settings: one frozen typed object, read once from the environment and `.env`; the only place that reads them."""

import os
import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from dotenv import load_dotenv
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from app.errors import ConfigError, fault_of

LOCAL_MODEL = "local/smollm2-135m-instruct"

MODEL_FOR_KEY = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-6",
    "OPENAI_API_KEY": "openai/gpt-5.4",
    "GEMINI_API_KEY": "gemini/gemini-pro-latest",
    "MISTRAL_API_KEY": "mistral/mistral-large-latest",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
}
"""The model used when AGENT_MODEL is empty and a provider's key is there; the first key found wins."""

DECISIONS = ("allow", "ask", "deny")
LOG_LEVELS = ("debug", "info", "warning", "error")
_LOGIN = re.compile(r"://[^/:@\s]*:([^/@\s]+)@")


def _names(value: Any) -> Any:
    """`a, b` or `a b` as a tuple of names; an empty text is no names."""
    if isinstance(value, str):
        return tuple(part for part in value.replace(",", " ").split() if part)
    return value


def _decisions(value: Any) -> Any:
    """`bash=allow, write=ask` as pairs. Raises ValueError naming the entry that is none."""
    pairs = [entry.partition("=") for entry in _names(value)] if isinstance(value, str) else None
    if pairs is None:
        return value
    for tool, _, decision in pairs:
        if not re.fullmatch(r"\*|[\w.-]+", tool) or decision not in DECISIONS:
            form = "tool=decision, such as bash=allow,write=ask,*=deny, with the decisions allow, ask and deny"
            raise ValueError(f"{tool}={decision} is not understood; accepted: {form}")
    return tuple((tool, decision) for tool, _, decision in pairs)


def _duration(value: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,4})([mh])", value.strip())
    return timedelta(minutes=int(found[1]) * (60 if found[2] == "h" else 1)) if found else timedelta()


def _hours(value: str) -> tuple[time, time] | None:
    """`23:00-06:00` as two times, `off` as none. Raises ValueError."""
    if value.strip().lower() == "off":
        return None
    begin, end = (time.fromisoformat(part.strip()) for part in value.split("-"))
    return begin, end


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
    subagent_model: str = ""
    summary_model: str = ""
    vision_models: Annotated[tuple[str, ...], NoDecode] = ()
    agent_workspace: Path | None = None
    agent_max_iterations: Annotated[int, Field(ge=1, le=200)] = 20
    agent_api_base: str = ""
    model_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    model_stream: bool = True
    context_tokens: Annotated[int, Field(ge=0)] = 0
    budget_turn_tokens: Annotated[int, Field(ge=0)] = 2_000_000
    budget_turn_usd: Annotated[float, Field(ge=0)] = 5.0
    budget_session_tokens: Annotated[int, Field(ge=0)] = 0
    budget_session_usd: Annotated[float, Field(ge=0)] = 0.0
    budget_day_tokens: Annotated[int, Field(ge=0)] = 0
    budget_day_usd: Annotated[float, Field(ge=0)] = 50.0
    tool_policy: Annotated[tuple[tuple[str, str], ...], NoDecode] = ()
    sandbox: Literal["none", "bwrap"] = "none"
    sandbox_network: bool = False
    sandbox_read: Annotated[tuple[str, ...], NoDecode] = ()
    approval_admins: Annotated[tuple[str, ...], NoDecode] = ()
    approval_expires: str = "12h"
    heartbeat_cron: str = ""
    timezone: str = "UTC"
    device_folders: Annotated[tuple[Path, ...], NoDecode] = ()
    delivery_folder: Path | None = None
    quiet_hours: str = "23:00-06:00"
    wake_chain: Annotated[int, Field(ge=0, le=100)] = 0

    moab_home: Path = Path("~/.moab")
    database_url: str = Field(default="", repr=False)
    host: str = Field(default="127.0.0.1", validation_alias="moab_host")
    port: int = Field(default=8787, ge=0, le=65535, validation_alias="moab_port")
    api_token: SecretStr | None = Field(default=None, validation_alias="moab_api_token")
    log_level: str = "info"

    whisper_model: str = ""
    whisper_language: str = ""
    whisper_device: Literal["auto", "cpu", "cuda"] = "auto"
    whisper_compute_type: str = "int8"
    piper_voice: str = ""

    telegram_bot_token: SecretStr | None = None
    telegram_webhook_secret: SecretStr | None = None
    telegram_allowed_chats: Annotated[tuple[str, ...], NoDecode] = ()
    telegram_api_base_url: str = "https://api.telegram.org"

    slack_bot_token: SecretStr | None = None
    slack_app_token: SecretStr | None = None
    slack_signing_secret: SecretStr | None = None
    slack_allowed: Annotated[tuple[str, ...], NoDecode] = ()
    slack_api_base_url: str = "https://slack.com/api"

    generic_secret: SecretStr | None = None
    generic_callback_url: str = ""
    generic_allowed: Annotated[tuple[str, ...], NoDecode] = ()

    inngest_dev: str = ""
    inngest_event_key: SecretStr | None = None
    inngest_signing_key: SecretStr | None = None
    inngest_base_url: str = ""
    inngest_serve_origin: str = ""

    preview_answers: bool = True
    attachment_max_mb: Annotated[int, Field(ge=1, le=2000)] = 20
    web_fetch_allow_private: bool = False
    failpoint: str = Field(default="", validation_alias="moab_failpoint")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """A field's own name is for code alone: HOST and PORT are set by shells and platforms for their own ends."""
        for source in (env_settings, dotenv_settings):
            source.config = SettingsConfigDict(**source.config | {"populate_by_name": False})
        return init_settings, env_settings, dotenv_settings

    _split = field_validator(
        *(
            "telegram_allowed_chats",
            "slack_allowed",
            "generic_allowed",
            "approval_admins",
            "vision_models",
            "sandbox_read",
        ),
        mode="before",
    )(_names)
    _pairs = field_validator("tool_policy", mode="before")(_decisions)

    @field_validator("device_folders", mode="before")
    @classmethod
    def _folders(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("device_folders", "delivery_folder")
    @classmethod
    def _absolute(cls, value: Any) -> Any:
        folders = [folder.expanduser() for folder in (value if isinstance(value, tuple) else (value,)) if folder]
        wrong = [folder for folder in folders if not folder.is_absolute()]
        if wrong:
            raise ValueError(f"{str(wrong[0])!r} is not accepted: whole paths, such as /srv/sync or ~/Sync")
        return tuple(folders) if isinstance(value, tuple) else next(iter(folders), None)

    @field_validator("approval_admins")
    @classmethod
    def _people(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in value if not re.fullmatch(r"[a-z]+:\S+", name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is nobody; accepted: channel:id, such as telegram:4711")
        return value

    @field_validator("approval_expires")
    @classmethod
    def _lifetime(cls, value: str) -> str:
        if not timedelta(minutes=1) <= _duration(value) <= timedelta(hours=24):
            raise ValueError(f"{value!r} is not accepted: from 1m to 24h, such as 30m or 12h")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is not a time zone; accepted: a name such as Europe/Paris") from error
        return value

    @field_validator("quiet_hours")
    @classmethod
    def _night(cls, value: str) -> str:
        try:
            _hours(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is not accepted: from-to such as 23:00-06:00, or off") from error
        return value

    @field_validator("heartbeat_cron")
    @classmethod
    def _cron_of_five_fields(cls, value: str) -> str:
        if not value.strip():
            return ""
        fields = value.split()
        try:
            if len(fields) != 5 or "7" in fields[4]:
                raise CronSimError("five fields, weekdays from 0 (Sunday) to 6")
            if re.search(r"[a-z#]", fields[2].lower()) or re.search(r"#|[0-9]l", fields[4].lower()):
                raise CronSimError("no last days and no counted weekdays")  # no engine knows them
            CronSim(value.replace("?", "*"), datetime(2026, 1, 1))
        except CronSimError as error:
            form = "minute hour day month weekday, such as */30 * * * *, with weekdays from 0 (Sunday) to 6"
            raise ValueError(f"{value!r} is not a schedule ({error}); accepted: {form}") from error
        return value

    @field_validator("whisper_language")
    @classmethod
    def _code_of_language(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z]{2,3}|", value.lower()):
            raise ValueError(f"{value!r} is not a language; accepted: a code such as en or fr")
        return value.lower()

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.lower() not in LOG_LEVELS:
            raise ValueError(f"{value!r} is not a level; accepted: {', '.join(LOG_LEVELS)}")
        return value.lower()

    @property
    def home(self) -> Path:
        """The data folder, absolute."""
        return self.moab_home.expanduser().resolve()

    @property
    def workspace(self) -> Path:
        """The folder of files that people and the agent edit, absolute."""
        return (self.agent_workspace or self.home / "workspace").expanduser().resolve()

    @property
    def speech_models(self) -> Path:
        """The folder of speech models that were fetched, absolute."""
        return self.home / "speech-models"

    @property
    def database(self) -> str:
        """URL of the app database: sqlite:///path or postgresql://user@host/name."""
        return self.database_url or f"sqlite:///{self.home / 'moab.db'}"

    @property
    def model(self) -> str:
        """The model that answers: AGENT_MODEL, else the first provider with a key, else the local one."""
        return self.agent_model or _model_for_keys(os.environ) or LOCAL_MODEL

    @property
    def missing_key(self) -> str:
        """The variable that the model's provider wants and that is not set; "" if none is known to be missing."""
        keys = [key for key, model in MODEL_FOR_KEY.items() if model.split("/")[0] == self.model.split("/")[0]]
        also = ["GOOGLE_API_KEY"] if keys == ["GEMINI_API_KEY"] else []
        return "" if any(os.environ.get(key) for key in keys + also) else "".join(keys)

    @property
    def is_local_model(self) -> bool:
        return self.model == LOCAL_MODEL

    @property
    def allow_lists(self) -> Mapping[str, tuple[str, ...]]:
        """The channels that strangers can reach, and whom the settings let in there: ids of people and chats, or *.

        A channel that is not here keeps its own door.
        """
        return {
            "telegram": self.telegram_allowed_chats,
            "slack": self.slack_allowed,
            "generic": self.generic_allowed,
        }

    @property
    def attachment_bytes(self) -> int:
        """How large a file that comes with a message may be."""
        return self.attachment_max_mb * 2**20

    @property
    def beat_cron(self) -> str:
        """When the heart beats: HEARTBEAT_CRON, else every minute; on Inngest's cloud, which counts runs, every 30."""
        counted = self.inngest_event_key is not None and not self.inngest_dev and not self.inngest_base_url
        return self.heartbeat_cron or ("*/30 * * * *" if counted else "* * * * *")

    @property
    def quiet(self) -> tuple[time, time] | None:
        """Begin and end of the hours in which nothing is told unless it is critical; None: there are none."""
        return _hours(self.quiet_hours)

    @property
    def approval_lifetime(self) -> timedelta:
        """How long a request waits for its decision."""
        return _duration(self.approval_expires)

    def secrets(self) -> tuple[str, ...]:
        """Values that must never be printed: keys, tokens, and passwords in addresses."""
        values = [getattr(self, name) for name in type(self).model_fields]
        keys = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        passwords = [
            unquote(found[1]) for value in values if isinstance(value, str) and (found := _LOGIN.search(value))
        ]
        return tuple(secret for secret in keys + passwords if secret)

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
CARD_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


def child_environment(*more: str) -> dict[str, str]:
    """What commands of the agent inherit: enough to work, none of the service's keys."""
    return {name: os.environ[name] for name in (*CHILD_VARIABLES, *more) if name in os.environ}


def speech_environment() -> dict[str, str]:
    """What the process that hears inherits: what a graphics card may need, no keys, and no network for models."""
    return child_environment(*CARD_VARIABLES) | {"HF_HUB_OFFLINE": "1"}


def download_environment() -> dict[str, str]:
    """What a process that fetches something for an operator inherits: all but the word to stay off the network."""
    return {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}


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
        faults = [f"{'.'.join(map(str, e['loc'])).upper()}: {fault_of(e)} (got {_shown(e)})" for e in error.errors()]
        # Not `from error`: that one shows what was given, also where it is a secret.
        raise ConfigError("These settings have a form that is not accepted:\n" + "\n".join(faults)) from None


def _shown(fault: Any) -> str:
    name = "".join(map(str, fault["loc"])).lower()
    secret = any(word in name for word in ("token", "secret", "key", "url"))
    return "a value that is not shown" if secret else repr(fault["input"])
