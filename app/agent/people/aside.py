"""A model call on the service's own behalf, beside all conversations: within the day's budget, and counted."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.agent.context.window import CHARS_PER_TOKEN
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.models import spending
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.db import Tx
from app.sessions import usage

WHO = "heartbeat"
"""What `moab usage` calls these calls."""


async def ask_aside(
    harness: Harness, run_id: str, step_key: str, messages: Sequence[Mapping[str, Any]]
) -> Completion | ModelFailure:
    """What the model for summaries answers; a failure is a value, and so is a budget that is used up."""
    model = harness.settings.summary_model or harness.settings.model
    facts = await harness.llm.facts(model)
    flow = Flow(run_id=run_id, session_id=WHO, session_key=WHO, model=model)
    tokens = sum(len(str(message.get("content", ""))) for message in messages) // CHARS_PER_TOKEN

    def reserve(tx: Tx) -> str | None:
        now = harness.clock.now()
        return spending.reserve(tx, harness, flow, step_key, model, facts, tokens, now, scopes=("day",))

    refused = await harness.db.write(reserve)
    if refused is not None:
        return ModelFailure(Trouble.QUOTA, refused)
    answer = await harness.llm.complete(model, messages)
    if isinstance(answer, ModelFailure):
        await harness.db.write(usage.release, run_id, step_key)
    else:
        now = harness.clock.now()
        await harness.db.write(spending.settle, flow, step_key, model, facts, answer, now)
    return answer
