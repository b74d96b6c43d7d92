"""The tracked tasks of a conversation, as its tools write about them: only the owner's, only while they are open."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.agent.announce import announce
from app.agent.delegation.answered import answer
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.tool import Sighting
from app.db import Tx
from app.errors import BadInput, NotFound
from app.failpoints import reach
from app.sessions import deposit
from app.work import ledger, overview, supervision, tracking
from app.work.observation import Kind, Observation
from app.work.supervision import Executor

MAX_OPEN = 20
BY_PERSON = "person"
PIPELINE = (
    "{id} is a goal: its pipeline observes it, and goal_status shows it. Only a question about it is answered, by "
    "task_reply."
)
MACHINE = "Only a turn that a person started may track a new task; report on those that there are, or ask the user."


@dataclass(frozen=True)
class OwnLedger:
    """The tracked tasks of one turn's conversation. Implements `Ledger` of the tool contract."""

    harness: Harness
    flow: Flow

    async def begin(self, step_key: str, opening: Sighting) -> None:
        await self.harness.db.write(observe_all, self.harness, self.flow, step_key, [opening])
        reach("ledger.begun")

    async def start(self, step_key: str, goal: str, steps: Sequence[str]) -> str:
        task_id = "k" + hashlib.sha256(f"{self.flow.run_id}:{step_key}".encode()).hexdigest()[:10]
        data = {"goal": goal, "steps": list(steps), "owner": self.flow.session_key}
        opening = self._observation(step_key, Sighting(task_id, Kind.STARTED, data=data))
        return await self.harness.db.write(_start, self.flow, opening)

    async def observe(self, step_key: str, seen: Sighting) -> str:
        return await self.harness.db.write(_observe, self.flow.session_key, self._observation(step_key, seen))

    async def reply(self, step_key: str, seen: Sighting) -> str:
        answer = self._observation(step_key, seen)
        words, events = await self.harness.db.write(_reply, self.harness, self.flow.session_key, answer)
        if events:
            await announce(self.harness, events)
        return words

    def _observation(self, step_key: str, seen: Sighting) -> Observation:
        return observation_of(seen, f"{self.flow.run_id}:{step_key}", self.harness.clock.now())


def observation_of(seen: Sighting, key: str, at: datetime) -> Observation:
    """What a tool saw, as a line of the ledger."""
    return Observation(
        task_id=seen.task_id,
        kind=Kind(seen.kind),
        key=key,
        at=at,
        source=seen.source,
        step=seen.step,
        summary=seen.summary,
        data=seen.data,
    )


def observe_all(tx: Tx, harness: Harness, flow: Flow, step_key: str, seen: Sequence[Sighting]) -> None:
    """Write down what a tool saw of work that it began or looked at, in the transaction of its result; once for a step.

    What has ended stays as it is, unless it is begun again.
    """
    now = harness.clock.now()
    for number, sighting in enumerate(seen):
        one = observation_of(sighting, f"{flow.run_id}:{step_key}:{number}", now)
        known = ledger.of_task(tx, one.task_id)
        if any(before.key == one.key for before in known):
            continue
        if one.kind is Kind.STARTED and not known:
            _begin(tx, harness, flow, step_key, one)
        elif one.kind is Kind.STARTED:
            _begin_again(tx, one)
        elif known and not ledger.derived(tx, one.task_id).is_terminal:
            tracking.record(tx, one)


def _begin(tx: Tx, harness: Harness, flow: Flow, step_key: str, opening: Observation) -> None:
    """Only what a person's turn began is asked about and told, or what a machine starts would make more to ask about.

    A command is watched over all the same: somebody has to see its end.
    """
    by_person = any(row.origin == "person" for row in deposit.open_inputs(tx, flow.session_id))
    where = {"home": harness.home, "place": harness.workspace.place, "owner": flow.session_key}
    where |= {"by": BY_PERSON if by_person else "machine", "run": flow.run_id, "call": step_key}
    is_command = "command" in opening.data
    executor = Executor.COMMAND if is_command else Executor.OWNER
    opening = replace(opening, data={**opening.data, **where})
    tracking.start(tx, opening, executor=executor, watched=by_person or is_command)


def _begin_again(tx: Tx, opening: Observation) -> None:
    if ledger.derived(tx, opening.task_id).is_terminal:
        tracking.record(tx, replace(opening, kind=Kind.OWNER_RESUMED, data={}))


def _start(tx: Tx, flow: Flow, opening: Observation) -> str:
    if not ledger.exists(tx, opening.task_id):
        _check(tx, flow)
    return overview.in_words(tracking.start(tx, opening))


def _check(tx: Tx, flow: Flow) -> None:
    """Raises BadInput unless this turn may start one more task to be asked about."""
    if not any(row.origin == "person" for row in deposit.open_inputs(tx, flow.session_id)):
        raise BadInput(MACHINE)  # else a turn that was started to ask about a task could track tasks for ever
    own = [watch for watch in supervision.of_owner(tx, flow.session_key) if watch.executor == Executor.OWNER]
    if len(own) >= MAX_OPEN:
        raise BadInput(f"There are {MAX_OPEN} open tasks already; complete one, or give one up with task_reply E.")


def _observe(tx: Tx, session_key: str, seen: Observation) -> str:
    known = _known(tx, session_key, seen)
    if known is None and tracking.executor_of(ledger.of_task(tx, seen.task_id)) is Executor.PIPELINE:
        raise BadInput(PIPELINE.format(id=seen.task_id))
    return known or overview.in_words(tracking.record(tx, _with_its_step(tx, seen)))


def _reply(tx: Tx, harness: Harness, session_key: str, seen: Observation) -> tuple[str, list[dict[str, Any]]]:
    known = _known(tx, session_key, seen)
    if known is not None:
        return known, []
    derived, events = answer(tx, harness, seen)
    return overview.in_words(derived), events


def _known(tx: Tx, session_key: str, seen: Observation) -> str | None:
    """How the task stands, if this was written down before. Raises unless it is this conversation's, and open."""
    found = ledger.of_task(tx, seen.task_id)
    if not found or tracking.owner_of(found) != session_key:
        own = ", ".join(watch.task_id for watch in supervision.of_owner(tx, session_key))
        raise NotFound(f"This conversation has no task {seen.task_id!r}; open: {own or 'none'}.")
    derived = ledger.derived(tx, seen.task_id)
    if any(one.key == seen.key for one in found):
        return overview.in_words(derived)
    if derived.is_terminal:
        raise BadInput(f"Task {seen.task_id} has ended ({derived.truth_state}); start another with task_start.")
    return None


def _with_its_step(tx: Tx, seen: Observation) -> Observation:
    """A block or a job without a step belongs to the step that is worked on."""
    if seen.step is not None or seen.kind not in (Kind.BLOCKED_CONFIRMED, Kind.EXTERNAL_OBSERVED):
        return seen
    return replace(seen, step=ledger.derived(tx, seen.task_id).current_step)
