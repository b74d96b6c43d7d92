"""Goals as the tools of a turn see them: made by a person's turn only, and shown in lines.

The operator and admins see all goals, everybody else those that his conversation is told of.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.agent.flow import Flow
from app.agent.goals.dispatch import standing_of
from app.agent.goals.goal import GoalWish, make_goal
from app.agent.goals.orders import found, retry_goal
from app.agent.goals.text import line, page
from app.agent.harness import Harness
from app.db import Tx
from app.errors import BadInput, NotFound, OutsideWorkspace
from app.sessions import deposit, session
from app.work import goals
from app.work.goals import Goal
from app.work.life import Life

MACHINE = "Only a turn that a person started may make goals, or what a goal does could make more of them for ever."
SHOWN = 20


@dataclass(frozen=True)
class OwnGoals:
    """The goals, for one turn. Implements `Goals` of the tool contract."""

    harness: Harness
    flow: Flow

    async def make(self, step_key: str, pipeline: str, source: str, title: str) -> str:
        """Make one, once for a step, or have one of the same content that failed tried again; says which.

        Raises BadInput, NotFound and OutsideWorkspace for the model.
        """
        if not await self.harness.db.read(_by_person, self.flow):
            raise BadInput(MACHINE)
        wish = GoalWish(
            pipeline=pipeline,
            identity=f"{self.flow.run_id}:{step_key}",
            source=await asyncio.to_thread(self._source, source) if source else "",
            title=title,
            session_id=self.flow.session_id,
        )
        made = await make_goal(self.harness, wish)
        if made.fresh:
            return f"Goal {made.goal.id} is made and goes on by itself; goal_status shows how it stands."
        if not await self.harness.db.read(_may_see, self.flow, made.goal):
            return f"This content went through {pipeline} before; what came of it is with whoever runs this service."
        if await self.harness.db.read(_has_failed, made.goal):
            await retry_goal(self.harness, made.goal.id)
            return f"This content is a goal that had failed, {made.goal.id}; what is left of it is tried again."
        told = await self.harness.db.read(_line, made.goal.id)
        return f"This content is a goal already: {told}"

    async def listed(self) -> Sequence[str]:
        """A line for each of the newest goals, with its id first."""
        return await self.harness.db.read(_lines, self.flow)

    async def shown(self, goal_id: str) -> str:
        """One goal with its steps. Raises NotFound."""
        return await self.harness.db.read(_page, self.flow, goal_id)

    def _source(self, path: str) -> str:
        """The whole path of a file that the agent may use: in the workspace, or in a folder of a device."""
        root = self.harness.workspace.root
        real = Path(os.path.realpath(root / os.path.expanduser(path)))
        allowed = (root, *self.harness.settings.device_folders)
        if not any(real.is_relative_to(os.path.realpath(folder)) for folder in allowed):
            raise OutsideWorkspace(f"{path} is neither in the workspace nor in one of DEVICE_FOLDERS.")
        return str(real)


def _by_person(tx: Tx, flow: Flow) -> bool:
    return any(row.origin == "person" for row in deposit.open_inputs(tx, flow.session_id))


def _has_failed(tx: Tx, goal: Goal) -> bool:
    stands = standing_of(tx, goal)
    return stands.life is Life.FAILED_PERMANENT and bool(stands.tries)


def _line(tx: Tx, goal_id: str) -> str:
    return line(standing_of(tx, found(tx, goal_id)))


def _lines(tx: Tx, flow: Flow) -> list[str]:
    shown = goals.recent(tx, SHOWN, session_key=flow.session_key if flow.principal else None)
    return [line(standing_of(tx, goal)) for goal in shown]


def _page(tx: Tx, flow: Flow, goal_id: str) -> str:
    goal = found(tx, goal_id)
    if not _may_see(tx, flow, goal):
        raise NotFound(f"There is no goal {goal_id}.")
    return page(standing_of(tx, goal))


def _may_see(tx: Tx, flow: Flow, goal: Goal) -> bool:
    return not flow.principal or (
        goal.session_id is not None and session.key_of(tx, goal.session_id) == flow.session_key
    )
