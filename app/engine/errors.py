"""Every error of the engine, in one small tree; the docstring is the default sentence."""


class EngineError(Exception):
    """The engine could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class EngineLocked(EngineError):
    """The engine's file is already open in another process."""


class AddressTaken(EngineError):
    """The address to listen on cannot be had."""


class EngineStopped(EngineError):
    """The engine is not running; start it first."""


class StoreFailed(EngineError):
    """The engine's file could not be written; the engine takes no more work until it is restarted."""


class BadEvent(EngineError):
    """An event has a form that is not accepted."""


class BadRequest(EngineError):
    """A request has a form that is not accepted."""


class BadExpression(EngineError):
    """An expression has a form that is not accepted."""


class BadCron(EngineError):
    """A cron schedule has a form that is not accepted."""


class BadFunction(EngineError):
    """A function's configuration has a form that is not accepted."""


class SyncFailed(EngineError):
    """An app could not be registered."""


class Unauthorized(EngineError):
    """The key that this needs is missing or wrong."""


class UnknownRun(EngineError):
    """There is no such run."""


class UnknownFunction(EngineError):
    """There is no such function."""


class UnknownStep(EngineError):
    """The run has no such step."""


class UnknownEvent(EngineError):
    """There is no such event."""


class TransportFailed(EngineError):
    """An app did not answer; the call is made again later."""


class Unreachable(TransportFailed):
    """Nothing of the call reached the app."""
