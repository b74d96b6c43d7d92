"""A house in which goals run: every start that is announced becomes a run, and a script answers for the model."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.agent.goals.goal import GoalWish, Made, make_goal
from app.agent.goals.orders import show_goal
from app.agent.goals.run import run_try
from app.agent.models.llm import PLAIN, Asking, Completion, ModelFailure
from app.errors import MoabError
from app.events import SubagentSpawn
from app.speech import Transcript
from app.tables import deliveries
from tests.unit.house import DirectSteps, House, ScriptedModel, run_id

SUMMARY = "The recording is about why the sky is blue: light of short waves is scattered more."
TOPICS = {"topics": [{"page": "physics", "title": "Physics", "entry": "Why the sky is blue."}]}
WORDS = "And so the sky is blue, because short waves are scattered more than long ones."


class Judge(ScriptedModel):
    """Answers by what it is asked: a verdict, topics, or a summary; each list gives its last answer for ever."""

    def __init__(self) -> None:
        super().__init__("unused")
        self.verdicts: list[Any] = ['{"verdict": "pass"}']
        self.topics: list[Any] = [json.dumps(TOPICS)]
        self.summaries: list[Any] = [SUMMARY]

    async def complete(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        asking: Asking = PLAIN,
    ) -> Completion | ModelFailure:
        self.requests.append((model, [dict(m) for m in messages], list(tools)))
        system = str(messages[0]["content"])
        judged = "You judge" in system
        answers = self.verdicts if judged else self.topics if '"topics"' in system else self.summaries
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return Completion(answer, input_tokens=10, output_tokens=5) if isinstance(answer, str) else answer

    def asked(self, word: str) -> int:
        """How many requests had this word in their system prompt."""
        return sum(word in str(messages[0]["content"]) for _, messages, _ in self.requests)


@dataclass
class Ears:
    """Hears the same in every recording, or fails as told. In the place of the speech worker."""

    heard: list[Transcript | MoabError] = field(default_factory=lambda: [Transcript(WORDS, "en", 11.0, 0.9)])
    paths: list[Path] = field(default_factory=list)

    async def transcribe(self, path: Path, **_: Any) -> Transcript:
        self.paths.append(path)
        answer = self.heard.pop(0) if len(self.heard) > 1 else self.heard[0]
        if isinstance(answer, MoabError):
            raise answer
        return answer


def due_of(data: Mapping[str, Any]) -> datetime:
    """When a start is due; a first try at once."""
    return datetime.fromisoformat(data["dueAt"]) if "dueAt" in data else datetime.min.replace(tzinfo=UTC)


class Engine:
    """Runs what the house announces, in the order of their times; the clock moves to each."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.steps: list[str] = []
        self._numbers = itertools.count(100)
        self._taken: set[int] = set()

    def waiting(self) -> list[tuple[datetime, int, SubagentSpawn]]:
        spawns = [
            (due_of(event["data"]), place, SubagentSpawn.from_data(event["data"]))
            for place, event in enumerate(self.house.sender.events)
            if event["name"] == SubagentSpawn.name and event["data"]["mode"] == "pipeline"
        ]
        return sorted((one for one in spawns if one[1] not in self._taken), key=lambda one: (one[0], one[1]))

    async def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Go on until nothing is left, or `until` says so."""
        while not until() and (left := self.waiting()):
            due_at, place, spawn = left[0]
            self._taken.add(place)
            late = (due_at - self.house.clock.now()).total_seconds()
            if late > 0:
                self.house.clock.advance(late)
            self.steps.append(spawn.task)
            steps = DirectSteps(self.house)
            await run_try(steps, self.house.harness, run_id(next(self._numbers)), spawn)
            self.house.clock.advance(0.01)


async def make(house: House, pipeline: str, source: Path | None = None, **more: Any) -> Made:
    wish = GoalWish(pipeline, identity=more.pop("identity", f"{pipeline}:{source}"), source=str(source or ""), **more)
    return await make_goal(house.harness, wish)


async def view(house: House, goal_id: str) -> dict[str, Any]:
    return await house.db.read(show_goal, goal_id)


def states(shown: Mapping[str, Any]) -> dict[str, str]:
    return {step["id"]: step["state"] for step in shown["steps"]}


def put_pipeline(house: House, name: str, text: str) -> None:
    path = house.harness.workspace.root / "pipelines" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def workspace_file(house: House, path: str) -> str:
    found = house.harness.workspace.root / path
    return found.read_text() if found.exists() else ""


def told(house: House) -> list[str]:
    """What was put into the outbox, in order."""
    return [row.text for row in house.rows(select(deliveries).order_by(deliveries.c.id))]


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
