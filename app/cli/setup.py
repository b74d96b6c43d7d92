"""`moab setup`: leads through setting a platform up, checks what is given, and keeps it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from dotenv import dotenv_values, set_key

from app.cli.service import read_settings
from app.errors import ConfigError

if TYPE_CHECKING:
    from app.config import Settings


def setup(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A platform such as telegram or slack, or voice.")],
    model: Annotated[str, typer.Option(help="With voice: the model that hears, such as small.")] = "",
) -> None:
    """Set a platform up, step by step; or what hears voice messages."""
    from app.platforms import set_up

    if name == "voice":
        from app.cli.voice import set_up_voice

        asyncio.run(set_up_voice(TerminalDesk(), model))
        return
    asyncio.run(set_up(name)(TerminalDesk()))


class TerminalDesk:
    """A person at this terminal. Implements `Desk`."""

    def __init__(self) -> None:
        self._kept: dict[str, str | None] = {}

    @property
    def settings(self) -> "Settings":
        return read_settings(**self._kept)  # the environment still has what held before

    def say(self, text: str) -> None:
        typer.echo(text)

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str:
        answer = await asyncio.to_thread(
            typer.prompt, question, default=default, hide_input=secret, show_default=bool(default)
        )
        return str(answer).strip()

    def keep(self, **settings: str) -> None:
        keep_in(self.settings.home / ".env", {name.upper(): value for name, value in settings.items()})
        self._kept |= {name: value or None for name, value in settings.items()}


def keep_in(file: Path, values: Mapping[str, str]) -> None:
    """Write variables into `file`, readable for its owner only.

    Raises ConfigError for one that `.env` here names too: that one would go before.
    """
    here = Path(".env")
    if here.resolve() != file.resolve() and here.exists() and (twice := values.keys() & dotenv_values(here).keys()):
        named = ", ".join(sorted(twice))
        raise ConfigError(f"{named}: {here.resolve()} has it already and goes before; change it there.")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.chmod(0o600)
    for name, value in values.items():
        set_key(file, name, value)
