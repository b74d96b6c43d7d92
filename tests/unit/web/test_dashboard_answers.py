"""How pages are answered: headers, static files, errors, buttons; over an engine that is a list."""

from datetime import datetime
from typing import Any

import pytest

from app.agent.flow import Flow
from app.db import Tx
from app.engine.model import STATUSES as ENGINE_STATUSES
from app.errors import ServiceUnavailable
from app.sessions import calls, transcript
from app.sessions.transcript import NewCall
from app.web.dashboard import STATUSES
from app.web.pages import CONTENT_POLICY, STATIC
from tests.unit.house import House, begin
from tests.unit.web.dashboard_desk import HERE, FakeDesk, browser, form_token, run_row, step_row

RUN = run_row()["id"]


async def press(http: Any, path: str, **form: str) -> Any:
    token = form_token((await http.get("/functions")).text)
    return await http.post(path, data=form | {"form_token": token}, headers={"origin": HERE})


async def test_every_page_comes_with_a_strict_policy_and_nothing_inline(house: House) -> None:
    async with browser(house, FakeDesk()) as http:
        for path in ("/", f"/runs/{RUN}", "/events", "/sessions", "/functions", "/runs/none", "/login?next=/x"):
            answer = await http.get(path)
            if answer.status_code == 303:
                continue
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert "style=" not in answer.text and "onclick" not in answer.text and "<style" not in answer.text
            assert answer.text.count("<script") == 1 and "<script src=" in answer.text


@pytest.mark.parametrize(("file", "kind"), STATIC.items())
async def test_static_files_have_their_type_and_are_kept(house: House, file: str, kind: str) -> None:
    async with browser(house, FakeDesk()) as http:
        page = (await http.get("/")).text
        address = f"/static/{file}"
        versioned = address + page.partition(address)[2].partition('"')[0]
        assert "?v=" in versioned
        answer = await http.get(versioned)
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = await http.get(address, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("file", ["none.css", "..%2Fpages.py", "dashboard.css%00", "%2e%2e"])
async def test_no_other_file_is_given_out(house: House, file: str) -> None:
    async with browser(house, FakeDesk()) as http:
        assert (await http.get(f"/static/{file}")).status_code == 404


async def test_what_is_not_there_is_a_page_that_says_so(house: House) -> None:
    async with browser(house, FakeDesk()) as http:
        for path in ("/runs/none", f"/runs/{RUN}/steps/none", "/events/none", "/sessions/none", "/sessions/a/b"):
            answer = await http.get(path)
            assert answer.status_code == 404, path
            assert "Not found" in answer.text
        fragment = await http.get("/runs/none", headers={"x-fragment": "1"})
        assert (fragment.status_code, "<html" in fragment.text) == (404, False)


@pytest.mark.parametrize("path", ["/nothing", "/runs/a/b/c", "/static", "/<script>alert(1)</script>"])
async def test_an_address_where_nothing_is_has_a_page_for_browsers(house: House, path: str) -> None:
    async with browser(house, FakeDesk()) as http:
        page = await http.get(path, headers={"accept": "text/html,*/*;q=0.8"})
        program = await http.get(path, headers={"accept": "*/*"})
        posted = await http.post(path, headers={"accept": "text/html"})

    assert page.status_code == program.status_code == posted.status_code == 404
    assert "Not found" in page.text and "There is nothing at /" in page.text and "<script>" not in page.text
    assert page.headers["content-security-policy"] == CONTENT_POLICY
    assert program.json() == posted.json() == {"error": f"There is nothing at {path}."}


async def test_an_address_where_nothing_is_tells_a_stranger_nothing(house: House) -> None:
    async with browser(house, FakeDesk(), loopback=False) as http:
        answer = await http.get("/nothing", headers={"accept": "text/html"})

    assert answer.status_code == 403


def test_the_statuses_to_filter_by_are_the_engines() -> None:
    assert STATUSES == ENGINE_STATUSES


async def test_an_error_inside_tells_nothing_of_itself(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = FakeDesk()

    async def broken(*_: Any) -> Any:
        raise KeyError("a detail of the inside")

    async def stopped(*_: Any) -> Any:
        raise ServiceUnavailable("The engine is not running; start it first.")

    async with browser(house, desk) as http:
        monkeypatch.setattr(desk, "runs", broken)
        answer = await http.get("/")
        assert (answer.status_code, "a detail" in answer.text) == (500, False)
        monkeypatch.setattr(desk, "runs", stopped)
        answer = await http.get("/")
        assert (answer.status_code, "not running" in answer.text) == (503, True)


async def test_the_script_gets_the_changing_part_alone(house: House) -> None:
    async with browser(house, FakeDesk()) as http:
        for path in ("/", f"/runs/{RUN}", "/events", "/sessions", "/functions"):
            whole, part = await http.get(path), await http.get(path, headers={"x-fragment": "1"})
            assert "<html" in whole.text and "<html" not in part.text
            assert part.text.strip().splitlines()[0] in whole.text


async def test_filters_and_paging_reach_the_engine(house: House) -> None:
    desk = FakeDesk(rows=[run_row(n) for n in range(60, 0, -1)])
    async with browser(house, desk) as http:
        page = await http.get("/", params={"status": "Failed", "function": "f&g", "session": 's"1', "before": "X"})
        assert desk.asked == [(51, "Failed", "f&g", 's"1', "X")]
        assert f"before={run_row(11)['id']}" in page.text
        assert "function=f%26g&amp;session=s%221" in page.text
        assert run_row(11)["id"] in page.text and run_row(10)["id"] not in page.text
        assert "data-live" not in page.text
        await http.get("/", params={"status": "", "session": " "})
        assert desk.asked[-1] == (51, None, None, None, None)


async def test_the_buttons_do_what_they_say(house: House) -> None:
    desk = FakeDesk()
    async with browser(house, desk) as http:
        replayed = await press(http, f"/runs/{RUN}/replay", **{"from": "hash-think"})
        cancelled = await press(http, f"/runs/{RUN}/cancel")
        resumed = await press(http, "/functions/moab-heartbeat/resume")
        sent = await press(http, "/events", name=" a.b ", data='{"x": 1}')
    places = [answer.headers["location"] for answer in (replayed, cancelled, resumed, sent)]
    assert places == ["/runs/01RUN2", f"/runs/{RUN}", "/functions", "/events/E2"]
    assert desk.done == [
        ("replay", RUN, "hash-think"),
        ("cancel", RUN),
        ("resume", "moab-heartbeat"),
        ("send", "a.b", "{'x': 1}"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("", "{}", "The event needs a name"),
        ("a", "{x}", "The data is not JSON"),
        ("a", "[" * 100_000, "The data is not JSON"),
        ("a", "[1]", "must be a JSON object"),
        ("a", "NaN", "must be a JSON object"),
        ("inngest/a", "{}", "are the engine&#39;s own"),
    ],
)
async def test_an_event_that_does_not_fit_is_explained_beside_the_form(
    house: House, name: str, data: str, fault: str
) -> None:
    desk = FakeDesk()
    async with browser(house, desk) as http:
        answer = await press(http, "/events", name=name, data=data)
    assert answer.status_code == 400
    assert fault in answer.text and 'role="alert"' in answer.text
    assert f'value="{name}"' in answer.text and data[:50] in answer.text
    assert desk.done == []


async def test_calls_that_may_do_harm_twice_are_named_before_a_replay(house: House) -> None:
    flow = await begin(house)
    await house.db.write(thought_and_acted, flow, house.clock.now())
    names = ("receive", "think", "tool-push", "tool-look", "finish")
    desk = FakeDesk(rows=[run_row(id=flow.run_id)], steps=[step_row(name) for name in names])
    async with browser(house, desk) as http:
        asked = await press(http, f"/runs/{flow.run_id}/replay")
        assert asked.status_code == 200
        assert "may do harm" in asked.text and "stone" in asked.text and "sea" not in asked.text
        assert desk.done == []
        await press(http, f"/runs/{flow.run_id}/replay", anyway="yes")
        await press(http, f"/runs/{flow.run_id}/replay", **{"from": "hash-tool-look"})
    assert desk.done == [("replay", flow.run_id, ""), ("replay", flow.run_id, "hash-tool-look")]


def thought_and_acted(tx: Tx, flow: Flow, now: datetime) -> None:
    """The records of a thought with two calls, both done."""
    wished = [
        NewCall("tool#0.0", "call_1", "push", '{"what": "stone"}', "unsafe"),
        NewCall("tool#0.1", "call_1", "look", '{"at": "sea"}', "read"),
    ]
    transcript.record_assistant(
        tx, flow.session_id, run_id=flow.run_id, step_key="think#0", parent=None, text="", new_calls=wished, data={},
        now=now,
    )  # fmt: skip
    for call in wished:
        record = calls.find(tx, flow.run_id, call.step_key)
        assert record is not None
        calls.start(tx, record.id, "home:boot1", now)
        calls.finish(tx, record.id, ok=True, result="done", now=now)


async def test_with_inngest_the_runs_are_elsewhere_and_the_sessions_here(house: House) -> None:
    await begin(house, "good morning")
    async with browser(house, None, elsewhere="http://127.0.0.1:8288") as http:
        for path in ("/", "/runs/x", "/runs/x/steps/y", "/events", "/events/x", "/functions"):
            page = (await http.get(path)).text
            assert '<a href="http://127.0.0.1:8288"' in page
        assert "test:chat" in (await http.get("/sessions")).text
        talk = (await http.get("/sessions/test%3Achat")).text
        assert "good morning" in talk and "/runs/" not in talk
        token = form_token(talk)
        assert token == ""
    async with browser(house, None, elsewhere="the dashboard of Inngest Cloud") as http:
        assert "the dashboard of Inngest Cloud." in (await http.get("/")).text
