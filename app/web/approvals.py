"""Requests that wait for a person, as the operator sees and decides them over the API."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.agent.announce import announce
from app.agent.approvals.decision import OPERATOR, Outcome, Person, decide
from app.agent.harness import Harness
from app.db import Tx
from app.errors import NotFound
from app.sessions import approvals


class Decided(BaseModel):
    """The body of `POST /api/approvals/{number}`; `words` are a reason, or the answer to a question."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "deny", "answer"]
    words: Annotated[str, Field(max_length=10_000)] = ""


def open_approvals(tx: Tx) -> list[dict[str, Any]]:
    """Everything that waits, oldest first, with the full arguments of its call."""
    return [
        {
            "id": row.id,
            "kind": row.kind,
            "tool": row.tool,
            "arguments": approvals.arguments_of(tx, row),
            "question": row.request["arguments"]["question"] if row.kind == "question" else None,
            "choices": row.request["arguments"].get("choices") or [],
            "folder": row.request["folder"],
            "requester": row.requester,
            "sessionKey": approvals.session_key(tx, row),
            "runId": row.run_id,
            "critical": row.request["critical"],
            "createdAt": row.created_at.isoformat(),
            "expiresAt": row.expires_at.isoformat(),
        }
        for row in approvals.pending(tx)
        if row.kind != approvals.OUTSIDE
    ]


async def decide_here(harness: Harness, number: str, decision: Decided) -> dict[str, Any]:
    """The operator's decision: what came of it in a sentence, and whether it was this decision that counted.

    Raises NotFound. Whoever may use the API runs the service.
    """
    outcome = await harness.db.write(_decide, harness, number, decision)
    if outcome.row is None:
        raise NotFound(outcome.text)
    await announce(harness, outcome.events)
    return {"id": outcome.row.id, "done": outcome.done, "text": outcome.text}


def _decide(tx: Tx, harness: Harness, number: str, decision: Decided) -> Outcome:
    return decide(tx, harness, number, decision.decision, decision.words, Person(OPERATOR, "the operator"))
