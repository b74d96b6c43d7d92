"""The `moab` command: every verb reads its arguments, calls one function and prints what came back."""

# Imports inside the verbs are for speed only: `moab --help` must not load what it does not need.

import asyncio
import contextlib
import gc
import importlib.metadata
import io
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.errors import ConfigError, MoabError, ServiceUnavailable

if TYPE_CHECKING:
    from app.client import ServiceClient
    from app.config import Settings

app = typer.Typer(
    name="moab",
    help="A self-hosted AI agent that never loses work.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measure this installation.", no_args_is_help=True)
app.add_typer(bench, name="bench")
approvals = typer.Typer(help="See and decide what waits for a person.", invoke_without_command=True)
app.add_typer(approvals, name="approvals")

Number = Annotated[str, typer.Argument(metavar="ID", help="The request's number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


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
    raise typer.Exit(asyncio.run(_chat(_settings(), session)))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [default: MOAB_HOST or 127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on [default: MOAB_PORT or 8787].")] = None,
) -> None:
    """Run the service until it is told to stop."""
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    from app.main import serve as serve_until_told

    serve_until_told(_settings(**given))


@app.command()
def send(
    text: Annotated[str, typer.Argument(help="What to say; a command if it starts with a slash.")],
    session: Annotated[str, typer.Option(help="To which conversation.")] = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer and print it.")] = False,
) -> None:
    """Send one message to the running service."""
    raise typer.Exit(asyncio.run(_send(_settings(), text, session, wait)))


@app.command()
def runs(
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    status: Annotated[str | None, typer.Option(help="Only runs with this status.")] = None,
    function: Annotated[str | None, typer.Option(help="Only runs of this function.")] = None,
) -> None:
    """List the latest runs of the running service."""
    from app.runs_text import runs_table

    found = asyncio.run(_runs(_settings(), limit, status, function))
    typer.echo(_json({"runs": found}) if as_json else runs_table(found))


@app.command()
def run(run_id: Annotated[str, typer.Argument(metavar="ID", help="The run's id.")], as_json: AsJson = False) -> None:
    """Show one run step by step."""
    from app.runs_text import run_page

    found = asyncio.run(_run(_settings(), run_id))
    typer.echo(_json(found) if as_json else run_page(found))


@approvals.callback()
def approvals_by_default(context: typer.Context) -> None:
    """See and decide what waits for a person; without a verb: list it."""
    if context.invoked_subcommand is None:
        list_approvals()


@approvals.command(name="list")
def list_approvals(as_json: AsJson = False) -> None:
    """Show what waits, with the full arguments."""
    from app.runs_text import approvals_page

    found = asyncio.run(_approvals(_settings()))
    typer.echo(_json({"approvals": found}) if as_json else approvals_page(found))


@approvals.command()
def approve(number: Number) -> None:
    """Let a request be carried out."""
    _decide(number, "approve", "")


@approvals.command()
def deny(
    number: Number, reason: Annotated[list[str] | None, typer.Argument(help="Why; the agent reads it.")] = None
) -> None:
    """Refuse a request."""
    _decide(number, "deny", " ".join(reason or ()))


@approvals.command()
def answer(number: Number, text: Annotated[list[str], typer.Argument(help="The answer.")]) -> None:
    """Answer a question of the agent."""
    _decide(number, "answer", " ".join(text))


@app.command()
def usage(
    by: Annotated[str, typer.Option(help="session, day or model.")] = "session",
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days back, today included.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show what the models cost."""
    from app.runs_text import usage_table

    found = asyncio.run(_usage(_settings(), by, days))
    typer.echo(_json(found) if as_json else usage_table(found))


@app.command()
def model(
    needs_local: Annotated[
        bool, typer.Option("--needs-local", hidden=True, help="Exit 0 if the local model is to be installed.")
    ] = False,
) -> None:
    """Say which model would answer, and why."""
    from app.local_model import LocalModel

    settings = _settings()
    missing = settings.is_local_model and not LocalModel.installed()
    if needs_local:
        raise typer.Exit(0 if missing else 1)
    typer.echo(f"{settings.model}: {_why(settings)}" + (" It is not installed yet." if missing else ""))


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


@bench.command(name="engine")
def bench_engine(as_json: AsJson = False) -> None:
    """Time the engine's steps, starts and bursts, with DBOS beside it if that is installed."""
    from app.bench_engine import bench_engine as measure

    figures = measure()
    typer.echo(json.dumps(figures) if as_json else "\n".join(f"{name:<24}{value}" for name, value in figures.items()))


@bench.command()
def turn(as_json: AsJson = False) -> None:
    """Time a turn over the Telegram path with an instant model."""
    from app.bench import bench_turn

    figures = asyncio.run(bench_turn())
    typer.echo(json.dumps(figures) if as_json else "\n".join(f"{name:<16}{value}" for name, value in figures.items()))


async def _chat(settings: "Settings", session: str) -> int:
    from app.chat import chat_in_pipe, session_key

    at_terminal = os.isatty(0) and os.isatty(1)
    async with _service(settings, start=True) as (client, is_ours):
        if not at_terminal:
            return await chat_in_pipe(client, session_key(session), sys.stdout, sys.stderr)
        from app.terminal import TerminalChat

        history = settings.home / "terminal_history"
        return await TerminalChat(client, session_key(session), history, owns_service=is_ours).run()


async def _send(settings: "Settings", text: str, session: str, wait: bool) -> int:
    from app.chat import Conversation, session_key

    async with _service(settings) as (client, _):
        conversation = Conversation(client, session_key(session))
        if not wait:
            typer.echo(f"Accepted as {(await conversation.say(text)).message_key}.")
            return 0
        answer = await conversation.ask(text)
        failed = answer.status == "failed"
        typer.echo(answer.reply or "", err=failed)
        return 1 if failed else 0


async def _runs(settings: "Settings", limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
    async with _service(settings) as (client, _):
        return await client.runs(limit, status, function)


async def _approvals(settings: "Settings") -> list[dict[str, Any]]:
    async with _service(settings) as (client, _):
        return await client.approvals()


def _decide(number: str, decision: str, words: str) -> None:
    """Decide and say what came of it; exit code 1 if somebody was faster."""

    async def decide() -> dict[str, Any]:
        async with _service(_settings()) as (client, _):
            return await client.decide(number, decision, words)

    outcome = asyncio.run(decide())
    typer.echo(outcome["text"], err=not outcome["done"])
    if not outcome["done"]:
        raise typer.Exit(1)


async def _usage(settings: "Settings", by: str, days: int) -> dict[str, Any]:
    async with _service(settings) as (client, _):
        return await client.usage(by, days)


async def _run(settings: "Settings", run_id: str) -> dict[str, Any]:
    async with _service(settings) as (client, _):
        return await client.run(run_id)


@contextlib.asynccontextmanager
async def _service(settings: "Settings", start: bool = False) -> AsyncIterator[tuple["ServiceClient", bool]]:
    """A client of the running service, and whether the service is ours: with `start`, one is started if none runs."""
    from app.client import ServiceClient, find_service

    token = settings.api_token.get_secret_value() if settings.api_token else None
    url = await find_service(settings.home / "service.json", token)
    if url is not None:
        async with ServiceClient(url, token) as client:
            if start:
                typer.echo(_who_answers((await client.health()).model), err=True)
            yield client, False
        return
    if not start:
        raise ServiceUnavailable("No service is running: start one with `moab serve` (or talk to it with `moab chat`).")
    _require_model(settings)
    typer.echo(_who_answers(settings.model), err=True)
    from app.main import running

    # The log shares the terminal with the conversation: unless asked for, it tells only what went wrong.
    level = settings.log_level if "log_level" in settings.model_fields_set else "warning"
    quiet = settings.model_copy(update={"log_level": level})
    async with running(quiet, port=0) as service, ServiceClient(service.url, token) as client:
        yield client, True


def _require_model(settings: "Settings") -> None:
    from app.local_model import LocalModel, not_installed

    if settings.is_local_model and not LocalModel.installed():
        raise ConfigError(not_installed())


def _who_answers(model: str) -> str:
    from app.config import LOCAL_MODEL

    if model != LOCAL_MODEL:
        return f"{model} answers."
    return (
        f"The local model {model.partition('/')[2]} answers: it is tiny, often wrong and has no tools. For a better "
        "one set AGENT_MODEL and its key in the environment or in .env (Ollama: AGENT_MODEL=ollama/<name>, no key)."
    )


def _why(settings: "Settings") -> str:
    if settings.agent_model:
        return "AGENT_MODEL says so."
    if not settings.is_local_model:
        return "AGENT_MODEL is empty, and this provider's key is the first one found."
    return "AGENT_MODEL is empty and no provider's key is set, so the small local model answers."


def _settings(**given: Any) -> "Settings":
    from app.config import load_settings

    return load_settings(**given)


def _json(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)


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


if __name__ == "__main__":
    main()
