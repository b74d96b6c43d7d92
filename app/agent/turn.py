"""The bodies of one turn's steps, bound to the parts they work with."""

import functools

from app.agent.act import act, observe
from app.agent.approvals.request import prompt
from app.agent.context.compaction import compact
from app.agent.fetch import fetch
from app.agent.finish import finish
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.loop import Bodies
from app.agent.people.speak import speak
from app.agent.think import think
from app.agent.transcribe import transcribe


def bodies_of(harness: Harness, flow: Flow) -> Bodies:
    """What `run_turn` needs for this turn, in the workspace of whom it works for."""
    harness = harness.at(flow.principal, flow.zone)
    return Bodies(
        think=functools.partial(think, harness, flow),
        compact=functools.partial(compact, harness, flow),
        fetch=functools.partial(fetch, harness, flow),
        transcribe=functools.partial(transcribe, harness, flow),
        act=functools.partial(act, harness, flow),
        prompt=functools.partial(prompt, harness, flow),
        observe=functools.partial(observe, harness, flow),
        finish=functools.partial(finish, harness, flow),
        speak=functools.partial(speak, harness, flow),
    )
