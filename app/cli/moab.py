"""The `moab` command: every verb reads its arguments, calls one function and prints what came back."""

# Imports inside the verbs are for speed only: `moab --help` must not load what it does not need.

import asyncio
import gc
import importlib.metadata
import io
import logging
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.approvals import approvals
from app.cli.bench import bench
from app.cli.goals import goals, pipeline
from app.cli.learnings import learnings
from app.cli.people import deliveries, people
from app.cli.runs import runs
from app.cli.service import read_settings, the_service
from app.cli.setup import setup
from app.cli.state import state
from app.cli.tasks import tasks
from app.cli.transform import transform
from app.errors import ConfigError, MoabError

if TYPE_CHECKING:
    from app.config import Settings

app = typer.Typer(
    name="moab",
    help="A self-hosted AI agent that never loses work.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(runs)
app.add_typer(state)
app.add_typer(approvals, name="approvals")
app.add_typer(tasks, name="task")
app.add_typer(goals, name="goals")
app.add_typer(pipeline, name="pipeline")
app.add_typer(bench, name="bench")
app.add_typer(learnings, name="learnings")
app.add_typer(people, name="people")
app.command()(deliveries)
app.command()(setup)
app.command()(transform)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"moab {importlib.metadata.version('moab')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A self-hosted AI agent that never loses work."""


@app.command()
def chat(session: Annotated[str, typer.Option(help="Which conversation to open.")] = "default") -> None:
    """Talk to the agent here; starts a service in this process if none is running."""
    raise typer.Exit(asyncio.run(_chat(read_settings(), session)))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen.", show_default="MOAB_HOST or 127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="MOAB_PORT or 8787")] = None,
) -> None:
    """Run the service until it is told to stop."""
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    from app.cli.misspelt import warn_of_misspelt
    from app.main import serve as serve_until_told

    settings = read_settings(**given)
    warn_of_misspelt(settings.home)
    serve_until_told(settings)


@app.command()
def send(
    text: Annotated[str, typer.Argument(help="What to say; a command if it starts with a slash.")] = "",
    session: Annotated[str, typer.Option(help="To which conversation.")] = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer and print it.")] = False,
    file: Annotated[
        list[Path] | None, typer.Option("--file", help="A file that goes with it; may be given several times.")
    ] = None,
) -> None:
    """Send one message, or files, to the running service."""
    if not text.strip() and not file:
        raise typer.BadParameter("Say something, or give a --file.")
    raise typer.Exit(asyncio.run(_send(read_settings(), text, session, wait, file or [])))


@app.command()
def model(
    needs_local: Annotated[
        bool, typer.Option("--needs-local", hidden=True, help="Exit 0 if the local model is to be installed.")
    ] = False,
) -> None:
    """Say which model would answer, and why."""
    from app.cli.misspelt import warn_of_misspelt
    from app.local_model import LocalModel

    settings = read_settings()
    warn_of_misspelt(settings.home)
    missing = settings.is_local_model and not LocalModel.installed()
    if needs_local:
        raise typer.Exit(0 if missing else 1)
    typer.echo(f"{settings.model}: {_why(settings)}" + (" It is not installed yet." if missing else ""))
    if not settings.is_local_model and (lacks := asyncio.run(_lacks(settings))):
        typer.echo(f"Careful: {lacks}", err=True)


@app.command()
def engine(
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8288,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    db: Annotated[Path, typer.Option(help="File to keep everything in.")] = Path("engine.db"),
    sdk_url: Annotated[list[str] | None, typer.Option("--sdk-url", "-u", help="Where an app serves its SDK.")] = None,
) -> None:
    """Run the engine alone, in the place of an Inngest Dev Server, until it is told to stop."""
    from app.clock import SystemClock
    from app.engine.errors import EngineError
    from app.engine.server import serve as serve_engine

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(serve_engine(db, SystemClock(), host, port, sdk_url or []))
    except EngineError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


async def _chat(settings: "Settings", session: str) -> int:
    from app.cli.chat import chat_in_pipe, session_key

    at_terminal = os.isatty(0) and os.isatty(1)
    async with the_service(settings, start=True) as (client, is_ours):
        if not at_terminal:
            return await chat_in_pipe(client, session_key(session), sys.stdout, sys.stderr)
        from app.cli.terminal import TerminalChat

        history = settings.home / "terminal_history"
        return await TerminalChat(client, session_key(session), history, owns_service=is_ours).run()


async def _send(settings: "Settings", text: str, session: str, wait: bool, paths: list[Path]) -> int:
    from app.cli.attached import attached
    from app.cli.chat import Conversation, session_key

    files = await asyncio.to_thread(attached, paths)
    async with the_service(settings) as (client, _):
        conversation = Conversation(client, session_key(session))
        if not wait:
            accepted = (await conversation.say(text, files)).message_key
            typer.echo(f"Accepted as {accepted}. {_where(session)} shows the answer; --wait waits for it.")
            return 0
        answer = await conversation.ask(text, files=files)
        failed = answer.status == "failed"
        typer.echo(answer.reply or "", err=failed)
        return 1 if failed else 0


def _where(session: str) -> str:
    return "`moab chat`" if session == "default" else f"`moab chat --session {shlex.quote(session)}`"


async def _lacks(settings: "Settings") -> str:
    from app.agent.models.llm import LiteLLM

    return await LiteLLM(timeout_s=settings.model_timeout_s).lacks(settings.model)


def _why(settings: "Settings") -> str:
    if settings.agent_model:
        return "AGENT_MODEL says so."
    if not settings.is_local_model:
        return "AGENT_MODEL is empty, and this provider's key is the first one found."
    return "AGENT_MODEL is empty and no provider's key is set, so the small local model answers."


def main() -> None:
    """Entry point: what went wrong is one sentence on stderr; exit code 2 if it lies in the settings, else 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an answer may hold what this terminal cannot show
    try:
        app()
    except MoabError as error:
        typer.echo(f"moab: {error}", err=True)
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    except Exception as error:  # a fault of ours: a person gets a sentence, who looks for the cause the traceback
        logging.getLogger("moab").debug("A fault ended the command.", exc_info=True)
        typer.echo(f"moab: A fault inside ended this ({type(error).__name__}: {error}).", err=True)
        typer.echo("moab: LOG_LEVEL=debug shows where it happened.", err=True)
        sys.exit(1)
    finally:
        gc.freeze()  # or the interpreter spends a second at its exit on collecting the modules of the model client
