"""What a long turn leaves in the engine: 20 iterations with three parallel reads of 300 KB each, in a real process."""

import itertools
import statistics
from dataclasses import dataclass

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service

FILE_BYTES = 300_000
FILES = ("one.txt", "two.txt", "three.txt")
REPLY = "All of it is read."
STATE_BYTES = 4 * 1024 * 1024
"""What Inngest keeps for a run at most; our engine is held to the same."""

STEPS = "SELECT name, memo, opts FROM steps WHERE run_id = ? ORDER BY created_at"
RUN = "SELECT output, body FROM runs JOIN events ON events.internal_id = event_id WHERE runs.id = ?"
TURN = "SELECT run_id, state FROM turns WHERE session_id = (SELECT id FROM sessions WHERE key = ?)"


@dataclass(frozen=True)
class Size:
    """What the engine keeps of one run: steps, bytes in all and of the largest memo; and the time between thoughts."""

    steps: int
    total: int
    largest: int
    gaps_s: list[float]


def read_three(number: int) -> dict[str, object]:
    """The wish for three reads, each time of other parts: the same again and again would be stopped."""
    calls = [{"name": "read", "arguments": {"path": path, "offset": 1 + number}} for path in FILES]
    return {"tool_calls": calls, "times": 1}


def turn_of(service: Service, rounds: int) -> Size:
    chat = service.stage.chat()
    service.stage.script(chat.tag, *map(read_three, range(rounds)), {"text": REPLY})
    service.say(chat, "read all of it")
    service.settle(within_s=120)
    assert service.stage.replies(chat) == [REPLY]
    (turn,) = service.rows(TURN, chat.session_key)
    assert turn["state"] == "finished"
    asked = [call["at"] for call in service.stage.asks() if chat.tag in str(call["params"]["messages"][1])]
    assert len(asked) == rounds + 1
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    return measured(service, turn["run_id"], gaps)


def measured(service: Service, run_id: str, gaps_s: list[float]) -> Size:
    steps = service.rows(STEPS, run_id, database="engine.db")
    (run,) = service.rows(RUN, run_id, database="engine.db")
    memos = [len(step["memo"] or "") for step in steps]
    total = sum(memos) + sum(len(step["opts"] or "") for step in steps) + sum(map(len, run.values()))
    return Size(len(steps), total, max(memos), gaps_s)


def test_twenty_iterations_of_three_large_reads(make_service: MakeService) -> None:
    service = make_service(AGENT_MAX_ITERATIONS="30")
    folder = service.home / "workspace"
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text("".join(f"{number:>6} {name} {'x' * 80}\n" for number in range(FILE_BYTES // 96)))
        assert (folder / name).stat().st_size > 0.9 * FILE_BYTES
    service.start()

    five, ten, twenty = (turn_of(service, rounds) for rounds in (5, 10, 20))

    check_transcripts(service)
    assert twenty.steps == 20 * 4 + 3, "receive, 20 times a thought with three reads, the last thought, finish"
    assert twenty.total < STATE_BYTES and twenty.largest < 64 * 1024
    # Every iteration adds the same: what ten more of them add is twice what five more did.
    assert abs((twenty.total - ten.total) - 2 * (ten.total - five.total)) < 0.1 * (twenty.total - ten.total)
    assert statistics.median(twenty.gaps_s[10:]) < 3 * statistics.median(twenty.gaps_s[:10])
