"""A Telegram that misbehaves, many chats, and a process that is killed again and again: every message has its answer.

TELEGRAM_STORM=50x20 weathers 1,000 messages in 50 chats; TELEGRAM_STORM_SEED chooses another storm.
"""

import contextlib
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from app.channels.outbox import NOTICE_TRIES
from app.sentences import UNKNOWN_NOTICE
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import SECRET, Chat

CHATS, MESSAGES = (int(part) for part in os.environ.get("TELEGRAM_STORM", "8x6").split("x"))
SEED = int(os.environ.get("TELEGRAM_STORM_SEED", "1"))
AT_ONCE = 10
SPEED = 20
FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "rate_limit", "retry_after": 3},
    {"kind": "rate_limit", "retry_after": 20},
    {"kind": "server_error"},
    {"kind": "bad_gateway"},
    {"kind": "drop_after"},
    {"kind": "parse_error", "only_marked": True},
    {"kind": "slow", "delay_s": 0.2},
)
"""What Telegram does to one in four messages; `drop_after` takes it and answers nothing."""
FAILPOINTS = ("deposit.committed", "receive.committed", "think.committed", "finish.committed", "finish.announced",
              "send.claimed", "send.accepted", "send.recorded")  # fmt: skip
WITHIN_S = 120.0
CALM_S = (0.5, 1.5) if CHATS * MESSAGES < 200 else (4.0, 8.0)


class Talker:
    """Somebody who says the next thing once he was answered, and a Telegram that brings it until it is told 200."""

    def __init__(self, service: Service, chat: Chat, seed: int) -> None:
        self.chat = chat
        self._service = service
        self._random = random.Random(seed)  # noqa: S311

    def talk(self) -> None:
        with httpx.Client(trust_env=False, timeout=20) as http:
            for number in range(MESSAGES):
                update = self.chat.update(f"message **{number}**")
                self._bring(http, update)
                if self._random.random() < 0.3:
                    self._bring(http, update)
                until(lambda: self._heard(number), f"an answer to {number} in {self.chat.tag}", WITHIN_S)  # noqa: B023

    def _bring(self, http: httpx.Client, update: Mapping[str, Any]) -> None:
        headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}

        def taken() -> bool:
            try:
                url = f"{self._service.url}/webhooks/telegram"
                return http.post(url, json=update, headers=headers).status_code == 200
            except httpx.TransportError:
                return False

        until(taken, "a service that takes the message", WITHIN_S)

    def _heard(self, number: int) -> bool:
        """Whether the answer came, or is noted as one that may be lost."""
        time.sleep(0.1)
        if number in answered(self._service.stage.replies(self.chat)):
            return True
        doubtful = self._service.rows(
            "SELECT text FROM deliveries WHERE chat_key = ? AND kind = 'reply' AND state = 'unknown'",
            f"telegram:{self.chat.id}",
        )
        return any(number in _numbers(row["text"]) for row in doubtful)


def answered(replies: list[str]) -> list[int]:
    """The numbers of the messages that were answered, in the order of the answers; one turn may answer several."""
    answers = (reply for reply in replies if reply.startswith("You said: "))
    return [int(number) for answer in answers for number in re.findall(r"message (\d+) ", answer)]


def weather(chance: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(2 * CHATS * MESSAGES):
        fault = chance.choice(FAULTS) if chance.random() < 0.25 else {"kind": "slow"}
        yield {"method": "sendMessage"} | fault


def blow(service: Service, chance: random.Random, over: threading.Event) -> int:
    """Kill the process, or let it kill itself at a failpoint, until the talking is over; how often it died.

    Between two deaths it has time for some work: a message that nobody gets to answer is woken three times, no more.
    """
    deaths = 0
    while not over.wait(chance.uniform(*CALM_S)):
        service.kill()
        deaths += 1
        if chance.random() < 0.6:
            service.launch(f"{chance.choice(FAILPOINTS)}:{chance.randint(1, 4)}")
            deaths += _fell(service)
        service.start()
    return deaths


def _fell(service: Service) -> int:
    """Wait a little for the end at the failpoint; else end it."""
    ends = time.monotonic() + 2
    while service.lives() and time.monotonic() < ends:
        with contextlib.suppress(AssertionError):  # it may fall at its start
            service.url = service.noted_url() or service.url
        time.sleep(0.02)
    if service.lives():
        service.kill()
        return 0
    return 1


def test_every_message_is_answered_once_and_in_order(make_service: MakeService) -> None:
    chance = random.Random(SEED)  # noqa: S311
    service = make_service(speed=SPEED).start()
    service.stage.telegram.script(*weather(chance))
    talkers = [Talker(service, service.stage.chat(), chance.randrange(10**9)) for _ in range(CHATS)]
    over = threading.Event()
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        storm = pool.submit(blow, service, chance, over)
        try:
            for talk in [pool.submit(talker.talk) for talker in talkers]:
                talk.result()
        finally:
            over.set()
        deaths = storm.result()
    service.settle(60)

    check_transcripts(service)
    assert deaths > 0
    for talker in talkers:
        check_chat(service, talker.chat)


def check_chat(service: Service, chat: Chat) -> None:
    """Each message is stored and answered once; no part came twice; what is not known to have arrived was flagged."""
    replies = service.stage.replies(chat)
    numbers = answered(replies)
    assert numbers == sorted(set(numbers)), f"out of order or twice: {numbers}"
    stored = service.rows("SELECT state FROM messages WHERE message_key LIKE ?", f"{chat.session_key}:%")
    assert Counter(row["state"] for row in stored) == {"answered": MESSAGES}
    query = "SELECT state, text FROM deliveries WHERE chat_key = ? AND kind = 'reply'"
    parts = service.rows(query, f"telegram:{chat.id}")
    assert Counter(row["state"] for row in parts).keys() <= {"sent", "unknown"}
    sure = {number for row in parts if row["state"] == "sent" for number in _numbers(row["text"])}
    doubtful = [row for row in parts if row["state"] == "unknown"]
    assert sure <= set(numbers)
    assert sure | {number for row in doubtful for number in _numbers(row["text"])} == set(range(MESSAGES))
    assert replies.count(UNKNOWN_NOTICE) <= NOTICE_TRIES * len(doubtful)


def _numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"message \*\*(\d+)\*\*", text)]
