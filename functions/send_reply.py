"""What lies in the outbox goes out: one step per part, waiting as long as the platform asks."""

from datetime import datetime
from typing import Any

import inngest

from app.agent.harness import Harness
from app.agent.people.moving import send_next
from app.agent.steps import DurableSteps, parse, unless_crashed
from app.channels.outbox import chat_key
from app.events import ReplyReady


def send_reply(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """Idempotent by its rows: every run sends what its chat has unsent, in order, and each part is claimed once."""

    @client.create_function(fn_id="send-reply", trigger=inngest.TriggerEvent(event=ReplyReady.name), retries=8)
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        ready = parse(ReplyReady, ctx)
        steps = DurableSteps(ctx)
        chat = chat_key(ready.channel, ready.destination)
        sent = 0
        while True:
            match unless_crashed(await steps.run("send", send_next, harness, chat)):
                case {"kind": "done"}:
                    return {"steps": sent + 1}
                case {"kind": "wait", "until": str(until)}:
                    await steps.sleep_until("wait", datetime.fromisoformat(until))
            sent += 1

    return run
