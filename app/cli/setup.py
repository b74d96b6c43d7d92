"""`moab setup`: leads through setting a platform up, checks what is given, and keeps it."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.service import read_settings

if TYPE_CHECKING:
    from app.config import Settings


def setup(name: Annotated[str, typer.Argument(metavar="PLATFORM", help="Such as telegram or slack.")]) -> None:
    """Set a platform up, step by step."""
    from app.platforms import set_up

    asyncio.run(set_up(name)(TerminalDesk()))


class TerminalDesk:
    """A person at this terminal. Implements `Desk`."""

    @property
    def settings(self) -> "Settings":
        return read_settings()

    def say(self, text: str) -> None:
        typer.echo(text)

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str:
        answer = await asyncio.to_thread(
            typer.prompt, question, default=default, hide_input=secret, show_default=bool(default)
        )
        return str(answer).strip()

    def keep(self, **settings: str) -> None:
        from app.config import keep_settings

        keep_settings(self.settings.home / ".env", {name.upper(): value for name, value in settings.items()})
