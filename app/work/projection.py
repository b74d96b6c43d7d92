"""How a tracked task stands, as a pure function of what was observed of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.events import wire_safe
from app.sentences import Sentence
from app.work.observation import Branch, Kind, Observation, Status


class StepState(StrEnum):
    """A step has not begun, is worked on, is blocked, or is completed."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    BLOCKED = "BLOCKED"
    COMPLETED = "COMPLETED"


class Truth(StrEnum):
    """What can be believed of a task. The last three are its ends."""

    RUNNING = "RUNNING"
    WAITING_EXTERNAL = "WAITING_EXTERNAL"
    BLOCKED = "BLOCKED"
    INCONSISTENT = "INCONSISTENT"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"


TERMINAL = (Truth.COMPLETED, Truth.FAILED, Truth.ABANDONED)

REASON_OF_STATUS = {
    Status.TIMEOUT: "DOWNLOAD_TIMEOUT",
    Status.INCOMPLETE: "DOWNLOAD_INCOMPLETE",
    Status.FAILED: "EXECUTION_ERROR",
}


@dataclass(frozen=True)
class Block:
    """What keeps a step (or, with none, the whole task) from going on. `final`: nobody will try again.

    `job` is the work outside that failed, if it was that.
    """

    reason: str
    step: str | None
    at: datetime
    summary: str = ""
    final: bool = False
    job: str | None = None

    @property
    def subject(self) -> str:
        """What is to be tried again: the step, else the job, else the whole task ("")."""
        return self.step or self.job or ""


@dataclass(frozen=True)
class External:
    """Work that is pending outside: a job or a download; without `evidence` it is only a claim."""

    name: str
    source: str
    step: str | None
    at: datetime
    evidence: Mapping[str, str]

    @property
    def is_suspicious(self) -> bool:
        return not self.evidence


@dataclass(frozen=True)
class Derived:
    """The state of one task. `progressed_at` is when it last got on, `seen_at` when it last gave any sign of life.

    `idle_at` has, for each step that is worked on and said how long it may be idle, when it will have been.
    """

    task_id: str
    goal: str = ""
    workflow: tuple[str, ...] = ()
    current_step: str | None = None
    step_states: Mapping[str, StepState] = field(default_factory=dict)
    pending_external: tuple[External, ...] = ()
    truth_state: Truth = Truth.INCONSISTENT
    inconsistencies: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    started_at: datetime | None = None
    progressed_at: datetime | None = None
    seen_at: datetime | None = None
    replied_at: datetime | None = None
    ended_at: datetime | None = None
    idle_at: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        return self.truth_state in TERMINAL

    def wire(self) -> dict[str, Any]:
        """As JSON, with times in ISO form."""
        return dict(wire_safe(_plain(asdict(self))))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def project(observations: Iterable[Observation]) -> Derived:
    """The state after all of them, whatever order they are given in: they count in the order of their ids."""
    fold = _Fold()
    for observation in sorted(observations, key=lambda one: one.id):
        fold.take(observation)
    return fold.result()


@dataclass
class _Step:
    begun: bool = False
    completed: bool = False
    idle_s: float | None = None
    progressed_at: datetime | None = None


@dataclass
class _Fold:
    """What is known while the observations are gone through, oldest first."""

    task_id: str = ""
    goal: str = ""
    steps: dict[str, _Step] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    blocks: list[Block] = field(default_factory=list)
    outside: dict[str, External] = field(default_factory=dict)
    last_status: dict[str, object] = field(default_factory=dict)
    faults: set[str] = field(default_factory=set)
    completed: bool = False
    abandoned: bool = False
    started_at: datetime | None = None
    progressed_at: datetime | None = None
    seen_at: datetime | None = None
    replied_at: datetime | None = None
    ended_at: datetime | None = None

    def take(self, seen: Observation) -> None:
        self.task_id = seen.task_id
        self.seen_at = seen.at
        if _TAKE[seen.kind](self, seen):
            self.progressed_at = seen.at

    def step(self, name: str) -> _Step:
        return self.steps.setdefault(name, _Step())

    def unblock(self, step: str | None) -> None:
        """Work on a step shows that neither it nor the whole task is blocked any more; another's job may still be."""
        self.blocks = [one for one in self.blocks if one.subject and (step is None or one.step != step)]

    def block(self, block: Block) -> None:
        """The newest word on a step, a job or the task counts."""
        self.blocks = [one for one in self.blocks if (one.step, one.job) != (block.step, block.job)] + [block]

    def workflow(self) -> tuple[str, ...]:
        """The declared steps in their order, and after them others as they came."""
        return tuple(dict.fromkeys([*self.declared, *self.steps]))

    def states(self) -> dict[str, StepState]:
        return {name: self._state(name) for name in self.workflow()}

    def _state(self, name: str) -> StepState:
        step = self.step(name)
        if step.completed:
            return StepState.COMPLETED
        if any(block.step == name for block in self.blocks):
            return StepState.BLOCKED
        return StepState.RUNNING if step.begun else StepState.PENDING

    def result(self) -> Derived:
        states = self.states()
        faults = sorted(self.faults | set(_contradictions(self, states)))
        blocks = sorted(self.blocks, key=lambda block: (block.step is not None, block.subject, block.job or ""))
        return Derived(
            task_id=self.task_id,
            goal=self.goal,
            workflow=tuple(states),
            current_step=_current(states),
            step_states=states,
            pending_external=tuple(self.outside[name] for name in sorted(self.outside)),
            truth_state=self._truth(bool(faults), blocks),
            inconsistencies=tuple(faults),
            blocks=tuple(blocks),
            started_at=self.started_at,
            progressed_at=self.progressed_at,
            seen_at=self.seen_at,
            replied_at=self.replied_at,
            ended_at=self.ended_at,
            idle_at=self._idle_at(states),
        )

    def _idle_at(self, states: Mapping[str, StepState]) -> dict[str, datetime]:
        return {
            name: step.progressed_at + timedelta(seconds=step.idle_s)
            for name, step in self.steps.items()
            if states[name] is StepState.RUNNING and step.progressed_at is not None and step.idle_s is not None
        }

    def _truth(self, is_faulty: bool, blocks: list[Block]) -> Truth:
        if self.abandoned:
            return Truth.ABANDONED
        if is_faulty:
            return Truth.INCONSISTENT
        if self.completed:
            return Truth.COMPLETED
        if any(block.final for block in blocks):
            return Truth.FAILED
        if blocks:
            return Truth.BLOCKED
        return Truth.WAITING_EXTERNAL if self.outside else Truth.RUNNING


def _current(states: Mapping[str, StepState]) -> str | None:
    """The first step in the workflow's order that is worked on or blocked, else the first that has not begun."""
    begun = (name for name, state in states.items() if state in (StepState.RUNNING, StepState.BLOCKED))
    waiting = (name for name, state in states.items() if state is StepState.PENDING)
    return next(begun, None) or next(waiting, None)


def _contradictions(fold: _Fold, states: Mapping[str, StepState]) -> Iterable[str]:
    """What does not fit together in the end, whatever came first."""
    if fold.started_at is None:
        yield Sentence("The task was never started.")
    for name in fold.steps:
        if fold.declared and name not in fold.declared:
            yield Sentence("Step {step} is not part of the workflow.").format(step=name)
    for pending in fold.outside.values():
        if pending.is_suspicious:
            yield Sentence("{job} is said to be pending outside, without evidence.").format(job=pending.name)
    if not fold.completed:
        return
    unfinished = [name for name, state in states.items() if state is not StepState.COMPLETED]
    if unfinished:
        yield Sentence("The task is completed, but not its steps: {steps}.").format(steps=", ".join(sorted(unfinished)))
    if fold.outside:
        yield Sentence("The task is completed, but waits outside for {jobs}.").format(
            jobs=", ".join(sorted(fold.outside))
        )
    if any(block.step is None or states[block.step] is StepState.COMPLETED for block in fold.blocks):
        yield Sentence("The task is completed and blocked.")


def _started(fold: _Fold, seen: Observation) -> bool:
    if fold.started_at is not None:
        fold.faults.add(Sentence("The task was started twice."))
        return False
    if any(step.completed for step in fold.steps.values()) or fold.completed:
        fold.faults.add(Sentence("Something was completed before the task was started."))
    fold.started_at = seen.at
    fold.goal = str(seen.data.get("goal", ""))
    fold.declared = tuple(seen.data.get("steps", ()))
    return True


def _progress(fold: _Fold, seen: Observation) -> bool:
    name = seen.step or ""
    step = fold.step(name)
    if step.completed and step.begun:
        return False  # a report that was under way when the step was completed
    if step.completed:
        fold.faults.add(Sentence("Step {step} was completed before it started.").format(step=name))
    step.begun = True
    step.progressed_at = seen.at
    step.idle_s = seen.data.get("idle_s", step.idle_s)
    fold.unblock(name)
    return True


def _step_completed(fold: _Fold, seen: Observation) -> bool:
    name = seen.step or ""
    step = fold.step(name)
    if step.completed:
        fold.faults.add(Sentence("Step {step} was completed twice.").format(step=name))
    step.completed = True
    fold.unblock(name)
    return True


def _task_completed(fold: _Fold, seen: Observation) -> bool:
    if fold.completed:
        fold.faults.add(Sentence("The task was completed twice."))
    fold.completed = True
    fold.ended_at = seen.at
    return True


def _blocked(fold: _Fold, seen: Observation) -> bool:
    final = bool(seen.data.get("final"))
    fold.block(Block(str(seen.data.get("reason", "")), seen.step, seen.at, seen.summary, final))
    if seen.step is not None:
        fold.step(seen.step).begun = True
    if final:
        fold.ended_at = seen.at
    return False


def _resumed(fold: _Fold, seen: Observation) -> bool:
    """The owner goes on: what was blocked, ended or given up is open again; a step that is named begins anew."""
    if seen.step is None:
        fold.blocks.clear()
    else:
        fold.steps[seen.step] = _Step()
        fold.unblock(seen.step)
    fold.completed = fold.abandoned = False
    fold.ended_at = None
    return True


def _replied(fold: _Fold, seen: Observation) -> bool:
    """The owner's word settles what did not fit together; what it says of the task is observed after it, anew.

    An answer to a question that crossed the completion of the task changes nothing.
    """
    fold.replied_at = seen.at
    if fold.completed and not fold.faults and not any(_contradictions(fold, fold.states())):
        return False
    fold.faults.clear()
    fold.blocks.clear()
    fold.outside = {name: pending for name, pending in fold.outside.items() if not pending.is_suspicious}
    fold.completed = False
    fold.ended_at = None
    if seen.data.get("branch") == Branch.GIVEN_UP:
        fold.abandoned = True
        fold.ended_at = seen.at
    return False


def _external(fold: _Fold, seen: Observation) -> bool:
    name = str(seen.data.get("job", ""))
    status = seen.data.get("status")
    is_news = fold.last_status.get(name) != status
    fold.last_status[name] = status
    return _outside(fold, seen, name) and is_news


def _download(fold: _Fold, seen: Observation) -> bool:
    """A download gets on when it has more bytes than before, or comes to its end."""
    name = str(seen.data.get("path", ""))
    had, has = fold.last_status.get(name), seen.data.get("bytes")
    fold.last_status[name] = has
    is_news = had is None or (isinstance(had, int) and isinstance(has, int) and has > had)
    return _outside(fold, seen, name, {"artifact": name}) and (is_news or seen.data.get("status") == Status.COMPLETED)


def _outside(fold: _Fold, seen: Observation, name: str, shown: Mapping[str, str] | None = None) -> bool:
    """Note how something outside stands; whether that can count as progress."""
    fold.blocks = [one for one in fold.blocks if one.job != name]
    status = Status(seen.data.get("status", Status.PENDING))
    evidence = seen.evidence | dict(shown or {})
    if status is Status.PENDING:
        fold.outside[name] = External(name, seen.source, seen.step, seen.at, evidence)
        return bool(evidence)
    fold.outside.pop(name, None)
    if status is Status.COMPLETED:
        fold.unblock(seen.step)
        return True
    summary = seen.summary or f"{name}: {status}"
    fold.block(Block(REASON_OF_STATUS[status], seen.step, seen.at, summary, job=name))
    return False


def _heartbeat(_fold: _Fold, seen: Observation) -> bool:
    return bool(seen.data.get("success"))


_TAKE: dict[Kind, Callable[[_Fold, Observation], bool]] = {
    Kind.STARTED: _started,
    Kind.STEP_PROGRESS: _progress,
    Kind.STEP_COMPLETED: _step_completed,
    Kind.TASK_COMPLETED: _task_completed,
    Kind.BLOCKED_CONFIRMED: _blocked,
    Kind.OWNER_RESUMED: _resumed,
    Kind.OWNER_REPLY_RECORDED: _replied,
    Kind.EXTERNAL_OBSERVED: _external,
    Kind.DOWNLOAD_OBSERVED: _download,
    Kind.HEARTBEAT: _heartbeat,
}
"""What each kind changes; answers whether the task got on by it."""
