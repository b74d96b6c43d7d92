"""Who may look and press: loopback, the token, the cookie made from it, and forms of our own pages alone."""

from dataclasses import replace

import httpx
import pytest
from pydantic import SecretStr

from app.web.access import COOKIE
from tests.unit.house import House
from tests.unit.web.dashboard_desk import HERE, FakeDesk, browser, form_token, run_row

TOKEN = "the-token-of-the-api"
RUN = run_row()["id"]
PAGES = (
    "/",
    "/runs/x",
    "/runs/x/steps/y",
    "/events",
    "/events/x",
    "/sessions",
    "/sessions/x",
    "/approvals",
    "/functions",
)
ACTIONS = (
    f"/runs/{RUN}/replay",
    f"/runs/{RUN}/cancel",
    "/events",
    "/functions/f/pause",
    "/functions/f/resume",
    "/approvals/x",
)


def with_token(house: House, **settings: object) -> House:
    changed = house.harness.settings.model_copy(update={"api_token": SecretStr(TOKEN)} | settings)
    return replace(house, harness=replace(house.harness, settings=changed))


async def log_in(http: httpx.AsyncClient, **form: str) -> httpx.Response:
    return await http.post("/login", data={"token": TOKEN} | form, headers={"origin": HERE})


@pytest.mark.parametrize("path", PAGES)
async def test_with_a_token_set_a_stranger_is_led_to_the_login(house: House, path: str) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        answer = await http.get(path, params={"a": "b"})
        assert (answer.status_code, answer.text) == (303, "")
        assert answer.headers["location"] == f"/login?next={path.replace('/', '%2F')}%3Fa%3Db"
        assert (await http.get(path, headers={"x-fragment": "1"})).status_code == 401


async def test_a_stranger_does_not_learn_which_pages_there_are(house: House) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        answer = await http.get("/nothing", headers={"accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fnothing")
        await log_in(http)
        assert (await http.get("/nothing", headers={"accept": "text/html"})).status_code == 404


@pytest.mark.parametrize("path", ACTIONS)
async def test_no_action_without_the_token(house: House, path: str) -> None:
    desk = FakeDesk()
    async with browser(with_token(house), desk) as http:
        for cookie in ("", "1", f"9999999999.{'0' * 64}", f"9999999999.{TOKEN}", "9999999999.ü"):
            headers = {b"origin": HERE.encode(), b"cookie": f"{COOKIE}={cookie}".encode()}
            answer = await http.post(path, data={"name": "a"}, headers=headers)
            assert answer.status_code == 401
    assert desk.done == []


async def test_no_stream_without_the_token(house: House) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        assert (await http.get("/live")).status_code == 401


async def test_the_bearer_token_opens_pages_and_actions_from_anywhere(house: House) -> None:
    desk = FakeDesk()
    headers = {"authorization": f"Bearer {TOKEN}", "host": "moab.example.org"}
    async with browser(with_token(house), desk, loopback=False) as http:
        assert (await http.get("/", headers=headers)).status_code == 200
        answer = await http.post(f"/runs/{RUN}/replay", headers=headers, data={"from": "s"})
        assert answer.status_code == 303
        assert (await http.get("/", headers=headers | {"authorization": f"Bearer {TOKEN}x"})).status_code == 303
    assert desk.done == [("replay", RUN, "s")]


async def test_the_login_gives_a_cookie_that_does_not_tell_the_token(house: House) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        answer = await log_in(http, next="/events?name=a")
        assert (answer.status_code, answer.headers["location"]) == (303, "/events?name=a")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
        assert "Secure" not in cookie
        assert TOKEN not in cookie
        assert (await http.get("/")).status_code == 200
        page = (await http.get("/")).text
        left = await http.post("/logout", data={"form_token": form_token(page)}, headers={"origin": HERE})
        assert left.status_code == 303
        assert (await http.get("/")).status_code == 303


async def test_the_cookie_ends_and_cannot_be_prolonged(house: House) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        await log_in(http)
        until, _, signature = http.cookies[COOKIE].partition(".")
        house.clock.advance(31 * 86_400)
        assert (await http.get("/")).status_code == 303
        http.cookies.set(COOKIE, f"{int(until) + 10_000_000}.{signature}", domain="127.0.0.1", path="/")
        assert (await http.get("/")).status_code == 303


async def test_over_https_the_cookie_stays_there(house: House) -> None:
    async with browser(with_token(house), FakeDesk(), url="https://moab.example.org", loopback=False) as http:
        answer = await http.post("/login", data={"token": TOKEN}, headers={"origin": "https://moab.example.org"})
        assert "Secure" in answer.headers["set-cookie"]


async def test_a_wrong_token_or_a_foreign_form_does_not_log_in(house: House) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        wrong = await log_in(http, token="wrong")
        foreign = await http.post("/login", data={"token": TOKEN}, headers={"origin": "https://evil.example"})
        for answer in (wrong, foreign):
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
        assert "This is not the value of MOAB_API_TOKEN." in wrong.text


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example", "", "/a\r\nb: c"])
async def test_the_login_leads_nowhere_else(house: House, target: str) -> None:
    async with browser(with_token(house), FakeDesk()) as http:
        assert (await log_in(http, next=target)).headers["location"] == "/"


async def test_the_cookie_does_not_open_a_form_of_another_page(house: House) -> None:
    desk = FakeDesk()
    async with browser(with_token(house), desk) as http:
        await log_in(http)
        token = form_token((await http.get("/functions")).text)
        for path in ACTIONS:
            refused = [
                await http.post(path, data={"name": "a"}, headers={"origin": HERE}),
                await http.post(path, data={"name": "a", "form_token": "x"}, headers={"origin": HERE}),
                await http.post(path, data={"form_token": token}, headers={"origin": "https://evil.example"}),
                await http.post(path, data={"form_token": token}, headers={"origin": "null"}),
                await http.post(path, data={"form_token": token}, headers={"sec-fetch-site": "cross-site"}),
            ]
            assert [answer.status_code for answer in refused] == [403] * 5
        assert desk.done == []
        answer = await http.post("/functions/f/pause", data={"form_token": token}, headers={"origin": HERE})
        assert answer.status_code == 303
    assert desk.done == [("pause", "f")]


async def test_on_loopback_without_a_token_only_loopback_names_are_answered(house: House) -> None:
    async with browser(house, FakeDesk()) as http:
        for host in ("127.0.0.1:8787", "localhost:8787", "[::1]:8787"):
            assert (await http.get("/", headers={"host": host})).status_code == 200
        for host in ("moab.example.org", "127.0.0.1.evil.example:8787", ""):
            answer = await http.get("/", headers={"host": host})
            assert answer.status_code == 403
            assert "Without MOAB_API_TOKEN" in answer.text and RUN not in answer.text
        assert (await http.get("/login")).headers["location"] == "/"
    async with browser(house, FakeDesk(), loopback=False) as http:
        assert (await http.get("/")).status_code == 403


async def test_on_loopback_too_a_form_needs_its_token_and_its_origin(house: House) -> None:
    desk = FakeDesk()
    async with browser(house, desk) as http:
        token = form_token((await http.get("/functions")).text)
        path = "/functions/f/pause"
        wrong = ({"a": "b"}, HERE), ({"form_token": token}, "http://evil.example"), ({"form_token": "x"}, HERE)
        for form, origin in wrong:
            assert (await http.post(path, data=form, headers={"origin": origin})).status_code == 403
        other_port = {"origin": "http://127.0.0.1:9999"}
        assert (await http.post(path, data={"form_token": token}, headers=other_port)).status_code == 403
        assert desk.done == []
        json = await http.post(path, json={"form_token": token}, headers={"origin": HERE})
        assert json.status_code == 400
        assert (await http.post(path, data={"form_token": token}, headers={"origin": HERE})).status_code == 303
    assert desk.done == [("pause", "f")]


async def test_a_form_from_before_a_restart_says_so(house: House) -> None:
    async with browser(house, FakeDesk()) as http:
        old = form_token((await http.get("/functions")).text)
    async with browser(house, FakeDesk()) as http:
        answer = await http.post("/functions/f/pause", data={"form_token": old}, headers={"origin": HERE})
        assert answer.status_code == 403
        assert "before a restart" in answer.text


async def test_another_site_opens_no_stream(house: House) -> None:
    async with browser(house, FakeDesk()) as http:
        assert (await http.get("/live", headers={"origin": "http://evil.example"})).status_code == 403
