"""At once when something arrives: a typing sign, a command's answer, and a second look after a minute."""

from datetime import datetime
from typing import Any

import inngest

from app.agent.acknowledge import show_received
from app.agent.approvals.decision import COMMANDS, run_decision
from app.agent.conclude import conclude_rest
from app.agent.harness import Harness
from app.agent.heartbeat.sweep import sweep
from app.agent.people.commands import run_command
from app.agent.steps import DurableSteps, key_of, parse, unless_crashed
from app.events import CommandReceived, MessageReceived


def acknowledge(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """Runs for every event, also while a turn runs; that is why commands are answered here."""

    @client.create_function(
        fn_id="acknowledge",
        trigger=[
            inngest.TriggerEvent(event=MessageReceived.name),
            inngest.TriggerEvent(event=CommandReceived.name),
        ],
        retries=8,
    )
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        steps = DurableSteps(ctx)
        if "command" in ctx.event.data:
            command = parse(CommandReceived, ctx)
            body = run_decision if command.command in COMMANDS else run_command
            done = unless_crashed(await steps.run("command", body, harness, command, key_of(command, ctx)))
            await conclude_rest(steps, harness, done.get("signs"))
            return dict(done)
        event = parse(MessageReceived, ctx)
        shown = unless_crashed(await steps.run("show", show_received, harness, event, key_of(event, ctx)))
        while shown.get("again"):
            await steps.sleep_until("wait-to-show", datetime.fromisoformat(shown["again"]))
            again = (show_received, harness, event, key_of(event, ctx), shown["tries"])
            shown = unless_crashed(await steps.run("show", *again))
        if shown["look_again"] is None:
            return {"shown": False}
        await steps.sleep_until("wait", datetime.fromisoformat(shown["look_again"]))
        return dict(await steps.run("look-again", sweep, harness, event.session_key))

    return run
