"""`kill -9` at failpoints and at moments drawn by lot, in turns with bash, write and delegate_task.

Each turn is killed one to three times and then taken up for good. KILL_TURNS=100 is the long form; KILL_SEED draws
other lots.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pytest

from app.sentences import UNKNOWN_NOTICE
from tests.acceptance.nursery import Nursery
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import LOOK_EVERY_S, WITHIN_S, Service
from tests.acceptance.stage import Chat, Stage

TURNS = int(os.environ.get("KILL_TURNS", "12"))
SEED = os.environ.get("KILL_SEED", "1")
AT_ONCE = 4
MOST_LIVES = 3
REPLY = "Written, noted, and found."
REPORT = "The answer is forty-two."

PLACES = {
    **{"deposit.committed": 1, "receive.committed": 2},
    **{"think.asking": 5, "think.answered": 5, "think.committed": 5},
    **{"tool.started": 3, "tool.done": 3, "tool.recorded": 3},
    **{"finish.committed": 2, "finish.announced": 2},
    **{"send.claimed": 1, "send.accepted": 1, "send.recorded": 1},
}
"""Failpoints, and how often a turn that nobody kills comes past them (a sub-agent's included)."""


@dataclass(frozen=True)
class Kill:
    """Where or when a process is killed: at a failpoint, or so long after the message (or its start)."""

    failpoint: str = ""
    after_s: float = 0.0

    def __str__(self) -> str:
        return self.failpoint or f"{self.after_s * 1000:.0f} ms"


def drawn(number: int, turn_s: float) -> list[Kill]:
    """The kills of one turn, the same for the same seed; half of them at moments of a turn that takes `turn_s`."""
    lot = random.Random(f"{SEED}/{number}")  # noqa: S311 - lots, not secrets

    def one() -> Kill:
        if lot.random() < 0.5:
            return Kill(after_s=lot.uniform(0, turn_s))
        name = lot.choice(list(PLACES))
        return Kill(f"{name}:{lot.randint(1, PLACES[name])}")

    return [one() for _ in range(lot.randint(1, MOST_LIVES))]


def script_turn(stage: Stage, chat: Chat) -> None:
    """A command and a file, then a sub-agent with a command of its own, then the answer."""
    append = {"name": "bash", "arguments": {"command": "echo line >> lines.txt"}}
    write = {"name": "write", "arguments": {"path": "note.txt", "content": "noted\n"}}
    search = {"name": "bash", "arguments": {"command": "echo searched >> searched.txt"}}
    stage.script(
        chat.tag,
        {"text": REPORT, "when": {"last_user": "find it", "has_result_of": "bash"}},
        {"tool_calls": [search], "when": {"last_user": "find it"}},
        {"text": REPLY, "when": {"has_result_of": "delegate_task"}},
        {
            "tool_calls": [{"name": "delegate_task", "arguments": {"task": f"find it {chat.tag}"}}],
            "when": {"has_result_of": "write"},
        },
        {"tool_calls": [append, write]},
    )


def first_life(service: Service, chat: Chat, kill: Kill) -> bool:
    service.start(kill.failpoint)
    update = chat.update("three things")
    taken = service.update(update)
    cut_off = end_at(service, kill)
    if taken != 200:  # then Telegram delivers it again
        service.start()
        assert service.update(update) == 200
        service.kill()
    return cut_off


def end_at(service: Service, kill: Kill) -> bool:
    """See the process to its end: at its failpoint, or by our hand in time or when there is nothing left to do.

    Whether work was left then.
    """
    until = time.monotonic() + (WITHIN_S if kill.failpoint else kill.after_s)
    while service.lives() and time.monotonic() < until:
        if kill.failpoint and not service.unsettled():
            break
        time.sleep(LOOK_EVERY_S)
    if service.lives():
        service.kill()
    return bool(service.unsettled())


def tell(service: Service, number: int, turn_s: float) -> list[bool]:
    """One turn and its kills; for each whether it left work undone."""
    chat = service.stage.chat()
    script_turn(service.stage, chat)
    first, *others = drawn(number, turn_s)
    cut_off = [first_life(service, chat, first)]
    for kill in others:
        service.launch(kill.failpoint)
        cut_off.append(end_at(service, kill))
    service.start()
    service.settle()
    check_transcripts(service)
    check_answer(service, chat)
    check_commands(service)
    return cut_off


def check_answer(service: Service, chat: Chat) -> None:
    """One reply. Where nobody can know whether Telegram has it, it is spoken of once instead of sent again.

    What speaks of it may be cut off at the same place, and is not sent again either.
    """
    (turn,) = service.rows("SELECT state FROM turns WHERE session_id = (SELECT id FROM sessions WHERE key = ?)",
                           chat.session_key)  # fmt: skip
    assert turn == {"state": "finished"}
    assert service.rows("SELECT DISTINCT state FROM messages WHERE role = 'user'") == [{"state": "answered"}]
    (row,) = service.rows("SELECT state FROM deliveries WHERE kind = 'reply'")
    replies = service.stage.replies(chat)
    assert set(replies) <= {REPLY, UNKNOWN_NOTICE} and len(set(replies)) == len(replies)
    if row["state"] == "sent":
        assert replies == [REPLY]
        return
    assert row["state"] == "unknown"
    (notice,) = service.rows("SELECT state FROM deliveries WHERE text = ?", UNKNOWN_NOTICE)
    assert notice["state"] in ("sent", "unknown")
    assert (UNKNOWN_NOTICE in replies) or notice["state"] == "unknown"


def check_commands(service: Service) -> None:
    """A command whose end is known ran once; one that was cut off ran once or not at all, and never twice."""
    calls = service.rows("SELECT name, arguments, state FROM calls")
    assert Counter(call["name"] for call in calls) == {"bash": 2, "write": 1, "delegate_task": 1}
    for word, file in (("line", "lines.txt"), ("searched", "searched.txt")):
        (state,) = (call["state"] for call in calls if f"{word} >>" in call["arguments"])
        may_be = {"finished": {f"{word}\n"}, "interrupted": {"", f"{word}\n"}}
        assert service.workspace(file) in may_be[state], f"{file} after a call that is {state}"
    assert service.workspace("note.txt") == "noted\n"


Story = Callable[[int], list[bool]]
Told = TypeVar("Told")


def undisturbed(service: Service) -> float:
    """How long a turn takes that nobody kills, in seconds."""
    chat = service.stage.chat()
    script_turn(service.stage, chat)
    service.start()
    began = time.monotonic()
    service.say(chat, "three things")
    service.settle()
    took = time.monotonic() - began
    check_answer(service, chat)
    check_commands(service)
    return took


@pytest.fixture(scope="module")
def stories(nursery: Nursery, stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """All turns, a few at a time; the first one is not killed and says how long a turn takes."""

    def living(name: str, told: Callable[[Service], Told]) -> Told:
        service = Service(nursery, stage, tmp_path_factory.mktemp("kill") / "home")
        try:
            return told(service)
        except BaseException as error:
            log = service.errors.read_text() if service.errors.exists() else "There is no log."
            error.add_note(f"{name}\n{log}")
            raise
        finally:
            service.close()

    turn_s = living("undisturbed", undisturbed)

    def story(number: int) -> list[bool]:
        kills = ", ".join(map(str, drawn(number, turn_s)))
        return living(f"turn {number}, killed at {kills}", lambda service: tell(service, number, turn_s))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [pool.submit(story, number) for number in range(TURNS)]
        yield lambda number: begun[number].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("number", range(TURNS))
def test_one_reply_and_no_command_twice(stories: Story, number: int) -> None:
    stories(number)


def test_most_kills_cut_off_work(stories: Story) -> None:
    cut_off = [left for number in range(TURNS) for left in stories(number)]
    assert sum(cut_off) > len(cut_off) / 2, f"only {sum(cut_off)} of {len(cut_off)} kills fell into a turn"


def test_lots_fall_on_everything() -> None:
    kills = [kill for number in range(400) for kill in drawn(number, 1.0)]
    named = {kill.failpoint.partition(":")[0] for kill in kills if kill.failpoint}
    assert named == set(PLACES)
    assert 0.4 < sum(not kill.failpoint for kill in kills) / len(kills) < 0.6
