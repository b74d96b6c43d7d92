"""Logging: a sentence for people plus fields for machines, and no secret in either."""

import logging
import re
import sys
from typing import Any

import structlog

SECRETS = (
    re.compile(r"((?:\bbot|\b)\d{5,}:)[\w-]{20,}"),
    re.compile(r"\b(sk-|xox[abprs]-|gsk_|gh[pousr]_|AIza|signkey-)[\w-]{8,}"),
    re.compile(
        r"""((?:authorization|api[_-]?key|token|secret|password)["']?\s*[:=,]\s*b?["']?(?:(?:bearer|basic|token)\s+)?)
        [^\s"',;&)}\]]{8,}""",
        re.IGNORECASE | re.VERBOSE,
    ),
    re.compile(r"(/e/)[\w-]{8,}"),
    re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
)
QUIET = ("httpx", "httpx2", "httpcore", "inngest", "LiteLLM", "litellm", "alembic", "sqlalchemy", "uvicorn")


def redacted(text: str) -> str:
    """`text` with tokens and keys replaced by stars."""
    for pattern in SECRETS:
        text = pattern.sub(r"\1***", text)
    return text


def _redact(_logger: Any, _method: str, event: Any) -> Any:
    return {key: redacted(value) if isinstance(value, str) else value for key, value in event.items()}


def set_up_logging(level: str, *, known_secrets: tuple[str, ...] = ()) -> None:
    """One line per record on stderr. `known_secrets` are replaced wherever they would appear."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(allow=("run", "session", "step", "action")),
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.processors.format_exc_info,
        _redact,
        _hide(known_secrets),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _hide(known: tuple[str, ...]) -> Any:
    def hide(_logger: Any, _method: str, event: Any) -> Any:
        def cleaned(value: Any) -> Any:
            if isinstance(value, str):
                for secret in known:
                    value = value.replace(secret, "***")
            return value

        return {key: cleaned(value) for key, value in event.items()}

    return hide
