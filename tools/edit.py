"""The tool that changes passages of a file: edit."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.agent.tool import Effect, ToolContext, tool
from app.errors import BadInput
from tools.fence import inside, shown
from tools.files import FilePath
from tools.replacement import Change, replace_all_of
from tools.textfile import load, save

MAX_EDITS = 100


class Edit(BaseModel):
    """One of several edits; the short names are what models like to write instead."""

    model_config = ConfigDict(extra="forbid")

    old_text: str = Field(validation_alias=AliasChoices("old_text", "old"))
    new_text: str = Field(validation_alias=AliasChoices("new_text", "new"))
    replace_all: bool = Field(default=False, validation_alias=AliasChoices("replace_all", "all"))


def _list(value: Any) -> Any:
    # Some models send a list inside of a string.
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


# Written out, because small models and some providers do not follow $ref.
_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "old_text": {"type": "string"},
            "new_text": {"type": "string"},
            "replace_all": {"type": "boolean"},
        },
        "required": ["old_text", "new_text"],
    },
    "description": "Instead of old_text and new_text: several replacements, made in order, all or none",
}
Edits = Annotated[
    Annotated[list[Edit], Field(max_length=MAX_EDITS)] | None, BeforeValidator(_list), WithJsonSchema(_SCHEMA)
]


def _text(description: str) -> Any:
    return WithJsonSchema({"type": "string", "description": description})


OldText = Annotated[
    str | None, _text("The passage to replace, exactly as in the file (indentation too), without line numbers")
]
NewText = Annotated[str | None, _text("What stands there afterwards; empty removes the passage")]


@tool(Effect.UNSAFE)
async def edit(
    context: ToolContext,
    path: FilePath,
    old_text: OldText = None,
    new_text: NewText = None,
    replace_all: Annotated[
        bool, Field(description="Replace it at every place; otherwise it must stand at exactly one place")
    ] = False,
    edits: Edits = None,
) -> str:
    """Replace one passage of a text file in the workspace by another, or several in one call. Read the file first.

    A passage must match exactly and stand once; line endings and encoding of the file are kept.
    """
    changes = _changes(old_text, new_text, replace_all, edits)
    return await asyncio.to_thread(_edit, context.workspace, path, changes)


def _changes(old_text: str | None, new_text: str | None, replace_all: bool, edits: list[Edit] | None) -> list[Change]:
    if edits and (old_text or new_text):
        raise BadInput("edit: both old_text and edits are given; accepted: one of them")
    if edits:
        return [Change(one.old_text, one.new_text, one.replace_all) for one in edits]
    if old_text is None or new_text is None:
        # Left out is not empty: a forgotten new_text must not remove the passage.
        missing = "old_text" if old_text is None else "new_text"
        raise BadInput(f"edit: {missing} is missing; accepted: old_text and new_text, or a list of edits")
    return [Change(old_text, new_text, replace_all)]


def _edit(workspace: Path, path: str, changes: list[Change]) -> str:
    real = inside(workspace, path)
    name = shown(workspace, real)
    file = load(real, name)
    done = replace_all_of(file.text, changes, name)
    save(real, name, done.text, file.encoding)
    where = ", ".join(map(str, done.lines[:10])) + (", ..." if len(done.lines) > 10 else "")
    several = f"{len(changes)} edits, " if len(changes) > 1 else ""
    return f"Edited {name}: {several}replaced at line{'' if len(done.lines) == 1 else 's'} {where}."
