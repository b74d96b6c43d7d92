"""Who may talk to the agent, as the operator sees and changes it over the API."""

import asyncio
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from app.agent.harness import Harness
from app.agent.people import forgetting
from app.agent.people.gate import is_admin, make_code
from app.agent.people.shutting_out import shut_out
from app.channels import outbox
from app.db import Tx, moment
from app.errors import BadInput, NotFound
from app.sessions import people, person_records
from app.web.api import Runs

NOBODY = "There is nobody called {}; accepted: channel:id, as `moab people` lists them."
NOTHING = "Nothing is kept of {}: only the settings name them."


class Invited(BaseModel):
    """The body of `POST /api/people/codes`."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["admin", "member"] = "member"


def people_router(harness: Harness, runs: Runs) -> APIRouter:
    router = APIRouter()

    @router.get("/api/people")
    async def list_people() -> dict[str, Any]:
        return {"people": await harness.db.read(_listed, harness)}

    @router.get("/api/people/{person_id}")
    async def look_at(person_id: str) -> dict[str, Any]:
        """How many conversations are kept of somebody."""
        await _require_known(harness, person_id)
        of = await harness.db.read(person_records.holdings, person_id)
        return {"id": person_id, "sessions": len(of.sessions)}

    @router.post("/api/people/codes")
    async def invite(body: Invited) -> dict[str, Any]:
        if not harness.channels.keys() - outbox.REPEATABLE:
            raise BadInput("There is no bot that a code could be sent to. First: `moab setup telegram` or `slack`.")
        code, until = await harness.db.write(make_code, harness, body.role, "the operator")
        return {"code": code, "until": until, "role": body.role}

    @router.post("/api/people/{person_id}/revoke")
    async def revoke(person_id: str) -> dict[str, Any]:
        channel, _, number = person_id.partition(":")
        if channel in outbox.REPEATABLE:
            raise BadInput(f"{person_id} is the operator's own and cannot be shut out.")
        if channel not in harness.settings.allow_lists or number in ("", "*"):
            raise NotFound(NOBODY.format(person_id))
        await shut_out(harness, person_id)
        return {"id": person_id, "state": people.State.REVOKED}

    @router.post("/api/people/{person_id}/readmit")
    async def readmit(person_id: str) -> dict[str, Any]:
        """End that somebody is shut out; the settings or a code let him in."""
        if not await harness.db.write(people.readmit, person_id):
            raise NotFound(f"{person_id} is not shut out.")
        return {"id": person_id}

    @router.get("/api/people/{person_id}/export")
    async def export(person_id: str) -> dict[str, Any]:
        """Everything that is kept of somebody: rows by table, the texts of memory, and the names of files."""
        await _require_known(harness, person_id)
        found = await harness.db.read(person_records.export, person_id)
        return found | {"files": await asyncio.to_thread(_files, _own_folder(harness, person_id))}

    @router.post("/api/people/{person_id}/forget")
    async def forget(person_id: str) -> dict[str, Any]:
        """Delete everything that is kept of somebody."""
        await _require_known(harness, person_id)
        known = await harness.db.read(people.find, person_id)
        gone = await forgetting.forget(harness, person_id, lambda of: runs.forget(of.keys, of.said))
        return {
            "id": person_id,
            "sessions": gone.sessions,
            "staysShutOut": known is not None and known.state == people.State.REVOKED,
            "memory": "kept: it is the operator's" if gone.keeps_memory else "deleted",
            "runs": gone.runs[0] if gone.runs is not None else None,
            "openRuns": gone.runs[1] if gone.runs is not None else None,
        }

    return router


async def _require_known(harness: Harness, person_id: str) -> None:
    if not await harness.db.read(person_records.is_known, person_id):
        channel, _, number = person_id.partition(":")
        is_listed = number in harness.settings.allow_lists.get(channel, ())
        raise NotFound((NOTHING if is_listed else NOBODY).format(person_id))


def _own_folder(harness: Harness, person_id: str) -> Path:
    return harness.workspace.of(people.folder_of(person_id)).root


def _files(folder: Path) -> dict[str, str]:
    """Texts of the files of a person's workspace by path; of what is no text only the size. Blocks."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink() and "skills" not in path.relative_to(folder).parts[:1]:
            is_text = path.suffix in (".md", ".txt", ".yaml", ".toml")
            text = path.read_text("utf-8", errors="replace") if is_text else f"({path.stat().st_size} bytes)"
            found[path.relative_to(folder).as_posix()] = text
    return found


def _listed(tx: Tx, harness: Harness) -> list[dict[str, Any]]:
    """Who is known, then those whom the settings let in and who have not written yet."""
    lists = harness.settings.allow_lists
    named = [f"{channel}:{one}" for channel in harness.channels for one in lists.get(channel, ())]
    found = [_person(tx, harness, row, row.id in named) for row in people.listed(tx)]
    known = {one["id"] for one in found}
    return found + [_named(tx, harness, one) for one in named if one not in known]


def _person(tx: Tx, harness: Harness, row: Any, is_named: bool) -> dict[str, Any]:
    """A row as it holds now: the settings may have let somebody in, or made him an admin, who was noted before."""
    return {
        "id": row.id,
        "kind": row.kind,
        "state": people.State.LISTED if is_named and row.state == people.State.STRANGER else row.state,
        "role": _role(tx, harness, row.id),
        "name": row.name,
        "username": row.username,
        "language": row.language,
        "timezone": row.timezone,
        "since": found.isoformat() if (found := moment(row.paired_at or row.created_at)) is not None else None,
        "by": row.paired_by,
    }


def _named(tx: Tx, harness: Harness, person_id: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("kind", "name", "username", "language", "timezone", "since", "by"))
    return unknown | {"id": person_id, "state": people.State.LISTED, "role": _role(tx, harness, person_id)}


def _role(tx: Tx, harness: Harness, person_id: str) -> str:
    if person_id.partition(":")[0] in outbox.REPEATABLE:
        return "operator"
    return "admin" if is_admin(tx, harness, person_id) else "member"
