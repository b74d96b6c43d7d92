"""Row 23: two services, each with a home and an engine of its own, on one database; the same chat through both.

With TEST_POSTGRES_URL (an empty database that may be filled) it is PostgreSQL, else a file of SQLite that both open.
"""

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.service import RUNNING, Service, until

DATABASES = ["sqlite", *(["postgresql"] if os.environ.get("TEST_POSTGRES_URL") else [])]


@pytest.fixture(params=DATABASES)
def pair(request: pytest.FixtureRequest, make_service: MakeService, tmp_path: Path) -> tuple[Service, Service]:
    url = os.environ["TEST_POSTGRES_URL"] if request.param == "postgresql" else f"sqlite:///{tmp_path / 'shared.db'}"
    one, two = (make_service(name, speed=10, DATABASE_URL=url) for name in ("one", "two"))
    return one.start(), two.start()


def test_the_same_session_through_both(pair: tuple[Service, Service]) -> None:
    """One holder at a time, never two tools at once, and all is answered once."""
    chat = pair[0].stage.chat()
    slow = "echo begin >> {home}/log; sleep 0.3; echo end >> {home}/log".format(home=pair[0].home)
    pair[0].stage.script(
        chat.tag,
        {"text": "answer {n}", "when": {"last_role": "tool"}},
        {"tool_calls": [{"name": "bash", "arguments": {"command": slow}}]},
    )

    for number, word in enumerate(("one", "two", "three", "four", "five", "six")):
        pair[number % 2].say(chat, word)
    last = until(lambda: asked_with_all(pair[0], chat.tag), "a question with all messages", within_s=60)
    until(lambda: pair[0].stage.replies(chat), "an answer", within_s=60)
    for service in pair:
        until(lambda: not service.rows(RUNNING, database="engine.db"), "the end of all runs", within_s=60)  # noqa: B023

    replies = pair[0].stage.replies(chat)
    assert replies and len(set(replies)) == len(replies)
    log = (pair[0].home / "log").read_text().split()
    assert log == ["begin", "end"] * (len(log) // 2), "two tools of one session at once"
    assert all(word in last for word in ("one", "two", "three", "four", "five", "six"))


def asked_with_all(service: Service, tag: str) -> str:
    """The newest question to the model, once it has the last message in it."""
    asked = service.stage.asked(tag)
    text = str([m["content"] for m in asked[-1]["messages"] if m["role"] == "user"]) if asked else ""
    return text if "six" in text else ""
