"""`kill -9` at every named place of a turn with three tool calls, and a restart: one reply, nothing done twice.

KILL_ROUNDS=20 repeats all of it as often.
"""

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.sentences import UNKNOWN_NOTICE
from app.sessions.calls import MAY_HAVE_HAPPENED
from tests.acceptance.nursery import ROOT, Nursery
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service
from tests.acceptance.stage import Chat, Stage

ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
AT_ONCE = 4
REPLY = "All three are done."
THINKS = [f"think.{place}:{n}" for n in (1, 2, 3) for place in ("asking", "answered", "committed")]
TOOLS = [f"tool.{place}:{n}" for n in (1, 2, 3) for place in ("started", "done", "recorded")]
FAILPOINTS = [
    *("deposit.committed", "receive.committed", *THINKS, *TOOLS),
    *("finish.committed", "finish.announced", "send.claimed", "send.accepted", "send.recorded"),
]
BESIDE = "beside "
READS = [f"{BESIDE}tool.{place}:{n}" for n in (1, 2) for place in ("started", "done", "recorded")]
STORIES = [*FAILPOINTS, f"{BESIDE}think.committed:1", *READS]

REPLIES = {"send.claimed": [UNKNOWN_NOTICE], "send.accepted": [REPLY, UNKNOWN_NOTICE]}
"""Between claim and receipt nobody knows whether Telegram has it, so it is not sent again but spoken of, once."""
LIVES = [
    *("receive.committed", "think.answered", "think.committed", "tool.recorded", "tool.started", "tool.done"),
    *("think.committed", "tool.recorded", "think.committed", "finish.committed", "finish.announced", "send.recorded"),
]

Story = Callable[[str, int], None]


def script_turn(stage: Stage, chat: Chat) -> None:
    """Two calls in the first thought, one in the second, the answer in the third."""
    bash = {"name": "bash", "arguments": {"command": "echo line >> lines.txt"}}
    write = {"name": "write", "arguments": {"path": "note.txt", "content": "noted\n"}}
    read = {"name": "read", "arguments": {"path": "note.txt"}}
    stage.script(
        chat.tag,
        {"text": REPLY, "when": {"has_result_of": "read"}},
        {"tool_calls": [read], "when": {"has_result_of": "write"}},
        {"tool_calls": [bash, write]},
    )


def tell(service: Service, failpoint: str) -> None:
    """One turn killed at `failpoint`, taken up by a process without it, and looked at from all sides."""
    chat = service.stage.chat()
    script_turn(service.stage, chat)
    update = chat.update("do three things")

    service.start(failpoint)
    taken = service.update(update)
    assert service.ended() == -9
    service.start()
    if taken != 200:  # then Telegram delivers it again
        assert service.update(update) == 200
    service.settle()

    name = failpoint.partition(":")[0]
    check_transcripts(service)
    assert service.stage.replies(chat) == REPLIES.get(name, [REPLY])
    assert service.rows("SELECT state FROM turns") == [{"state": "finished"}]
    assert [row["state"] for row in service.rows("SELECT state FROM messages WHERE role = 'user'")] == ["answered"]
    assert len(service.stage.asked(chat.tag)) == (4 if name == "think.answered" else 3)
    check_tools(service, chat, failpoint)


def tell_of_reads(service: Service, failpoint: str) -> None:
    """The same for two reads that run side by side: both results are there, in their order, whoever read them."""
    chat = service.stage.chat()
    reads = [{"name": "read", "arguments": {"path": path}} for path in ("USER.md", "MEMORY.md")]
    service.stage.script(chat.tag, {"text": REPLY, "when": {"has_result_of": "read"}}, {"tool_calls": reads})

    service.start(failpoint)
    service.update(chat.update("read both"))
    assert service.ended() == -9
    service.start()
    service.settle()

    check_transcripts(service)
    assert service.stage.replies(chat) == [REPLY]
    _, last = service.stage.asked(chat.tag)
    results = [m["content"] for m in last["messages"] if m["role"] == "tool"]
    assert ["Who you work for" in results[0], "What is worth knowing" in results[1]] == [True, True]
    assert service.rows("SELECT DISTINCT state FROM calls") == [{"state": "finished"}]


def check_tools(service: Service, chat: Chat, failpoint: str) -> None:
    """Only the unsafe call whose end nobody saw is in doubt: it is reported, the others are done."""
    cut_off = failpoint in ("tool.started:1", "tool.done:1")
    states = {row["name"]: row["state"] for row in service.rows("SELECT name, state FROM calls")}
    assert states == {"bash": "interrupted" if cut_off else "finished", "write": "finished", "read": "finished"}
    assert service.workspace("lines.txt") == ("" if failpoint == "tool.started:1" else "line\n")
    assert service.workspace("note.txt") == "noted\n"
    results = [m["content"] for m in service.stage.asked(chat.tag)[-1]["messages"] if m["role"] == "tool"]
    assert len(results) == 3 and "noted" in results[2]
    assert (results[0] == MAY_HAVE_HAPPENED) is cut_off


@pytest.fixture(scope="module")
def stories(nursery: Nursery, stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """All stories, told a few at a time: most of their time is waiting for disks and processes."""

    def told(failpoint: str, folder: Path) -> None:
        service = Service(nursery, stage, folder / "home")
        try:
            if failpoint.startswith(BESIDE):
                tell_of_reads(service, failpoint.removeprefix(BESIDE))
            else:
                tell(service, failpoint)
        except BaseException as error:
            error.add_note(service.errors.read_text() if service.errors.exists() else "There is no log.")
            raise
        finally:
            service.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The folders are made here, by one thread: pytest makes the one that holds them when it is first asked.
        folders = {(f, n): tmp_path_factory.mktemp("kill") for n in range(ROUNDS) for f in STORIES}
        begun = {story: pool.submit(told, story[0], folder) for story, folder in folders.items()}
        yield lambda failpoint, number: begun[failpoint, number].result()
        pool.shutdown(cancel_futures=True)


# TRAPS, Life and death: "Restart in mid-turn loses the turn, re-prompts the model, or repeats".
@pytest.mark.parametrize("failpoint", STORIES)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_one_turn_survives(stories: Story, failpoint: str, number: int) -> None:
    stories(failpoint, number)


def test_a_turn_of_many_lives(nursery: Nursery, stage: Stage, tmp_path: Path) -> None:
    """One turn, killed again in every process that takes it up, until there is no place left."""
    service = Service(nursery, stage, tmp_path / "home")
    chat = stage.chat()
    script_turn(stage, chat)
    try:
        service.start("deposit.committed")
        service.update(chat.update("do three things"))
        assert service.ended() == -9
        for failpoint in LIVES:
            service.live_until(failpoint)
        service.start()
        service.settle()

        check_transcripts(service)
        assert stage.replies(chat) == [REPLY]
        assert service.workspace("lines.txt") == "line\n"
        assert len(stage.asked(chat.tag)) == 4
        assert service.rows("SELECT DISTINCT state FROM calls") == [{"state": "finished"}]
    finally:
        service.close()


def test_no_failpoint_is_left_out() -> None:
    written = {
        name
        for path in (*Path(ROOT, "app").rglob("*.py"), *Path(ROOT, "functions").glob("*.py"))
        for name in re.findall(r'\breach\("([\w.]+)"\)', path.read_text())
    }
    told = {failpoint.partition(":")[0] for failpoint in FAILPOINTS}
    tests = "".join(path.read_text() for path in Path(ROOT, "tests").rglob("test_*.py"))
    assert told <= written
    assert {name for name in written - told if f'"{name}' not in tests} == set()
