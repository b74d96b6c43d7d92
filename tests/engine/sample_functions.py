"""The functions that the recordings were made with, written anew: one per feature of the protocol."""

import asyncio
import datetime
import time
from typing import Any

import inngest

APP_ID = "rec"
_SECOND = datetime.timedelta(seconds=1)


def build(client: inngest.Inngest, slow_s: float = 0) -> list[inngest.Function[Any]]:
    """All of them, bound to a client. `slow_s`: how long the step of `conc` takes."""
    functions: list[inngest.Function[Any]] = []

    def function(fn_id: str, trigger: Any = None, **options: Any) -> Any:
        def register(handler: Any) -> Any:
            made = client.create_function(
                fn_id=fn_id, trigger=trigger or inngest.TriggerEvent(event=f"{APP_ID}/{fn_id}"), **options
            )(handler)
            functions.append(made)
            return made

        return register

    _simple(function)
    _failing_steps(function)
    _failing_functions(function)
    _waiting(function)
    _policies(function)
    _flow_control(function, slow_s)
    _invoking(function)
    return functions


def _simple(function: Any) -> None:
    @function("no-steps")
    async def no_steps(ctx: inngest.Context) -> Any:
        return {"ok": True}

    @function("two-steps")
    async def two_steps(ctx: inngest.Context) -> Any:
        async def one() -> Any:
            return {"n": 1}

        async def nothing() -> Any:
            return None

        return [await ctx.step.run("think", one), await ctx.step.run("think", nothing)]

    @function("sender")
    async def sender(ctx: inngest.Context) -> Any:
        events = [inngest.Event(name="rec/no-steps", data={"a": number}) for number in (1, 2)]
        return await ctx.step.send_event("emit", events)

    @function(
        "filtered",
        [
            inngest.TriggerEvent(event="rec/filtered", expression="event.data.n > 5"),
            inngest.TriggerEvent(event="rec/alt.*"),
        ],
    )
    async def filtered(ctx: inngest.Context) -> Any:
        return ctx.event.name

    @function("cron", inngest.TriggerCron(cron="* * * * *"))
    async def cron(ctx: inngest.Context) -> Any:
        return ctx.event.name

    @function(
        "lifecycle",
        [
            inngest.TriggerEvent(event="inngest/function.failed"),
            inngest.TriggerEvent(event="inngest/function.cancelled"),
            inngest.TriggerEvent(
                event="inngest/function.finished", expression="event.data.function_id == 'rec-two-steps'"
            ),
        ],
    )
    async def lifecycle(ctx: inngest.Context) -> Any:
        return ctx.event.name


def _failing_steps(function: Any) -> None:
    @function("step-retry", retries=2)
    async def step_retry(ctx: inngest.Context) -> Any:
        async def flaky() -> str:
            if ctx.attempt < 2:
                raise ValueError(f"boom {ctx.attempt}")
            return "fine"

        return await ctx.step.run("flaky", flaky)

    @function("step-fail", retries=1)
    async def step_fail(ctx: inngest.Context) -> Any:
        async def bad() -> None:
            raise ValueError("always")

        try:
            await ctx.step.run("bad", bad)
        except inngest.StepError as error:
            return {"caught": error.message}


def _failing_functions(function: Any) -> None:
    async def notified(ctx: inngest.Context) -> None:
        async def notify() -> str:
            return "notified"

        await ctx.step.run("notify", notify)

    @function("fn-fail", retries=0, on_failure=notified)
    async def fn_fail(ctx: inngest.Context) -> None:
        raise RuntimeError("fatal")

    @function("non-retriable", retries=3)
    async def non_retriable(ctx: inngest.Context) -> None:
        async def stop() -> None:
            raise inngest.NonRetriableError("stop now")

        await ctx.step.run("nr", stop)

    @function("retry-after", retries=2)
    async def retry_after(ctx: inngest.Context) -> Any:
        async def later() -> str:
            if ctx.attempt == 0:
                raise inngest.RetryAfterError("later", 3000)
            return "ok"

        return await ctx.step.run("ra", later)


def _waiting(function: Any) -> None:
    @function("sleepy")
    async def sleepy(ctx: inngest.Context) -> str:
        await ctx.step.sleep("nap", _SECOND)
        await ctx.step.sleep_until("until", datetime.datetime.now(datetime.UTC) + _SECOND)
        return "awake"

    @function("waiter")
    async def waiter(ctx: inngest.Context) -> Any:
        approval = await ctx.step.wait_for_event(
            "approval", event="rec/approve", if_exp="event.data.id == async.data.id", timeout=8 * _SECOND
        )
        nothing = await ctx.step.wait_for_event("never", event="rec/never", timeout=_SECOND)
        return {"got": approval.data if approval else None, "no": nothing}

    @function("parallel")
    async def parallel(ctx: inngest.Context) -> Any:
        async def text(value: str) -> str:
            return value

        together = await ctx.group.parallel(
            (
                lambda: ctx.step.run("a", text, "a"),
                lambda: ctx.step.run("b", text, "b"),
                lambda: ctx.step.sleep("s", _SECOND),
            )
        )
        return [list(together), await ctx.step.run("after", text, "c")]

    @function("cancel-me", cancel=[inngest.Cancel(event="rec/cancel", if_exp="event.data.id == async.data.id")])
    async def cancel_me(ctx: inngest.Context) -> str:
        await ctx.step.sleep("long", 60 * _SECOND)
        return "no"


def _policies(function: Any) -> None:
    @function("single-cancel", singleton=inngest.Singleton(key="event.data.sessionKey", mode="cancel"))
    async def single_cancel(ctx: inngest.Context) -> Any:
        async def message() -> Any:
            return ctx.event.data["m"]

        said = await ctx.step.run("one", message)
        await ctx.step.sleep("hold", 2 * _SECOND)
        return said

    @function("single-skip", singleton=inngest.Singleton(key="event.data.sessionKey", mode="skip"))
    async def single_skip(ctx: inngest.Context) -> Any:
        await ctx.step.sleep("hold", 2 * _SECOND)
        return ctx.event.data["m"]

    @function(
        "steered",
        singleton=inngest.Singleton(key="event.data.steers == false ? false : event.data.sessionKey", mode="cancel"),
    )
    async def steered(ctx: inngest.Context) -> Any:
        await ctx.step.sleep("hold", 2 * _SECOND)
        return ctx.event.data["m"]


def _flow_control(function: Any, slow_s: float) -> None:
    @function("conc", concurrency=[inngest.Concurrency(limit=1, key="event.data.k")])
    async def conc(ctx: inngest.Context) -> Any:
        async def slow() -> float:
            await asyncio.sleep(slow_s)
            return time.time()

        return await ctx.step.run("slow", slow)

    @function("batched", batch_events=inngest.Batch(max_size=3, timeout=3 * _SECOND))
    async def batched(ctx: inngest.Context) -> Any:
        return [event.data for event in ctx.events]

    @function("debounced", debounce=inngest.Debounce(period=2 * _SECOND))
    async def debounced(ctx: inngest.Context) -> Any:
        return ctx.event.data

    @function("limited", rate_limit=inngest.RateLimit(limit=1, period=60 * _SECOND))
    async def limited(ctx: inngest.Context) -> Any:
        return ctx.event.data

    @function("idem", idempotency="event.data.key")
    async def idem(ctx: inngest.Context) -> Any:
        return ctx.event.data

    @function("finish-timeout", timeouts=inngest.Timeouts(finish=2 * _SECOND))
    async def finish_timeout(ctx: inngest.Context) -> None:
        await ctx.step.sleep("long", 30 * _SECOND)


def _invoking(function: Any) -> None:
    @function("callee")
    async def callee(ctx: inngest.Context) -> Any:
        if ctx.event.data.get("fail"):
            raise inngest.NonRetriableError("callee failed")

        async def work() -> str:
            return "worked"

        return {"echo": dict(ctx.event.data), "w": await ctx.step.run("w", work), "name": ctx.event.name}

    @function("caller")
    async def caller(ctx: inngest.Context) -> Any:
        result = await ctx.step.invoke("call", function=callee, data={"x": 1})
        try:
            await ctx.step.invoke("call-bad", function=callee, data={"fail": True})
        except Exception as error:
            return {"r": result, "err": type(error).__name__, "msg": str(error)}
