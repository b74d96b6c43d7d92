"""The platforms: each is a file in webhooks/ (the way in) and one of the same name in app/channels/ (the way out).

Nothing else names them. A file in app/channels/ is loaded only where its platform has settings: parsers of markup are
heavy, and a service without Slack should not carry Slack's.
"""

import asyncio
import importlib
import logging
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

import webhooks
from app.channels.channel import Channel, SetUp
from app.config import Settings
from app.errors import NotFound
from webhooks.way_in import Door, WayIn

log = logging.getLogger("moab")

LISTEN_AGAIN_AFTER_S = 5.0


@dataclass(frozen=True)
class Platform:
    """A platform that has settings: its way in, still closed, and its channels (one, as a rule)."""

    name: str
    channels: tuple[Channel, ...]
    way_in: Callable[[Door], WayIn]


def names() -> tuple[str, ...]:
    """Every platform there is a way in for, with settings or without."""
    return tuple(name for name, _ in _ways())


def open_platforms(settings: Settings) -> list[Platform]:
    """The platforms that have settings, in the order of their names."""
    found = [(name, way) for name, way in _ways() if way.is_configured(settings)]
    return [Platform(name, tuple(_way_out(name).channels(settings)), way.way_in) for name, way in found]


def channels_of(platforms: list[Platform]) -> Mapping[str, Channel]:
    return {channel.name: channel for platform in platforms for channel in platform.channels}


def set_up(name: str) -> SetUp:
    """How a platform is set up with a person at a terminal. Raises NotFound with the names that are accepted."""
    able = {name: found for name in names() if (found := getattr(_way_out(name), "set_up", None)) is not None}
    if name not in able:
        raise NotFound(f"There is nothing to set up under the name {name}; accepted: {', '.join((*able, 'voice'))}.")
    chosen: SetUp = able[name]
    return chosen


def mapped() -> tuple[str, ...]:
    """The platforms whose payloads can be mapped elsewhere: those that say what `to_event` takes besides."""
    return tuple(name for name, way in _ways() if hasattr(way, "mapping_arguments"))


async def listen(name: str, way: Callable[[], Awaitable[None]]) -> None:
    """Run a way in that listens until it ends by itself; begin again after a pause when it breaks."""
    while True:
        try:
            return await way()
        except Exception:
            log.exception(
                "Listening to %s broke off; it begins again in %d seconds.",
                name,
                LISTEN_AGAIN_AFTER_S,
                extra={"action": "listen_again"},
            )
        await asyncio.sleep(LISTEN_AGAIN_AFTER_S)


def _ways() -> Iterator[tuple[str, ModuleType]]:
    for info in sorted(pkgutil.iter_modules(webhooks.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"webhooks.{info.name}")
        if hasattr(module, "is_configured"):
            yield info.name, module


def _way_out(name: str) -> ModuleType:
    return importlib.import_module(f"app.channels.{name}")
