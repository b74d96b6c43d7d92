"""What was seen of a tracked task: the one thing that is ever written about it, and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.errors import BadInput


class Kind(StrEnum):
    """What an observer saw. Progress of a step never completes it; only TASK_COMPLETED completes a task."""

    STARTED = "STARTED"
    STEP_PROGRESS = "STEP_PROGRESS"
    STEP_COMPLETED = "STEP_COMPLETED"
    TASK_COMPLETED = "TASK_COMPLETED"
    BLOCKED_CONFIRMED = "BLOCKED_CONFIRMED"
    OWNER_RESUMED = "OWNER_RESUMED"
    OWNER_REPLY_RECORDED = "OWNER_REPLY_RECORDED"
    EXTERNAL_OBSERVED = "EXTERNAL_OBSERVED"
    DOWNLOAD_OBSERVED = "DOWNLOAD_OBSERVED"
    HEARTBEAT = "HEARTBEAT"


class Branch(StrEnum):
    """What the owner of a task answers when it is asked how things stand."""

    WORKING = "A"
    DONE = "B"
    BLOCKED = "C"
    WAITING = "D"
    GIVEN_UP = "E"


class Status(StrEnum):
    """How a piece of work outside stands. A job is pending, completed or failed; a download may also fall short."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    TIMEOUT = "timeout"


JOB_STATUSES = (Status.PENDING, Status.COMPLETED, Status.FAILED)

EVIDENCE = ("job_id", "receipt", "status_url", "poll_token", "artifact", "response_ref")
"""What can prove that something outside is really under way; one of them is enough."""

STEP_KINDS = (Kind.STEP_PROGRESS, Kind.STEP_COMPLETED)
TEXT_CHARS = 10_000
NAME_CHARS = 200
MAX_IDLE_S = 366 * 86_400


@dataclass(frozen=True)
class Observation:
    """One line of the ledger. `key` is its identity within the task: a repeat under the same key adds nothing.

    `source` says who saw it (`owner`, `executor`, `operator`, a provider's name, …). `data` by kind:
    STARTED: goal, steps (names in order), owner (a session key), executor; STEP_PROGRESS: idle_s (after how long
    without progress the step is to be asked about, in place of the task's limit); BLOCKED_CONFIRMED: reason, final
    (given up for good);
    EXTERNAL_OBSERVED: job (its name), status, evidence; DOWNLOAD_OBSERVED: path, status, bytes, expected_bytes,
    evidence; OWNER_REPLY_RECORDED: branch; HEARTBEAT: success (the executor got something done, not only lives).
    """

    task_id: str
    kind: Kind
    key: str
    at: datetime
    source: str
    step: str | None = None
    summary: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0

    @property
    def evidence(self) -> dict[str, str]:
        """The proofs among EVIDENCE that are there, by name."""
        given = self.data.get("evidence")
        return {name: str(given[name]) for name in EVIDENCE if given.get(name)} if isinstance(given, Mapping) else {}

    def checked(self) -> "Observation":
        """The observation itself. Raises BadInput if it lacks what its kind needs."""
        for name, value in (("task", self.task_id), ("key", self.key), ("source", self.source)):
            if not value.strip() or len(value) > NAME_CHARS:
                raise BadInput(f"{self.kind}: {name} {value[:50]!r} is not accepted: 1 to {NAME_CHARS} characters.")
        if self.kind in STEP_KINDS and not self.step:
            raise BadInput(f"{self.kind} needs the name of its step.")
        if len(self.summary) > TEXT_CHARS:
            raise BadInput(f"{self.kind}: the summary has more than {TEXT_CHARS} characters.")
        needed = NEEDED.get(self.kind)
        if needed is not None:
            needed(self)
        return self


def _one_of(observation: Observation, name: str, accepted: tuple[str, ...]) -> None:
    value = observation.data.get(name)
    if value not in accepted:
        raise BadInput(f"{observation.kind}: {name} {value!r} is not accepted: {', '.join(accepted)}.")


def _named(observation: Observation, name: str) -> None:
    value = observation.data.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > TEXT_CHARS:
        raise BadInput(f"{observation.kind} needs {name}, a text.")


def _started(observation: Observation) -> None:
    _named(observation, "goal")
    steps = observation.data.get("steps", [])
    if not isinstance(steps, list | tuple) or not all(
        isinstance(step, str) and step.strip() and len(step) <= NAME_CHARS for step in steps
    ):
        raise BadInput(f"STARTED: each step is a name of 1 to {NAME_CHARS} characters.")
    if len(set(steps)) != len(steps):
        raise BadInput("STARTED: two steps share a name.")


def _progress(observation: Observation) -> None:
    idle_s = observation.data.get("idle_s", 1)
    if isinstance(idle_s, bool) or not isinstance(idle_s, int | float) or not 1 <= idle_s <= MAX_IDLE_S:
        raise BadInput(f"STEP_PROGRESS: idle_s {idle_s!r} is not accepted: seconds from 1 to {MAX_IDLE_S}.")


def _proven(observation: Observation) -> None:
    given = observation.data.get("evidence") or {}
    unknown = sorted(set(given) - set(EVIDENCE)) if isinstance(given, Mapping) else ["a text"]
    if unknown:
        raise BadInput(f"{observation.kind}: evidence {unknown[0]} is not accepted: {', '.join(EVIDENCE)}.")


def _job(observation: Observation) -> None:
    _proven(observation)
    _named(observation, "job")
    _one_of(observation, "status", JOB_STATUSES)


def _download(observation: Observation) -> None:
    _proven(observation)
    _named(observation, "path")
    _one_of(observation, "status", tuple(Status))


NEEDED = {
    Kind.STARTED: _started,
    Kind.STEP_PROGRESS: _progress,
    Kind.BLOCKED_CONFIRMED: lambda observation: _named(observation, "reason"),
    Kind.OWNER_REPLY_RECORDED: lambda observation: _one_of(observation, "branch", tuple(Branch)),
    Kind.EXTERNAL_OBSERVED: _job,
    Kind.DOWNLOAD_OBSERVED: _download,
}
