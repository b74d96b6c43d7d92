"""The page of requests: what is asked is shown whole and harmless, and a decision that does not fit is said."""

import httpx
import pytest

from tests.unit.agent.test_agent_approval import do, planned, result
from tests.unit.house import House
from tests.unit.web.dashboard_desk import HERE, FakeDesk, browser, form_token

LONG = "<script>alert(1)</script>" + "x" * 30_000 + "THE END"


async def post(http: httpx.AsyncClient, path: str, **form: str) -> httpx.Response:
    token = form_token((await http.get("/functions")).text)
    return await http.post(path, data={"form_token": token} | form, headers={"origin": HERE})


async def test_what_is_approved_is_seen_whole_and_escaped(house: House) -> None:
    flow = await planned(house, what=LONG)
    asked = (await do(house, flow)).ask
    assert asked is not None
    async with browser(house, FakeDesk()) as http:
        page = (await http.get("/approvals")).text
        assert "THE END" in page and "<script>alert" not in page and "&lt;script&gt;alert" in page
        assert f"/runs/{flow.run_id}" in page
        done = await post(http, f"/approvals/{asked.id}", decision="deny", words="no")
        assert (done.status_code, done.headers["location"]) == (303, "/approvals")
        assert "Nothing waits for a person" in (await http.get("/approvals")).text
    await do(house, flow)
    assert result(house)[0] == "finished" and "no" in result(house)[1] and house.log == []


async def test_it_works_where_runs_are_kept_elsewhere(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    async with browser(house, None) as http:
        page = (await http.get("/approvals")).text
        assert "May <b>push</b> be run" in page and f"/runs/{flow.run_id}" not in page


@pytest.mark.parametrize(
    ("number", "form", "status", "said"),
    [
        ("NOTHING1", {"decision": "approve"}, 404, "There is no request NOTHING1."),
        ("NOTHING1", {"decision": "perhaps"}, 400, "A decision is approve, deny or answer"),
        ("NOTHING1", {}, 400, "A decision is approve, deny or answer"),
        ("NOTHING1", {"decision": "deny", "words": "x" * 10_001}, 400, "at most 10,000 characters"),
    ],
)
async def test_what_does_not_fit_is_said(
    house: House, number: str, form: dict[str, str], status: int, said: str
) -> None:
    async with browser(house, FakeDesk()) as http:
        answer = await post(http, f"/approvals/{number}", **form)
        assert answer.status_code == status and said in answer.text
