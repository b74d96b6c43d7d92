"""Every error of ours, in one small tree; the docstring is the default sentence."""

from collections.abc import Mapping
from typing import Any


class MoabError(Exception):
    """Moab could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(MoabError):
    """A setting has a form that is not accepted."""


class BadInput(MoabError):
    """The input has a form that is not accepted."""


class NotFound(MoabError):
    """There is no such thing."""


class OutsideWorkspace(MoabError):
    """The path leads outside the workspace."""


class ChannelError(MoabError):
    """A channel could not be used."""

    def __init__(self, message: str | None = None, status: int = 0, after_s: float | None = None) -> None:
        """`status` is the platform's HTTP status, 0 if it was not reached; `after_s` is how long it asks to wait."""
        super().__init__(message)
        self.status, self.after_s = status, after_s


class ServiceUnavailable(MoabError):
    """The service does not answer."""


def fault_of(found: Mapping[str, Any]) -> str:
    """What pydantic says is wrong with a field, without the kind of exception that said so."""
    return str(found["msg"]).removeprefix("Value error, ")
