"""The guard in front of the API: no token, no answer; and without one only what no web page can forge."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from app.errors import BadInput, MoabError, NotFound, ServiceUnavailable
from app.web.api import Guard, explain_errors


@asynccontextmanager
async def client(
    token: str | None, loopback: bool = True, sdk_signed: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI(openapi_url=None)
    app.add_middleware(Guard, token=token, loopback=loopback, sdk_signed=sdk_signed)
    explain_errors(app)
    for path in ("/api/x", "/health", "/webhooks/telegram", "/api/inngest"):
        app.add_api_route(path, _fine, methods=["GET", "POST"])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8787") as http:
        yield http


async def _fine() -> dict[str, bool]:
    return {"ok": True}


TOKEN = "the-token-of-the-api"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}x", 401),
        ("Bearer ü", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
async def test_with_a_token_set_it_is_needed(header: str | None, status: int) -> None:
    headers = {} if header is None else {b"authorization": header.encode()}
    async with client(TOKEN) as http:
        answer = await http.get("/api/x", headers=headers)
    assert answer.status_code == status
    if status == 401:
        assert answer.json() == {"error": "A bearer token is needed: the value of MOAB_API_TOKEN."}


async def test_a_token_opens_it_from_everywhere() -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "host": "moab.example.org", "origin": "https://moab.example.org"}
    async with client(TOKEN, loopback=False) as http:
        assert (await http.get("/api/x", headers=headers)).status_code == 200


async def test_without_one_nothing_but_loopback_is_answered() -> None:
    async with client(None, loopback=False) as http:
        answer = await http.get("/api/x")
    assert answer.status_code == 403 and "loopback only" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost:8787", "LOCALHOST", "[::1]:8787", "[::1]"])
async def test_loopback_by_any_of_its_names(host: str) -> None:
    async with client(None) as http:
        assert (await http.get("/api/x", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8787", "localhost.evil.example", "127.0.0.1.evil.example", "[", "", "0"]
)
async def test_a_rebound_name_is_refused(host: str) -> None:
    async with client(None) as http:
        assert (await http.get("/api/x", headers={"host": host})).status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8787", 200),
        ("http://localhost:3000", 200),
        ("http://[::1]:8787", 200),
        ("https://evil.example", 403),
        ("https://localhost.evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_pages_of_others_are_refused(origin: str, status: int, method: str) -> None:
    async with client(None) as http:
        answer = await http.request(method, "/api/x", headers={"origin": origin})
    assert answer.status_code == status


@pytest.mark.parametrize("path", ["/health", "/webhooks/telegram"])
async def test_what_has_a_lock_of_its_own_is_not_behind_this_one(path: str) -> None:
    async with client(TOKEN, loopback=False) as http:
        assert (await http.get(path, headers={"host": "moab.example.org"})).status_code == 200


@pytest.mark.parametrize("path", ["//api/x", "/API/x", "/api/x/", "/%61pi/x", "/./api/x", "/health/../api/x"])
async def test_no_other_spelling_leads_around_it(path: str) -> None:
    async with client(TOKEN) as http:
        answer = await http.get(httpx.URL("http://127.0.0.1:8787").copy_with(raw_path=path.encode()))
    assert answer.status_code in (307, 401, 404)


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_a_signed_sdk_route_is_left_to_the_sdk(token: str | None) -> None:
    """Inngest signs its calls and knows nothing of our token."""
    async with client(token, loopback=False, sdk_signed=True) as http:
        answer = await http.post("/api/inngest", headers={"host": "moab.example.org"})
        assert answer.status_code == 200
        assert (await http.get("/api/x", headers={"host": "moab.example.org"})).status_code != 200


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_an_unsigned_sdk_route_is_for_loopback_alone(token: str | None) -> None:
    """A Dev Server on this machine brings no token either."""
    async with client(token) as http:
        assert (await http.post("/api/inngest")).status_code == 200
        assert (await http.post("/api/inngest", headers={"host": "moab.example.org"})).status_code in (401, 403)
        assert (await http.post("/api/inngest", headers={"origin": "https://evil.example"})).status_code in (401, 403)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (BadInput("That does not fit."), 400, "That does not fit."),
        (NotFound(), 404, "There is no such thing."),
        (ServiceUnavailable("Later."), 503, "Later."),
        (MoabError("Our fault."), 500, "Our fault."),
        (KeyError("secret detail"), 500, "Something went wrong inside; the log says what."),
    ],
)
async def test_errors_are_sentences(error: Exception, status: int, said: str) -> None:
    app = FastAPI()
    explain_errors(app)

    @app.get("/fail")
    async def fail() -> None:
        raise error

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        answer = await http.get("/fail")
    assert (answer.status_code, answer.json()) == (status, {"error": said})
