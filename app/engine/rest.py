"""The answers of the REST API, in the shapes that Inngest gives them (recorded)."""

import json
import sqlite3
from typing import Any

from app.engine.clock import iso
from app.engine.errors import UnknownRun
from app.engine.functions import Function
from app.engine.registry import Registry
from app.engine.store import Store

_NOBODY = "00000000-0000-0000-0000-000000000000"


def metadata(now_ms: int, cached_ms: int | None) -> dict[str, str]:
    """When an answer was made, and until when it may be kept, if at all."""
    cached = {} if cached_ms is None else {"cached_until": iso(now_ms + cached_ms)}
    return {"fetched_at": iso(now_ms), **cached}


def dev(functions: list[dict[str, Any]], *, authed: bool) -> dict[str, Any]:
    """The answer of `/dev`, by which SDKs and people know their server."""
    return {
        "version": "moab",
        "authed": authed,
        "startOpts": {"urls": [], "autodiscover": False, "poll": True, "require_keys": authed},
        "functions": functions,
        "handlers": None,
        "isSingleNodeService": True,
        "isMissingSigningKey": False,
        "isMissingEventKeys": False,
        "features": {},
    }


async def events(
    store: Store, limit: int, name: str | None, *, after_ms: int | None = None, before_ms: int | None = None,
    cursor: str | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The newest events sent from outside: received after and before these moments, older than the one named by
    `cursor` (an internal id)."""
    rows = await store.rows(
        "SELECT * FROM events WHERE source < 2 AND (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR received_at > ?2) "
        "AND (?3 IS NULL OR received_at < ?3) AND (?4 IS NULL OR internal_id < ?4) "
        "ORDER BY internal_id DESC LIMIT ?5",
        name, after_ms, before_ms, cursor, limit,
    )  # fmt: skip
    return [_event(row) for row in rows]


async def event(store: Store, internal_id: str) -> dict[str, Any] | None:
    rows = await store.rows("SELECT * FROM events WHERE internal_id = ?", internal_id)
    return _event(rows[0]) if rows else None


async def event_runs(store: Store, registry: Registry, internal_id: str) -> list[dict[str, Any]]:
    rows = await store.rows("SELECT * FROM runs WHERE event_id = ? ORDER BY id", internal_id)
    return [_run(row, registry) for row in rows]


async def run(store: Store, registry: Registry, run_id: str) -> dict[str, Any]:
    rows = await store.rows("SELECT * FROM runs WHERE id = ?", run_id)
    if not rows:
        raise UnknownRun(f"Unable to load function run: {run_id}")
    return _run(rows[0], registry)


async def cancellations(store: Store) -> list[dict[str, Any]]:
    """The bulk cancellations asked for, oldest first."""
    return [json.loads(row["body"]) for row in await store.rows("SELECT body FROM cancellations ORDER BY id")]


async def forget_cancellation(store: Store, cancellation_id: str) -> bool:
    """Forget one; what it cancelled stays cancelled. Returns whether it was there."""
    known = await store.rows("SELECT 1 FROM cancellations WHERE id = ?", cancellation_id)
    await store.write([("DELETE FROM cancellations WHERE id = ?", (cancellation_id,))])
    return bool(known)


async def actions(store: Store, run_id: str) -> bytes:
    """The memos of a run, for an SDK whose call was too large to carry them."""
    return b"{%b}" % bytes((await store.memos(run_id)).steps)


async def batch(store: Store, run_id: str) -> bytes:
    """The events of a run, for the same."""
    rows = await store.rows(
        "SELECT body FROM run_events JOIN events ON internal_id = event_id WHERE run_id = ? ORDER BY position", run_id
    ) or await store.rows("SELECT body FROM runs JOIN events ON internal_id = event_id WHERE runs.id = ?", run_id)
    if not rows:
        raise UnknownRun(f"Unable to load function run: {run_id}")
    return f"[{','.join(row['body'] for row in rows)}]".encode()


def function(registered: Function) -> dict[str, Any]:
    """One function in the answer of `/dev`."""
    raw, step = registered.raw, registered.raw["steps"]["step"]
    policies = {key: value for key, value in raw.items() if key not in ("id", "name", "steps", "triggers") and value}
    if policies.get("idempotency"):  # as Inngest understands it (recorded)
        policies["rateLimit"] = {"limit": 1, "period": "24h0m0s", "key": policies.pop("idempotency")}
    return {
        "id": registered.uuid,
        "fv": 1,
        "name": registered.name,
        "slug": registered.slug,
        "triggers": raw["triggers"],
        **policies,
        "steps": [
            {
                "id": "step",
                "name": "step",
                "uri": step["runtime"]["url"],
                **({"retries": step["retries"]["attempts"]} if step.get("retries") else {}),
            }
        ],
    }


def _event(row: sqlite3.Row) -> dict[str, Any]:
    body = json.loads(row["body"])
    return {
        "internal_id": row["internal_id"],
        "account_id": _NOBODY,
        "environment_id": _NOBODY,
        "source": "",
        "source_id": None,
        "received_at": iso(row["received_at"]),
        "id": body["id"],
        "name": body["name"],
        "data": body["data"],
        "ts": body["ts"],
    }


def _run(row: sqlite3.Row, registry: Registry) -> dict[str, Any]:
    known = registry.function(row["function"])
    found = {
        "run_id": row["id"],
        "run_started_at": iso(row["created_at"]),
        "function_id": known.uuid if known else row["function"],
        "function_version": 0,
        "environment_id": _NOBODY,
        "event_id": row["event_id"],
        "status": row["status"],
        "ended_at": iso(row["ended_at"]) if row["ended_at"] is not None else None,
    }
    if row["output"] is not None:
        found["output"] = json.loads(row["output"])
    return found
