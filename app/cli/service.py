"""What every verb needs: the settings, and a client of the running service."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.errors import ConfigError, ServiceUnavailable

if TYPE_CHECKING:
    from app.cli.client import ServiceClient
    from app.config import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@contextlib.asynccontextmanager
async def the_service(settings: "Settings", start: bool = False) -> AsyncIterator[tuple["ServiceClient", bool]]:
    """A client of the running service, and whether the service is ours: with `start`, one is started if none runs."""
    from app.cli.client import ServiceClient, find_service

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
    from app.cli.misspelt import warn_of_misspelt

    warn_of_misspelt(settings.home)
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


def read_settings(**given: Any) -> "Settings":
    from app.config import load_settings

    return load_settings(**given)


def json_text(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
