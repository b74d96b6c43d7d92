"""A harness on a real SQLite file for tests of the rooms: a clock that is told, and fakes at every seam."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from app.agent import accept, act, fetch, finish, outside, think, transcribe
from app.agent import receive as receive_module
from app.agent.approvals import decision
from app.agent.approvals import request as approval
from app.agent.approvals.policy import Policy
from app.agent.context import compaction
from app.agent.flow import Ask, Ending, Flow
from app.agent.harness import Harness
from app.agent.heartbeat import wakes
from app.agent.loop import run_turn
from app.agent.models.llm import PLAIN, Asking, Completion, Facts, ModelFailure, ToolWish
from app.agent.people import speak
from app.agent.people.commands import run_command
from app.agent.receive import receive
from app.agent.tool import Effect, Tool, Toolbox, ToolContext, ToolResult, tool
from app.agent.turn import bodies_of
from app.channels import delivery
from app.channels.channel import Absent, Fetched, Later, Part, Refused, SendResult, Sent, Unknown
from app.clock import ManualClock
from app.config import MODEL_FOR_KEY, Settings
from app.db import Database, Tx
from app.events import Attachment, CommandReceived, Destination, MessageReceived
from app.memory.daily_log import DailyLog
from app.memory.workspace import Workspace
from app.migrate import migrate
from app.tables import deliveries
from app.work.library import Library

SESSION = "test:chat"
HOME = "home"
RUN = "01RUN000000000000000000000"
"""Length and form of a run id; `run_id(n)` are later ones."""


def run_id(number: int) -> str:
    """Run ids that sort by their number."""
    return f"01RUN{number:021d}"


def scrub(monkeypatch: Any) -> None:
    """Take every variable that Settings reads, and every provider's key, out of the environment."""
    for name, info in Settings.model_fields.items():
        for variable in {name, str(info.validation_alias or name)}:
            monkeypatch.delenv(variable.upper(), raising=False)
            monkeypatch.delenv(variable, raising=False)
    for key in MODEL_FOR_KEY:
        monkeypatch.delenv(key, raising=False)


def in_thread(work: Callable[[], Any]) -> Any:
    """`work()` in a thread of its own, where it may run an event loop."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(work).result()


def make_template(path: Path) -> Path:
    """A migrated, empty database file that tests copy, because migrating takes a tenth of a second."""

    async def build() -> None:
        database = Database(f"sqlite:///{path}")
        await migrate(database)
        await database.close()

    in_thread(lambda: asyncio.run(build()))
    return path


class ScriptedModel:
    """Answers from a list (the last one is repeated) and records what it was asked. Implements `LLM`."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, list[dict[str, Any]], list[Mapping[str, Any]]]] = []
        self.askings: list[Asking] = []
        self.known = Facts()

    async def facts(self, model: str) -> Facts:
        return self.known

    async def complete(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        asking: Asking = PLAIN,
    ) -> Completion | ModelFailure:
        self.requests.append((model, [dict(m) for m in messages], list(tools)))
        self.askings.append(asking)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = await answer()
        return Completion(answer) if isinstance(answer, str) else answer

    async def warm(self) -> None:
        return None


class RecordingSender:
    """Keeps the events it accepts; fails while `broken`. Implements `EventSender`."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.broken = False

    async def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        if self.broken:
            raise ConnectionError("the engine is away")
        self.events.extend(dict(e) for e in events)

    def names(self) -> list[str]:
        return [event["name"] for event in self.events]

    def ids(self) -> list[str]:
        return [event["id"] for event in self.events]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["name"] == name]


class RecordingChannel:
    """A platform that keeps what it was given; `results` are used up one by one, then everything is sent."""

    def __init__(self, name: str = "test") -> None:
        self._name = name
        self.sent: list[str] = []
        self.acknowledged: list[Destination] = []
        self.concluded: list[tuple[Destination, bool]] = []
        self.signs: list[bool | Later] = []
        self.results: list[SendResult] = []
        self.found: list[Sent | Absent | Later | Unknown] = []
        self.files: dict[str, Any] = {}
        self.previews: list[tuple[str | None, str]] = []
        self.preview_id: str | None = None
        self.finds_previews = False
        self.marks: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    def parts(self, markdown: str) -> list[Part]:
        """One part for each paragraph between lines of three dashes."""
        return [{"text": text.strip()} for text in markdown.split("\n---\n") if text.strip()]

    async def send(self, destination: Destination, part: Part) -> SendResult:
        result = self.results.pop(0) if self.results else Sent({"id": len(self.sent)})
        if isinstance(result, Sent):
            self.sent.append(part["text"])
        return result

    async def acknowledge(self, destination: Destination) -> bool | Later:
        self.acknowledged.append(destination)
        return self.signs.pop(0) if self.signs else True

    async def find(self, destination: Destination, part: Part) -> Sent | Absent | Later | Unknown:
        return self.found.pop(0) if self.found else Unknown("this platform cannot be asked")

    async def conclude(self, destination: Destination, ok: bool) -> bool | Later:
        self.concluded.append((destination, ok))
        return self.signs.pop(0) if self.signs else True

    async def preview(self, destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        self.previews.append((shown, text))
        self.marks.append(mark)
        return self.preview_id

    async def fetch(self, attachment: Attachment, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        """What is in `files` under the attachment's ref, or the result that is scripted for it."""
        found = self.files.get(attachment.ref or "", Refused("there are no files here"))
        found = found.pop(0) if isinstance(found, list) else found
        if not isinstance(found, bytes):
            return found
        await asyncio.to_thread(to.write_bytes, found[:limit_bytes])
        return Fetched(len(found))

    async def close(self) -> None:
        return None


@dataclass
class House:
    """The harness and the fakes in it."""

    harness: Harness
    clock: ManualClock
    model: ScriptedModel
    sender: RecordingSender
    channel: RecordingChannel
    engine: Engine
    log: list[str] = field(default_factory=list)

    @property
    def db(self) -> Database:
        return self.harness.db

    def rebooted(self, number: int = 2) -> "House":
        """The same home after a restart: another boot id, nothing else."""
        return replace(self, harness=replace(self.harness, boot_id=f"{HOME}:boot{number}"))

    def other_door(self) -> Database:
        """A second door to the same file, as another process would have; to be closed by the test."""
        return Database(str(self.engine.url))

    @contextlib.contextmanager
    def tx(self) -> Iterator[Tx]:
        """A transaction on a connection of its own, which blocks the loop: no test needs it meanwhile."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA foreign_keys=ON")
            connection.exec_driver_sql("PRAGMA synchronous=OFF")
            yield connection

    def rows(self, query: Any) -> list[Any]:
        with self.tx() as tx:
            return list(tx.execute(query).all())

    def scalar(self, query: Any) -> Any:
        with self.tx() as tx:
            return tx.scalar(query)


def sample_tools(log: list[str]) -> Toolbox:
    """look (read), note (idempotent), push (unsafe), broken (raises), delegate_task (durable); `log` says what ran."""

    @tool(Effect.READ)
    async def look(context: ToolContext, at: str = "here") -> str:
        """Look."""
        log.append(f"look {at}")
        return f"saw {at}"

    @tool(Effect.IDEMPOTENT)
    async def note(context: ToolContext, text: str) -> str:
        """Note."""
        log.append(f"note {text}")
        return "noted"

    @tool(Effect.UNSAFE)
    async def push(context: ToolContext, what: str) -> ToolResult:
        """Push."""
        log.append(f"push {what}")
        return ToolResult(f"pushed {what}", ok=what != "wall")

    @tool(Effect.READ)
    async def broken(context: ToolContext) -> str:
        """Broken."""
        raise KeyError("a fault of the tool")

    @tool(Effect.UNSAFE, durable=True)
    async def delegate_task(
        context: ToolContext,
        task: str,
        mode: str = "wait",
        at: str | None = None,
        handed_over: str = "none",
        model: str | None = None,
    ) -> str:
        """Delegate."""
        raise AssertionError("never run in a step")

    tools: list[Tool] = [look, note, push, broken, delegate_task]
    return Toolbox.of(*tools)


def make_house(folder: Path, template: Path, *answers: Any, **settings: Any) -> House:
    """A house in `folder`, which may be lived in; `answers` are the model's, `settings` change the defaults."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "moab.db").exists():
        shutil.copyfile(template, folder / "moab.db")
    clock = ManualClock()
    log: list[str] = []
    values: dict[str, Any] = {"agent_model": "test/model", "moab_home": folder, "tool_policy": "*=allow"}
    values |= {"heartbeat_cron": "*/30 * * * *"} | settings
    conditions = Settings(_env_file=None, **values)
    workspace = Workspace(folder / "workspace")
    workspace.logs.mkdir(parents=True, exist_ok=True)
    channel = RecordingChannel()
    model = ScriptedModel(*(answers or ("Hello.",)))
    sender = RecordingSender()
    harness = Harness(
        settings=conditions,
        clock=clock,
        db=Database(f"sqlite:///{folder / 'moab.db'}"),
        sender=sender,
        channels={"test": channel} | {name: RecordingChannel(name) for name in ("terminal", "http")},
        llm=model,
        toolbox=sample_tools(log),
        workspace=workspace,
        library=Library(workspace.root),
        daily_log=DailyLog(workspace.logs, ZoneInfo(conditions.timezone), clock),
        boot_id=f"{HOME}:boot1",
        code_version="0",
    )
    engine = create_engine(f"sqlite:///{folder / 'moab.db'}", poolclass=NullPool)
    return House(harness, clock, model, sender, channel, engine, log)


def message(text: str = "hello", key: str | None = "test:1", **changes: Any) -> MessageReceived:
    """A message from a person to the test chat."""
    fields: dict[str, Any] = {
        "message": text,
        "message_key": key,
        "session_key": SESSION,
        "channel": "test",
        "destination": Destination(chat_id="7"),
    }
    return MessageReceived(**fields | changes)


def flow(session_id: str, run: str = RUN, **changes: Any) -> Flow:
    """The conditions of a turn in the test chat."""
    fields: dict[str, Any] = {
        "run_id": run,
        "session_key": SESSION,
        "session_id": session_id,
        "model": "test/model",
        "max_iterations": 20,
        "policy": Policy(rules=({"*": "allow"},)),
    }
    return Flow(**fields | changes)


async def begin(house: House, text: str = "hello", key: str = "test:1", run: str = RUN, **changes: Any) -> Flow:
    """What `receive` says to a message."""
    event = message(text, key, **changes)
    return Flow.model_validate(await receive(house.harness, run, event, key, changes.get("origin") != "task"))


def ask(number: int = 0, **changes: Any) -> dict[str, Any]:
    """The request of a think step."""
    request = {"key": f"think#{number}", "iteration": number, "model": "test/model"}
    return request | {"waits": 0, "shrink": 0, "nudge": False} | changes


def wishes(*calls: tuple[str, Mapping[str, Any] | str], text: str = "") -> Completion:
    """A model's answer that wishes for tools, with one provider id for all of them."""
    return Completion(
        text,
        tuple(
            ToolWish("call_1", name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls
        ),
    )


class DirectSteps:
    """Runs bodies one after the other and remembers nothing; sleeping moves the clock. Implements `Steps`."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.ids: list[str] = []

    async def run(self, step_id: str, body: Any, *args: Any) -> Mapping[str, Any]:
        self.ids.append(step_id)
        return dict(json.loads(json.dumps(await body(*args))))

    async def parallel(self, wanted: Sequence[tuple[str, Any, Any]]) -> Sequence[Mapping[str, Any]]:
        return [await self.run(step_id, body, argument) for step_id, body, argument in wanted]

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        self.ids.append(step_id)
        self._house.clock.advance(max(0.0, (until - self._house.clock.now()).total_seconds()))

    async def wait_for_decision(self, step_id: str, ask: Ask, beside: tuple[str, Any, Any] | None) -> None:
        if beside is not None:
            await self.run(*beside)
        self.ids.append(step_id)
        self._house.clock.advance(ask.wait_s)

    async def invoke(self, step_id: str, function_id: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        self.ids.append(step_id)
        return {"ok": True, "value": {"text": "the child's answer", "ok": True}}


async def whole_turn(house: House, text: str = "hello", key: str = "test:1", run: str = RUN) -> Ending:
    """A message from its receipt to the end of its turn."""
    conditions = await begin(house, text, key, run)
    return await run_turn(DirectSteps(house), bodies_of(house.harness, conditions), conditions)


REACHING = (
    accept,
    act,
    approval,
    compaction,
    decision,
    fetch,
    finish,
    outside,
    receive_module,
    speak,
    think,
    transcribe,
    wakes,
    delivery,
)
"""The modules with failpoints."""


class Killed(BaseException):
    """What `kill_at` raises where a failpoint would end the process."""


@contextlib.contextmanager
def kill_at(*points: str) -> Iterator[None]:
    """Ends the block at the first of these failpoints that is reached, as `kill -9` would; fails if none is."""

    def die(name: str) -> None:
        if name in points:
            raise Killed(name)

    with pytest.MonkeyPatch.context() as patch:
        for module in REACHING:
            patch.setattr(module, "reach", die)
        with pytest.raises(Killed):
            yield


async def run_command_of(house: House, event: CommandReceived) -> str:
    """Carry a command out; what it said."""
    key = event.message_key or "test:command"
    await run_command(house.harness, event, key)
    query = deliveries.select().where(deliveries.c.key == f"{key}/command/0")
    return str(house.rows(query)[0].text)
