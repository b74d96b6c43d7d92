"""The third channel, made by docs/adding-a-channel.md: a signed message in, its answer out, once, whatever happens."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from app.channels.generic import sign
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service
from tests.fakes.callback_server import SECRET
from tests.fakes.process import FakeProcess


@pytest.fixture
def program() -> Iterator[FakeProcess]:
    with FakeProcess("callback_server") as fake:
        yield fake


@pytest.fixture
def service(make_service: MakeService, program: FakeProcess) -> Service:
    return make_service(
        GENERIC_SECRET=SECRET, GENERIC_CALLBACK_URL=f"{program.url}/moab", GENERIC_ALLOWED="7", LOG_LEVEL="info"
    )


def post(service: Service, number: int, text: str, who: str = "7") -> int:
    body = httpx.Request(
        "POST", "http://x", json={"id": number, "conversation": "desk", "text": text, "sender": {"id": who}}
    ).content
    try:
        return httpx.post(
            f"{service.url}/webhooks/generic",
            content=body,
            headers=sign(SECRET, body, datetime.now(UTC)),
            trust_env=False,
        ).status_code
    except httpx.TransportError:
        return 0


def received(program: FakeProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = program.control("/__received", {})["received"]
    return found


@pytest.mark.parametrize("failpoint", ["", "deposit.committed", "finish.committed", "send.claimed", "send.accepted"])
def test_a_message_has_one_answer(service: Service, program: FakeProcess, failpoint: str) -> None:
    program.script({"kind": "status", "status": 503})
    service.start(failpoint)
    taken = post(service, 1, "hello")
    if failpoint:
        assert service.ended() == -9
        service.start()
    if taken != 202:
        assert post(service, 1, "hello") == 202
    assert post(service, 1, "hello") == 202, "the same again changes nothing"
    service.settle()
    assert post(service, 2, "let me in", who="8") == 202
    service.settle()
    answer, refusal = received(program)
    assert (answer["text"], answer["conversation"], answer["inReplyTo"]) == ("You said: hello", "desk", "1")
    assert "invited" in refusal["text"] and refusal["inReplyTo"] == "2"
    check_transcripts(service)
