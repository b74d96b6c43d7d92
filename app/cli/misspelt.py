"""Settings that are nearly written as they should be: said at the start, for they would do nothing in silence."""

import difflib
from pathlib import Path

import typer
from dotenv import dotenv_values

from app.config import MODEL_CLIENT_VARIABLES, MODEL_FOR_KEY, Settings

NEARLY = 0.85


def warn_of_misspelt(home: Path) -> None:
    """Name on stderr what an `.env`, here or in `home`, says that is no setting and nearly one."""
    for file in dict.fromkeys((Path(".env").resolve(), home / ".env")):
        for name, meant in misspelt(file):
            typer.echo(f"moab: {name} in {file} is no setting. Is {meant} meant?", err=True)


def misspelt(file: Path) -> list[tuple[str, str]]:
    """Names in an `.env` that no setting has, each with the one that it is nearly; others may be other programs'."""
    fields = Settings.model_fields.items()
    known = {str(field.validation_alias or name).upper() for name, field in fields}
    known |= MODEL_FOR_KEY.keys() | MODEL_CLIENT_VARIABLES.keys()
    others = [name for name in dotenv_values(file) if name.upper() not in known]
    near = ((name, difflib.get_close_matches(name.upper(), known, 1, NEARLY)) for name in others)
    return [(name, found[0]) for name, found in near if found]
