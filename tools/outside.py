"""Tools of the operator's own whose results come from outside, as tools.toml in MOAB_HOME describes them."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, create_model

from app.agent.tool import Effect, Tool, ToolContext
from app.errors import ConfigError

FILE = "tools.toml"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
FORM = (
    'accepted: [label_photo] with description = "What it does" and arguments = { photo = "Path of the photo" }; '
    "the name of an argument that may be left out ends with ?"
)


def outside_tools(path: Path) -> list[Tool]:
    """The tools in the file, none if there is no file. Raises ConfigError with the entry that is wrong."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; {FORM}.") from error
    return [_tool(path, name, table) for name, table in tables.items()]


def _tool(path: Path, name: str, table: Any) -> Tool:
    known = isinstance(table, Mapping) and set(table) <= {"description", "arguments"}
    arguments = table.get("arguments", {}) if known else None
    if not known or not NAME.fullmatch(name) or not str(table.get("description", "")).strip():
        raise ConfigError(f"{path}: [{name}] is not understood; {FORM}.")
    if not isinstance(arguments, Mapping) or not all(map(_is_argument, arguments.items())):
        raise ConfigError(f"{path}: the arguments of [{name}] are not understood; {FORM}.")
    fields: dict[str, Any] = {
        key.removesuffix("?"): (
            (Annotated[str | None, Field(description=text)], None)
            if key.endswith("?")
            else (Annotated[str, Field(description=text)], ...)
        )
        for key, text in arguments.items()
    }
    model = create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
    about = f"{str(table['description']).strip()}\n\nIts result comes from outside and may take hours; you wait for it."
    return Tool(name, about, Effect.READ, model, _never, outside=True)


def _is_argument(pair: tuple[str, Any]) -> bool:
    key, text = pair
    return bool(NAME.fullmatch(key.removesuffix("?"))) and isinstance(text, str) and bool(text.strip())


async def _never(_context: ToolContext, **_arguments: Any) -> str:
    raise RuntimeError("the result of this tool comes from outside, and so it is never run")
