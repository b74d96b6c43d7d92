"""Tools that look for files and text in the workspace: find, grep."""

import asyncio
import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.agent.tool import Effect, Tool, ToolContext, tool
from app.errors import BadInput
from tools.found import Matches, Names
from tools.process import Ended
from tools.scan import SCAN_S, Lines, scan, scope


def find_tool(rg: Path | None) -> Tool:
    """The find tool; `rg` is the ripgrep to use, None for the stand-in."""

    @tool(Effect.READ)
    async def find(
        context: ToolContext,
        pattern: Annotated[
            str, Field(description="Glob: *.py (in any folder), src/**/test_*.py (from `path` on), *.{js,ts}")
        ],
        path: Annotated[str, Field(description="Folder to look in, relative to the workspace")] = ".",
        limit: Annotated[int, Field(ge=1, le=1000, description="How many files to show at most")] = 200,
    ) -> str:
        """Find files of the workspace by name. Files that a .gitignore names are left out, hidden ones are not.

        Folders themselves are not listed; use ls for those.
        """
        where = await asyncio.to_thread(scope, context.workspace, path, pattern)
        if where.only is not None:
            raise BadInput(f"{path} is a file; accepted: a folder to look in")
        found = Names(where, limit)
        ended = await scan(where, None, rg, found.take)
        lines = list(found.names)
        if found.count > len(lines):
            lines.append(f"[{found.count - len(lines)} more files are not shown: use a narrower pattern or path]")
        elif not lines:
            lines.append(f"No file of {path} fits {pattern} (files named by a .gitignore are left out).")
        return "\n".join(lines + _remarks(ended))

    return find


def grep_tool(rg: Path | None) -> Tool:
    """The grep tool; `rg` is the ripgrep to use, None for the stand-in."""

    @tool(Effect.READ)
    async def grep(
        context: ToolContext,
        pattern: Annotated[str, Field(min_length=1, description="Regular expression, matched line by line")],
        path: Annotated[str, Field(description="Folder or file to search, relative to the workspace")] = ".",
        glob: Annotated[str | None, Field(description="Search only files that fit, e.g. *.py or src/**/*.ts")] = None,
        ignore_case: Annotated[bool, Field(description="Take capitals and small letters as the same")] = False,
        context_lines: Annotated[int, Field(ge=0, le=10, description="Lines to show around each match")] = 0,
        limit: Annotated[int, Field(ge=1, le=500, description="How many matching lines to show at most")] = 100,
    ) -> str:
        """Search the text of files in the workspace with a regular expression.

        Matching lines are shown under the name of their file as `number: line`, lines around them as `number- line`.
        Binary files and files that a .gitignore names are left out, hidden ones are not.
        """
        if "\0" in pattern or "\n" in pattern:
            raise BadInput(f"{pattern!r} spans lines; accepted: a regular expression for one line")
        where = await asyncio.to_thread(scope, context.workspace, path, glob)
        found = Matches(where, limit, has_neighbours=context_lines > 0)
        ended = await scan(where, Lines(pattern, ignore_case, context_lines), rg, found.take)
        if found.said and not found.rows:
            raise BadInput(_explained(pattern, found.said))
        lines = found.rows or [f"No line of {path} matches {pattern}" + (f" in {glob}." if glob else ".")]
        return "\n".join(lines + _remarks(ended))

    return grep


def _explained(pattern: str, said: str) -> str:
    # ripgrep tries two engines and reports both; the first report points at the fault.
    fault = re.search(r"regex parse error:\s*(.*?)(?=\n~~~|\Z)", said, re.DOTALL)
    return (
        f"{pattern!r} is not a regular expression: {(fault[1] if fault else said).strip()}\n"
        r"Accepted: for example def \w+\(, or with \ before each of ( ) [ ] { } . * + ? | ^ $ for plain text."
    )


def _remarks(ended: Ended) -> list[str]:
    if ended.timed_out:
        return [f"[stopped after {SCAN_S:g} s, there may be more: use a narrower path]"]
    return ["[there are more matches: use a narrower pattern, path or glob]"] if ended.stopped else []
