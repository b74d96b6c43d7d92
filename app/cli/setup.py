"""`moab setup`: leads through setting a platform up, checks what is given, and keeps it."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.service import read_settings

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
