"""Steps beyond the recordings: parallel modes, waits, invocations, limits, memos."""

import asyncio
import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.engine import answers
from tests.engine.lab import Lab, running

Context = inngest.Context
_GO = inngest.TriggerEvent(event="go")


async def test_race_mode_lets_branches_run_on_their_own(tmp_path: Path) -> None:
    ran: Counter[str] = Counter()
    slow, far = asyncio.Event(), asyncio.Event()

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="race", trigger=_GO)
        async def race(ctx: Context) -> Any:
            async def body(name: str) -> str:
                ran[name] += 1
                if name == "a3":
                    far.set()
                if name == "b1":
                    await slow.wait()
                return name

            async def branch(*names: str) -> list[str]:
                return [await ctx.step.run(name, body, name) for name in names]

            both = await ctx.group.parallel(
                (lambda: branch("a1", "a2", "a3"), lambda: branch("b1", "b2")),
                parallel_mode=inngest.ParallelMode.RACE,
            )
            return [*both, await ctx.step.run("after", body, "after")]

        return [race]

    async with running(tmp_path / "engine.db", build) as lab:
        await lab.engine.send([{"name": "go"}])
        await far.wait()
        assert ran == {"a1": 1, "a2": 1, "a3": 1, "b1": 1}, "the other branch goes on while b1 is open"
        slow.set()
        await lab.engine.idle()

        (run,) = await lab.engine.runs()
        assert run.output == [["a1", "a2", "a3"], ["b1", "b2"], "after"]
        assert set(ran.values()) == {1}, "every body ran once"


async def test_wait_mode_asks_once_after_all(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="wide", trigger=_GO)
        async def wide(ctx: Context) -> Any:
            async def body(number: int) -> int:
                return number

            steps = tuple((lambda n=n: ctx.step.run(f"s{n}", body, n)) for n in range(20))
            return list(await ctx.group.parallel(steps))

        return [wide]

    async with running(tmp_path / "engine.db", build) as lab:
        run = await lab.run_of(await lab.send("go"))

        assert run.run.output == list(range(20))
        assert len([call for call in lab.app.calls if call.query["stepId"] == "step"]) == 2
        assert len(lab.app.calls) == 22


async def test_a_parallel_step_that_fails_is_tried_again_alone(tmp_path: Path) -> None:
    ran: Counter[str] = Counter()

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="mixed", trigger=_GO, retries=1)
        async def mixed(ctx: Context) -> Any:
            async def good() -> str:
                ran["good"] += 1
                return "good"

            async def flaky() -> str:
                ran["flaky"] += 1
                if ctx.attempt == 0:
                    raise ValueError("first time")
                return "flaky"

            async def bad() -> str:
                ran["bad"] += 1
                raise ValueError("always")

            async def tolerant() -> str:
                try:
                    return await ctx.step.run("bad", bad)
                except inngest.StepError as error:
                    return f"caught {error.message}"

            return list(
                await ctx.group.parallel(
                    (lambda: ctx.step.run("good", good), lambda: ctx.step.run("flaky", flaky), tolerant)
                )
            )

        return [mixed]

    async with running(tmp_path / "engine.db", build) as lab:
        event_id = await lab.send("go")
        await lab.pass_time(30, step_s=5)
        run = await lab.run_of(event_id)

    assert run.run.output == ["good", "flaky", "caught always"]
    assert ran == {"good": 1, "flaky": 2, "bad": 2}
    steps = {step.name: step for step in run.steps}
    assert (steps["flaky"].attempt, len(steps["flaky"].failures)) == (1, 1)
    assert (steps["bad"].status, len(steps["bad"].failures)) == ("Failed", 2)
    assert steps["bad"].error["message"] == "always"
    assert steps["good"].output == "good"


def _waits(timeout_s: int, if_exp: str | None = None) -> Any:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="waits", trigger=_GO)
        async def waits(ctx: Context) -> Any:
            event = await ctx.step.wait_for_event(
                "wait", event="answer", if_exp=if_exp, timeout=datetime.timedelta(seconds=timeout_s)
            )
            return dict(event.data) if event else None

        return [waits]

    return build


async def test_one_event_wakes_every_waiter_and_only_once(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", _waits(60)) as lab:
        ids = [await lab.send("go") for _ in range(3)]
        await lab.send("answer", {"n": 1})
        await lab.send("answer", {"n": 2})

        assert [(await lab.run_of(event_id)).run.output for event_id in ids] == [{"n": 1}] * 3


async def test_a_wait_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, _waits(60, "event.data.id == async.data.id")) as lab:
        clock, mine = lab.clock, await lab.send("go", {"id": 1})
        late = await lab.send("go", {"id": 2})
    async with running(path, _waits(60, "event.data.id == async.data.id"), clock=clock) as lab:
        await lab.send("answer", {"id": 1})
        assert (await lab.run_of(mine)).run.output == {"id": 1}
        await lab.pass_time(61, step_s=10)
        assert (await lab.run_of(late)).run.status == "Completed"
        assert (await lab.run_of(late)).run.output is None


async def test_a_wait_that_timed_out_while_stopped_ends_at_start(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, _waits(60)) as lab:
        clock, event_id = lab.clock, await lab.send("go")
    clock.advance(3_600)
    async with running(path, _waits(60), clock=clock) as lab:
        await lab.engine.idle()
        assert (await lab.run_of(event_id)).run.status == "Completed"


async def test_a_bad_condition_fails_the_step_by_name(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", _waits(60, "event.data.id ==")) as lab:
        run = await lab.run_of(await lab.send("go"))

    assert run.run.status == "Failed"
    assert run.run.output["name"] == "InvalidExpression"


def _invokes(**options: Any) -> Any:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="callee", trigger=inngest.TriggerEvent(event="callee"))
        async def callee(ctx: Context) -> Any:
            await ctx.step.sleep("long", datetime.timedelta(seconds=30))
            return ctx.event.data["x"]

        @client.create_function(fn_id="caller", trigger=_GO, retries=0, cancel=[inngest.Cancel(event="stop")])
        async def caller(ctx: Context) -> Any:
            name = options.get("function_id", "callee")
            timeout = options.get("timeout")
            try:
                return await ctx.step.invoke_by_id("call", function_id=name, data={"x": 7}, timeout=timeout)
            except inngest.StepError as error:
                return [error.name, error.message]

        return [callee, caller]

    return build


async def test_an_invocation_waits_for_its_function_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, _invokes()) as lab:
        clock, event_id = lab.clock, await lab.send("go")
    async with running(path, _invokes(), clock=clock) as lab:
        await lab.pass_time(35, step_s=5)
        run = await lab.run_of(event_id)

    assert (run.run.status, run.run.output) == ("Completed", 7)
    assert (run.steps[0].op, run.steps[0].target, run.steps[0].output) == ("InvokeFunction", "rec-callee", 7)


async def test_an_invocation_times_out_like_the_real_one(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", _invokes(timeout=datetime.timedelta(seconds=10))) as lab:
        event_id = await lab.send("go")
        await lab.pass_time(11)
        run = await lab.run_of(event_id)
        await lab.pass_time(30, step_s=10)

        assert run.run.output == ["InngestInvokeTimeoutError", "Timed out waiting for invoked function to complete"]
        assert [callee.status for callee in await lab.runs_of("rec-callee")] == ["Completed"], "the callee goes on"


async def test_an_unknown_function_fails_the_step(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", _invokes(function_id="nobody")) as lab:
        run = await lab.run_of(await lab.send("go"))

    assert run.run.output == ["FunctionNotFound", "could not find function with ID: rec-nobody"]


async def test_a_cancelled_callee_fails_the_step(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", _invokes()) as lab:
        event_id = await lab.send("go")
        (callee,) = await lab.runs_of("rec-callee")
        await lab.engine.cancel(callee.id)
        await lab.engine.idle()
        run = await lab.run_of(event_id)

    assert run.run.output[0] == "FunctionCancelled"


async def test_a_child_outlives_its_cancelled_parent(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", _invokes()) as lab:
        event_id = await lab.send("go")
        await lab.send("stop")
        await lab.pass_time(31, step_s=10)

        assert (await lab.run_of(event_id)).run.status == "Cancelled"
        assert [child.status for child in await lab.runs_of("rec-callee")] == ["Completed"]


async def test_steps_are_memoized_as_they_were(tmp_path: Path) -> None:
    values = [
        None,
        True,
        0,
        "",
        [],
        {},
        {"data": 1},
        {"error": "x"},
        "é\u2028😀\\",
        2**60,
        1.5,
        {"deep": [[{"a": None}]]},
    ]
    seen: list[Any] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="values", trigger=_GO)
        async def all_values(ctx: Context) -> Any:
            async def give(value: Any) -> Any:
                return value

            seen[:] = [await ctx.step.run("v", give, value) for value in values]
            return seen

        return [all_values]

    async with running(tmp_path / "engine.db", build) as lab:
        run = await lab.run_of(await lab.send("go"))

    assert run.run.output == values
    assert seen == values
    assert [step.output for step in run.steps] == values


@pytest.mark.parametrize(
    ("limit", "value", "named"),
    [("MAX_STEPS", 3, "at most 3"), ("MAX_STEP_BYTES", 50, "step 's'"), ("MAX_STATE_BYTES", 250, "run's state")],
)
async def test_limits_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, named: str
) -> None:
    monkeypatch.setattr(answers, limit, value)

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="big", trigger=_GO)
        async def big(ctx: Context) -> None:
            async def body() -> str:
                return "x" * 80

            for _ in range(5):
                await ctx.step.run("s", body)

        return [big]

    async with running(tmp_path / "engine.db", build) as lab:
        run = await lab.run_of(await lab.send("go"))
        await lab.pass_time(60, step_s=20)

    assert run.run.status == "Failed"
    assert run.run.output["name"] == "LimitExceeded"
    assert named in run.run.output["message"]
    assert len(run.steps) <= 4


async def test_a_thousand_steps_fit(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="long", trigger=_GO)
        async def long(ctx: Context) -> int:
            async def body(number: int) -> int:
                return number

            steps = tuple((lambda n=n: ctx.step.run(f"s{n}", body, n)) for n in range(answers.MAX_STEPS))
            return len(await ctx.group.parallel(steps))

        return [long]

    # The SDK needs 20 ms to replay so many; a hundred of them in flight show the same.
    original, answers.MAX_STEPS = answers.MAX_STEPS, 100
    try:
        async with running(tmp_path / "engine.db", build) as lab:
            run = await lab.run_of(await lab.send("go"))
    finally:
        answers.MAX_STEPS = original

    assert run.run.output == 100


async def test_an_unknown_operation_fails_its_step(lab: Lab) -> None:
    async def answer_unknown(scope: Any, receive: Any, send: Any) -> None:
        body = b'[{"id":"abc","op":"Teleport","name":"t","displayName":"t"}]'
        if b'"stack":["abc"]' in (await receive())["body"].replace(b" ", b""):
            body = b'"done"'
        await send({"type": "http.response.start", "status": 200 if body == b'"done"' else 206, "headers": []})
        await send({"type": "http.response.body", "body": body})

    lab.app._app = answer_unknown
    run = await lab.run_of(await lab.send("rec/no-steps"))

    assert run.run.output == "done"
    assert run.steps[0].error["message"] == "This engine has no operation 'Teleport'."


@pytest.mark.parametrize(
    ("status", "body"),
    [(206, b"[]"), (206, b'{"not": "a list"}'), (200, b"no json"), (502, b"<html>bad gateway</html>"), (204, b"")],
)
async def test_answers_that_make_no_sense_are_tried_again(lab: Lab, status: int, body: bytes) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    sound, lab.app._app = lab.app._app, answer
    event_id = await lab.send("rec/no-steps")
    run = await lab.run_of(event_id)
    assert run.run.status == "Running"
    assert run.failures[0].error["name"] == "InvalidResponse"

    lab.app._app = sound
    await lab.pass_time(30, step_s=5)
    assert (await lab.run_of(event_id)).run.status == "Completed"


async def test_a_streamed_answer_is_unwrapped(lab: Lab) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        inner = b'   {"status": 200, "headers": {"X-Inngest-Req-Version": "2"}, "body": "{\\"ok\\": 1}"}'
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": inner})

    lab.app._app = answer
    run = await lab.run_of(await lab.send("rec/no-steps"))

    assert run.run.output == {"ok": 1}


async def test_numbers_that_are_no_json_become_null(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="odd", trigger=_GO)
        async def odd(ctx: Context) -> Any:
            async def give() -> Any:
                return {"nan": float("nan"), "half": "\ud83d"}

            return await ctx.step.run("s", give)

        return [odd]

    async with running(tmp_path / "engine.db", build) as lab:
        run = await lab.run_of(await lab.send("go"))

    assert run.run.output == {"nan": None, "half": "\ufffd"}


async def test_a_step_may_send_events_to_the_engine(tmp_path: Path) -> None:
    """What it starts must not inherit the sender's context, where the SDK keeps the step that is running."""
    engine: list[Any] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="sends", trigger=_GO)
        async def sends(ctx: Context) -> Any:
            async def send() -> Any:
                return await engine[0].send([{"name": "child"}, {"name": "child", "ts": engine[0].now_ms() + 5_000}])

            return await ctx.step.run("send", send)

        @client.create_function(fn_id="child", trigger=inngest.TriggerEvent(event="child"), retries=0)
        async def child(ctx: Context) -> str:
            async def body() -> str:
                return "ran"

            return await ctx.step.run("s", body)

        return [sends, child]

    async with running(tmp_path / "engine.db", build) as lab:
        engine.append(lab.engine)
        await lab.send("go")
        await lab.pass_time(6)

        assert [run.output for run in await lab.runs_of("rec-child")] == ["ran", "ran"]
