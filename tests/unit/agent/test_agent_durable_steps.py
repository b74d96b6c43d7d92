"""The SDK's steps as the loop knows them: clean answers, faults of ours as values, dead infrastructure as errors."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import inngest
import pytest
from sqlalchemy.exc import OperationalError

from app.agent.steps import DurableSteps, key_of, parse, unless_crashed
from app.events import MessageReceived
from tests.unit.house import RUN, message


@dataclass
class FakeStep:
    """The part of the SDK's step object that is used; runs bodies at once."""

    outcome: Any = None
    asked: list[Any] = field(default_factory=list)

    async def run(self, step_id: str, handler: Any) -> Any:
        self.asked.append(step_id)
        return await handler()

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        self.asked.append((step_id, until))

    async def invoke_by_id(self, step_id: str, **options: Any) -> Any:
        self.asked.append((step_id, options))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass
class FakeContext:
    """The part of a run's context that is used."""

    attempt: int = 0
    run_id: str = RUN
    step: FakeStep = field(default_factory=FakeStep)
    event: Any = None


def steps_of(attempt: int = 0, outcome: Any = None) -> tuple[DurableSteps, FakeContext]:
    ctx = FakeContext(attempt, step=FakeStep(outcome))
    return DurableSteps(ctx), ctx  # type: ignore[arg-type]


async def test_an_answer_passes_through_clean() -> None:
    steps, ctx = steps_of()

    async def body(text: str, *, _more: int = 0) -> dict[str, Any]:
        return {"text": text, "big": 2**60, "nan": float("nan")}

    assert await steps.run("think", body, "a\ud800\x00") == {"text": "a?", "big": str(2**60), "nan": None}
    assert ctx.step.asked == ["think"]


async def broken() -> dict[str, Any]:
    raise KeyError("a fault of ours")


@pytest.mark.parametrize("attempt", [0, 1])
async def test_a_fault_of_ours_is_tried_again_twice(attempt: int) -> None:
    steps, _ = steps_of(attempt)
    with pytest.raises(KeyError):
        await steps.run("think", broken)


@pytest.mark.parametrize("attempt", [2, 3, 8])
async def test_then_it_is_a_value(attempt: int, caplog: pytest.LogCaptureFixture) -> None:
    steps, _ = steps_of(attempt)
    found = await steps.run("think", broken)
    assert found == {"kind": "crashed", "message": "KeyError: 'a fault of ours'"}
    assert RUN in caplog.text and "Traceback" in caplog.text


@pytest.mark.parametrize("error", [OSError("disk full"), ConnectionError(), OperationalError("s", {}, Exception())])
async def test_dead_infrastructure_is_the_engines_to_retry(error: Exception) -> None:
    steps, _ = steps_of(attempt=7)

    async def body() -> dict[str, Any]:
        raise error

    with pytest.raises(type(error)):
        await steps.run("think", body)


async def test_a_child_answers_or_fails_as_a_value() -> None:
    steps, ctx = steps_of(outcome={"text": "12"})
    assert await steps.invoke("delegate", "sub-agent", {"a": 1}) == {"ok": True, "value": {"text": "12"}}
    assert ctx.step.asked == [("delegate", {"app_id": "moab", "function_id": "sub-agent", "data": {"a": 1}})]
    steps, _ = steps_of(outcome=inngest.StepError(message="cancelled", name="E", stack=None))
    assert await steps.invoke("delegate", "sub-agent", {}) == {"ok": False, "error": "cancelled"}


async def test_sleeping_names_the_moment() -> None:
    steps, ctx = steps_of()
    until = datetime(2026, 1, 5, tzinfo=UTC)
    await steps.sleep_until("wait", until)
    assert ctx.step.asked == [("wait", until)]


def context_of(data: dict[str, Any]) -> Any:
    return FakeContext(event=inngest.Event(name="x", data=data, id="e1"))


def test_the_input_is_read_from_the_data_whatever_the_events_name() -> None:
    event = message()
    assert parse(MessageReceived, context_of(event.to_wire("x")["data"])) == event


def test_an_input_that_does_not_fit_fails_at_once_with_the_reason() -> None:
    with pytest.raises(inngest.NonRetriableError, match="sessionKey: Field required"):
        parse(MessageReceived, context_of({"message": "hello"}))


def test_the_identity_of_a_message() -> None:
    assert key_of(message(key="k1"), context_of({})) == "k1"
    assert key_of(message(key=None), context_of({})) == "event:e1"


def test_a_crashed_step_ends_the_run() -> None:
    assert unless_crashed({"kind": "done"}) == {"kind": "done"}
    with pytest.raises(inngest.NonRetriableError, match="KeyError"):
        unless_crashed({"kind": "crashed", "message": "KeyError: 'x'"})
