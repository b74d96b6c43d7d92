"""Many chats at once while the process is killed again and again, at moments nobody chose: nothing is lost or doubled.

STORM_SEEDS=1,2,3 weathers more storms than one.
"""

import os
import random
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from app.channels.outbox import NOTICE_TRIES
from app.sentences import UNKNOWN_NOTICE
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import SECRET, Chat, Stage

SEEDS = [int(seed) for seed in os.environ.get("STORM_SEEDS", "1").split(",")]
KILLS = 6
CHATS = 4
MESSAGES = 8
SPEED = 20
COMMANDS = ("/stop", "/new", "/status")


class Talker:
    """Somebody who goes on talking, and a Telegram that delivers until it is told 200, now and then twice."""

    def __init__(self, service: Service, chat: Chat, seed: int) -> None:
        self.chat = chat
        self.updates: list[Mapping[str, Any]] = []
        self._service = service
        self._random = random.Random(seed)  # noqa: S311

    def talk(self) -> None:
        with httpx.Client(trust_env=False, timeout=20) as http:
            for number in range(MESSAGES):
                command = self._random.random() < 0.15
                update = self.chat.update(self._random.choice(COMMANDS) if command else f"message {number}")
                self.updates.append(update)
                said = len(self._service.stage.attempts(self.chat))
                until(lambda: self._delivered(http, update), "a service that takes the message", 60)  # noqa: B023
                if self._random.random() < 0.2:
                    self._delivered(http, self._random.choice(self.updates))
                if self._random.random() < 0.5:
                    until(lambda: len(self._service.stage.attempts(self.chat)) > said, "something said", 60)  # noqa: B023

    def _delivered(self, http: httpx.Client, update: Mapping[str, Any]) -> bool:
        headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
        try:
            return http.post(f"{self._service.url}/webhooks/telegram", json=update, headers=headers).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def said(self) -> list[str]:
        """The numbers of the messages that are no commands."""
        return [str(u["message"]["message_id"]) for u in self.updates if not u["message"]["text"].startswith("/")]


def script(stage: Stage, chat: Chat, delegates: bool) -> None:
    work = {"name": "bash", "arguments": {"command": f"echo x >> lines-{chat.id}; sleep 0.1"}}
    handed = {"name": "delegate_task", "arguments": {"task": f"work {chat.tag}"}}
    child = {"last_user": "work"}
    stage.script(
        chat.tag,
        {"text": "report {n}", "when": child | {"last_role": "tool"}},
        {"tool_calls": [work], "when": child, "delay_s": 0.05},
        {"text": "answer {n}", "when": {"last_role": "tool"}, "delay_s": 0.1},
        {"tool_calls": [handed if delegates else work], "delay_s": 0.05},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_storm(make_service: MakeService, seed: int) -> None:
    service = make_service(speed=SPEED, lossy=seed % 2 == 0).start()
    chance = random.Random(seed)  # noqa: S311
    talkers = [Talker(service, service.stage.chat(), chance.randrange(10**9)) for _ in range(CHATS)]
    for talker in talkers:
        script(service.stage, talker.chat, delegates=chance.random() < 0.4)
    late = {"text": "late {n}", "times": None, "when": {"last_user": "has come to its end"}}
    service.stage.model.script(late)

    with ThreadPoolExecutor(CHATS) as pool:
        talking = [pool.submit(talker.talk) for talker in talkers]
        for _ in range(KILLS):
            blow(service, chance)
        for talk in talking:
            talk.result()
    service.settle(60)

    check_transcripts(service)
    for talker in talkers:
        check_chat(service, talker)


def blow(service: Service, chance: random.Random) -> None:
    """Kill it after some more questions to the model, whatever it does at that moment, and start it again."""
    enough = len(service.stage.asks()) + chance.randint(1, 6)
    until(lambda: len(service.stage.asks()) >= enough or not service.unsettled(), "some work")
    if chance.random() < 0.2:
        assert service.terminate() == 0
    else:
        service.kill()
    service.start()


def check_chat(service: Service, talker: Talker) -> None:
    """Each message is there once and has an end, no answer came twice, no command line ran twice."""
    answers = Counter(text for text in service.stage.replies(talker.chat) if text.startswith(("answer", "late")))
    assert set(answers.values()) <= {1}, answers
    stored = service.rows("SELECT message_key, state FROM messages WHERE message_key LIKE ?",
                          f"{talker.chat.session_key}:%")  # fmt: skip
    assert sorted(row["message_key"].rpartition(":")[2] for row in stored) == sorted(talker.said)
    assert {row["state"] for row in stored} <= {"answered", "stopped"}
    unsent = service.rows("SELECT * FROM deliveries WHERE state NOT IN ('sent', 'unknown')")
    assert unsent == []
    lines = service.workspace(f"lines-{talker.chat.id}").count("x")
    query = "SELECT state FROM calls WHERE name = 'bash' AND arguments LIKE ?"
    states = Counter(row["state"] for row in service.rows(query, f"%lines-{talker.chat.id};%"))
    assert lines <= states["finished"] + states["interrupted"]
    notices = service.stage.replies(talker.chat).count(UNKNOWN_NOTICE)
    unknown = "SELECT id FROM deliveries WHERE state = 'unknown' AND kind <> 'notice' AND chat_key = ?"
    assert notices <= NOTICE_TRIES * len(service.rows(unknown, f"telegram:{talker.chat.id}"))
