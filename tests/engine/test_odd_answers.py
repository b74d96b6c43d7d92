"""Answers that no SDK should give: they end their own run at most, and nobody else notices."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.lab import EVENT_KEY, SIGNING_KEY, Lab
from tests.engine.sample_functions import build

HUGE = "9" * 400
HALF = "\\ud83d"
STEP = {"id": "a" * 40, "op": "StepRun", "displayName": "s", "data": 1}


def operation(**changes: Any) -> tuple[int, dict[str, str], str]:
    return 206, {}, json.dumps([STEP | changes]).replace("HALF", HALF)


ODD = {
    "a retry after three thousand million years": (500, {"retry-after": "9" * 20}, "{}"),
    "a retry after a superscript": (500, {"retry-after": "\u00b2"}, "{}"),
    "a version of 23 digits": (206, {"x-inngest-req-version": "9" * 23}, json.dumps([STEP])),
    "a version in superscript": (206, {"x-inngest-req-version": "\u00b2"}, json.dumps([STEP])),
    "a wait of many weeks": operation(op="WaitForEvent", name="x", opts={"timeout": f"{'9' * 20}w"}),
    "a wait of more weeks than a number has room for": operation(
        op="WaitForEvent", name="x", opts={"timeout": HUGE + "w"}
    ),
    "an invocation with half a letter": operation(op="InvokeFunction", opts={"function_id": "HALF"}),
    "an invocation of many weeks": operation(
        op="InvokeFunction", opts={"function_id": "rec-no-steps", "timeout": HUGE + "w"}
    ),
    "a sleep to the end of the calendar": operation(op="Sleep", name="9999-12-31T23:59:59-14:00"),
    "a sleep from before the calendar": operation(op="Sleep", name="0001-01-01T00:00:00+14:00"),
    "half a letter in a step's label": operation(displayName="HALF"),
    "half a letter in an event's name": operation(op="WaitForEvent", name="HALF", opts={"timeout": "1h"}),
    "half a letter in an id": operation(id="HALF"),
    "half a letter in a model's address": operation(op="AIGateway", opts={"url": "HALF", "body": {}}),
    "half a letter in an unknown operation": operation(op="HALF"),
    "a result of 900 lists": (200, {}, "[" * 900 + "]" * 900),
    "a step of 900 lists": (206, {}, json.dumps([STEP | {"data": "DEEP"}]).replace('"DEEP"', "[" * 900 + "]" * 900)),
}


class Odd:
    """An app that gives one odd answer, and then goes on as it is."""

    def __init__(self, app: Any, answer: tuple[int, dict[str, str], str]) -> None:
        self._app, self._answers = app, [answer]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST" or not self._answers:
            await self._app(scope, receive, send)
            return
        status, headers, body = self._answers.pop()
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body.encode()})


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD.keys())
async def test_an_odd_answer_stops_nobody_else(tmp_path: Path, answer: tuple[int, dict[str, str], str]) -> None:
    lab = Lab(tmp_path / "engine.db", build)
    app = lab.app
    lab.app = Odd(app, answer)  # type: ignore[assignment]
    await lab.start()
    odd = await lab.send("rec/no-steps")
    assert lab.engine.healthy
    await lab.pass_time(120, step_s=10)
    assert (await lab.run_of(await lab.send("rec/two-steps"))).run.status == "Completed"
    await lab.engine.stop()
    await lab.engine.start()
    await lab.engine.attach(app, signing_key=lab._key)
    assert lab.engine.healthy
    assert (await lab.run_of(await lab.send("rec/two-steps"))).run.status == "Completed"
    run = (await lab.run_of(odd)).run
    headers = {"authorization": f"Bearer {SIGNING_KEY}"}
    transport = httpx.ASGITransport(app=lab.engine.api)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", headers=headers) as client:
        for path in ("/v1/runs", f"/v1/runs/{run.id}", f"/v1/runs/{run.id}/trace"):
            assert (await client.get(path)).status_code == 200, path
    await lab.engine.stop()


async def test_an_answer_that_cannot_be_applied_ends_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the engine itself: nothing may hang."""
    lab = Lab(tmp_path / "engine.db", build)
    await lab.start()

    def broken(*_: Any) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(lab.engine._core._answers, "_operate", broken)
    run = await lab.run_of(await lab.send("rec/two-steps"))
    assert run.run.status == "Failed" and "could not be applied (OverflowError: too large)" in str(run.run.output)
    await lab.engine.stop()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/events?limit=\u00b2", None, 200),
        ("GET", "/v1/runs?limit=\u00b2", None, 400),
        ("GET", "/v1/runs?since=9999-12-31T23:59:59-14:00", None, 200),
        ("POST", "/fn/register", "[" * 5_000 + "]" * 5_000, 422),
        (
            "POST",
            "/fn/register",
            '{"appname": "odd", "url": "http://127.0.0.1:1/", "functions": [{"id": "odd-f", '
            '"triggers": [{"event": "x"}], "steps": {"step": {"retries": {"attempts": 1e999}}}}]}',
            422,
        ),
    ],
)
async def test_odd_requests_are_told_what_is_wrong(
    tmp_path: Path, method: str, path: str, body: str | None, status: int
) -> None:
    lab = Lab(tmp_path / "engine.db", build)
    await lab.start()
    headers = {"authorization": f"Bearer {SIGNING_KEY}"}
    transport = httpx.ASGITransport(app=lab.engine.api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", headers=headers) as client:
        answer = await client.request(method, path, content=body)
    assert answer.status_code == status and answer.json()
    assert EVENT_KEY not in answer.text
    await lab.engine.stop()
