"""Writing about a tracked task: its start, what is observed of it, and its owner's answer to a question."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.db import Tx
from app.errors import BadInput, NotFound
from app.work import goals, ledger, supervision
from app.work.observation import EVIDENCE, Branch, Kind, Observation, Status
from app.work.projection import Derived, StepState, Truth
from app.work.supervision import Executor, Limits

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

ON_THE_OWNERS_WORD = "Completed on the owner's word."


def checked_id(task_id: str) -> str:
    """An id that a person or a program chose. Raises BadInput with the accepted form."""
    if not _ID.fullmatch(task_id):
        raise BadInput(f"{task_id!r} is no task id; accepted: up to 100 letters, digits, dots, dashes and underscores.")
    return task_id


def start(
    tx: Tx,
    opening: Observation,
    *,
    executor: Executor = Executor.OWNER,
    limits: Limits | None = None,
    watched: bool = True,
) -> Derived:
    """Begin a task with its STARTED observation, whose data may name the `owner`'s session key, and watch over it.

    Repeated under the same key it changes nothing. Raises BadInput if there is another task of this id.
    """
    known = ledger.of_task(tx, opening.task_id)
    if known and all(one.key != opening.key for one in known):
        raise BadInput(f"There is a task {opening.task_id} already; choose another id.")
    unwatched = {} if watched else {"watched": False}
    opening = replace(opening, data={**opening.data, "executor": executor, **unwatched})
    if ledger.append(tx, opening) and watched:
        _watch(tx, [opening], opening.at, limits, is_new=True)
    return ledger.derived(tx, opening.task_id)


def record(tx: Tx, *seen: Observation) -> Derived:
    """Write down what was seen of one task; how it stands then. Raises NotFound, and BadInput for an unknown step.

    A task that had ended, and by this has not, is watched over again; a goal's row follows what its ledger says.
    """
    task_id = seen[0].task_id
    before = ledger.derived(tx, task_id)
    if not before.task_id:
        raise NotFound(f"There is no task {task_id}; `moab task list` shows those that there are.")
    for one in seen:
        if one.checked().step is not None and before.workflow and one.step not in before.workflow:
            raise BadInput(f"Task {task_id} has no step {one.step!r}; accepted: {', '.join(before.workflow)}.")
    ledger.append_all(tx, seen)
    after = ledger.derived(tx, task_id)
    if after.is_terminal and not before.is_terminal:
        goals.close(tx, task_id, seen[0].at)
    if before.is_terminal and not after.is_terminal:
        goals.reopen(tx, task_id)
        known = ledger.of_task(tx, task_id)
        if opening_of(known).get("watched", True):
            _watch(tx, known, seen[0].at)
    return after


def _watch(
    tx: Tx, known: Sequence[Observation], now: datetime, limits: Limits | None = None, *, is_new: bool = False
) -> None:
    executor = executor_of(known)
    task_id, owner = known[0].task_id, owner_of(known)
    supervision.begin(tx, task_id, owner_key=owner, now=now, executor=executor, limits=limits, is_new=is_new)


def reply(tx: Tx, answer: Observation) -> Derived:
    """Record the owner's answer to a question, and what the owner observed; how the task stands then.

    `answer` is an OWNER_REPLY_RECORDED; besides `branch`, its data may have `reason` (C), `job` and `evidence` (D).
    Its step is the one that is worked on (A) or blocked (C). Raises BadInput if the branch lacks something.
    """
    before = ledger.derived(tx, answer.task_id)
    crossed = before.truth_state is Truth.COMPLETED
    return record(tx, answer, *(() if crossed else _observed(before, answer.checked())))


def _observed(before: Derived, answer: Observation) -> Iterator[Observation]:
    """What an answer says of the task besides being an answer, in the order in which it counts."""
    branch = Branch(answer.data["branch"])
    if branch is Branch.WORKING and answer.step:
        yield _also(answer, Kind.STEP_PROGRESS, step=answer.step)
    elif branch is Branch.DONE:
        for name, state in before.step_states.items():
            if state is not StepState.COMPLETED:
                yield _also(answer, Kind.STEP_COMPLETED, step=name, summary=ON_THE_OWNERS_WORD)
        yield _also(answer, Kind.TASK_COMPLETED)
    elif branch is Branch.BLOCKED:
        if not answer.data.get("reason"):
            raise BadInput("C (blocked) needs a reason, such as TRANSIENT_NETWORK, EXECUTION_ERROR or NEEDS_A_PERSON.")
        yield _also(answer, Kind.BLOCKED_CONFIRMED, step=answer.step, reason=answer.data["reason"])
    elif branch is Branch.WAITING:
        if not answer.data.get("job") or not answer.evidence:
            raise BadInput(f"D (waiting outside) needs the job and evidence: one of {', '.join(EVIDENCE)}.")
        given = {"job": answer.data["job"], "status": Status.PENDING, "evidence": answer.evidence}
        yield _also(answer, Kind.EXTERNAL_OBSERVED, step=answer.step, **given)


def _also(
    answer: Observation, kind: Kind, *, step: str | None = None, summary: str | None = None, **data: Any
) -> Observation:
    key = f"{answer.key}:{kind}" + (f":{step}" if step else "")
    said = answer.summary if summary is None else summary
    return replace(answer, kind=kind, key=key, step=step, summary=said, data=data)


def owner_of(observations: Sequence[Observation]) -> str | None:
    """The session key that a task belongs to, None if it belongs to none."""
    owner = opening_of(observations).get("owner")
    return str(owner) if owner else None


def executor_of(observations: Sequence[Observation]) -> Executor:
    """Who does the work of a task."""
    named = opening_of(observations).get("executor")
    return Executor(named) if named in list(Executor) else Executor.OWNER


def opening_of(observations: Sequence[Observation]) -> Mapping[str, Any]:
    """What a task was started with."""
    return next((one.data for one in observations if one.kind is Kind.STARTED), {})
