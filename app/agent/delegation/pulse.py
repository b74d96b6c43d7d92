"""Signs that a sub-agent, or a sub-agent's step of a goal, gets on: each tool that did it, and long ones in between."""

from app.agent.delegation.delegated import got_on, is_delegated
from app.agent.flow import Flow
from app.agent.goals.dispatch import claim_id
from app.agent.goals.step import note_progress
from app.agent.harness import Harness
from app.db import Tx


class Pulse:
    """Whether a tool that runs got on since somebody looked."""

    def __init__(self) -> None:
        self.is_beating = False

    def beat(self) -> None:
        self.is_beating = True

    def take(self) -> bool:
        """Whether it did; from now on anew."""
        found, self.is_beating = self.is_beating, False
        return found


def note_tool(tx: Tx, harness: Harness, flow: Flow, step_key: str, name: str) -> None:
    """Note that a tool did what it was to do, if that is work on a task; once for a step."""
    _note(tx, harness, flow, step_key, f"{name} is done")


def note_pulse(tx: Tx, harness: Harness, flow: Flow) -> None:
    """Note that a tool gets on, if that is work on a task; at most once a minute."""
    _note(tx, harness, flow, f"{harness.clock.now():%Y-%m-%dT%H:%M}", "a tool gets on")


def _note(tx: Tx, harness: Harness, flow: Flow, key: str, line: str) -> None:
    if is_delegated(flow.session_key):
        got_on(tx, harness, flow.session_key, flow.run_id, key)
    elif (task_id := claim_id(flow.session_key)) is not None:
        note_progress(tx, harness, task_id, line)
