"""The mapping in JavaScript against the mapping in Python: the same event out, for every fixture and for what is odd.

Needs Node.js (`.ci/node` brings it); without it these tests are skipped, unless NODE_TESTS=required.
"""

import copy
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.errors import BadInput
from app.events import MessageReceived, message_event_id, wire_safe
from app.transforms import transform_of
from app.transforms.translate import Translation
from tests.unit.core import rules
from webhooks import generic, slack_said, telegram
from webhooks.fields import as_text

FIXTURES = Path(__file__).parents[2] / "fixtures"
BOT = "123456"
HARNESS = """
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter((line) => line);
for (const line of lines) {
  let out;
  try { out = transform(JSON.parse(line), {}, {}, ""); } catch (error) { out = { error: String(error.stack) }; }
  process.stdout.write(JSON.stringify(out) + "\\n");
}
"""
Mapped = Callable[[Mapping[str, Any]], Any]


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None and os.environ.get("NODE_TESTS") != "required":
        pytest.skip("Node.js is not installed; `.ci/node` brings it")
    assert found is not None, "NODE_TESTS=required, and there is no node"
    return found


def in_python(platform: str) -> Mapped:
    bot = telegram.Bot(BOT, "moab_bot")
    return {
        "slack": slack_said.to_event,
        "generic": generic.to_event,
        "telegram": lambda payload: telegram.to_event(payload, bot=bot),
    }[platform]


def settings() -> Settings:
    return Settings(_env_file=None, telegram_bot_token=f"{BOT}:the-token")


def in_node(node: str, platform: str, payloads: list[Any], tmp_path: Path) -> list[Any]:
    """What the transform makes of each payload, in one process."""
    given = {"bot.username": "moab_bot"} if platform == "telegram" else {}
    file = tmp_path / "transform.js"
    file.write_text(transform_of(platform, settings(), given) + HARNESS, "utf-8")
    fed = "\n".join(json.dumps(payload) for payload in payloads)
    done = subprocess.run([node, str(file)], input=fed, capture_output=True, text=True, check=True, encoding="utf-8")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def expected(mapped: Mapped, payload: Any) -> dict[str, Any]:
    event = mapped(wire_safe(payload))
    if event is None:
        return {"name": "agent.input.ignored", "data": {}}
    edited = event.edited if isinstance(event, MessageReceived) else None
    return event.to_wire(message_event_id(event.message_key, f"edit-{edited}" if edited else "first"))


def payloads_of(platform: str) -> dict[str, Any]:
    found = {}
    for path in sorted((FIXTURES / platform).glob("*.json")):
        fixture = json.loads(path.read_text("utf-8"))
        found[path.stem] = fixture["update"] if "update" in fixture else fixture["payload"]
    return found


@pytest.mark.parametrize("platform", ["slack", "telegram", "generic"])
def test_every_fixture_becomes_the_same_event(node: str, platform: str, tmp_path: Path) -> None:
    payloads = payloads_of(platform)
    assert len(payloads) >= 10
    made = in_node(node, platform, list(payloads.values()), tmp_path)
    wanted = [expected(in_python(platform), payload) for payload in payloads.values()]
    assert dict(zip(payloads, made, strict=True)) == dict(zip(payloads, wanted, strict=True))
    assert {event["name"] for event in wanted} >= {"agent.message.received", "agent.command.received"}


ODD = [
    None,
    True,
    False,
    0,
    -1,
    17,
    "",
    " ",
    "x",
    "/stop now",
    "/a@moab_bot b",
    "<@U0MOAB0001> hi",
    "@moab_bot, hi",
    "D1",
]
ODD += [[], {}, [{}], {"id": 5}, "é漢😀", "a\ud800b", "a\u0000b", "/früh x", "1764500000.5", [None, "x"], {"text": "y"}]


def mutated(payload: Any, chance: random.Random) -> Any:
    """A payload with something odd somewhere in it."""
    changed = copy.deepcopy(payload)
    for _ in range(chance.randint(1, 3)):
        if not changed:
            break
        places = list(_places(changed))
        where, key = chance.choice(places)
        if chance.random() < 0.2 and isinstance(where, dict):
            del where[key]
        else:
            where[key] = copy.deepcopy(chance.choice(ODD))
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


@pytest.mark.parametrize("platform", ["slack", "telegram", "generic"])
def test_what_is_odd_becomes_the_same_event(node: str, platform: str, tmp_path: Path) -> None:
    chance = random.Random(11)  # noqa: S311
    fixtures = list(payloads_of(platform).values())
    payloads = [mutated(chance.choice(fixtures), chance) for _ in range(1500)]
    made = in_node(node, platform, payloads, tmp_path)
    for payload, event in zip(payloads, made, strict=True):
        assert event == expected(in_python(platform), payload), json.dumps(payload)


def test_forms_of_slack_are_read_as_well(node: str, tmp_path: Path) -> None:
    button, command = payloads_of("slack")["button"], payloads_of("slack")["slash_command"]
    as_lists = {name: [value] for name, value in command.items()}
    made = in_node(
        node, "slack", [{"payload": json.dumps(button)}, {"payload": [json.dumps(button)]}, as_lists], tmp_path
    )
    pressed = expected(in_python("slack"), button)
    assert made == [pressed, pressed, expected(in_python("slack"), command)]


def odd(payload: Mapping[str, Any]) -> str:
    with open(as_text(payload)) as file:
        return file.read()


def unknown(payload: Mapping[str, Any]) -> str:
    return f"{payload!r}"


@pytest.mark.parametrize(("function", "words"), [(odd, "odd, line "), (unknown, "cannot be translated")])
def test_what_cannot_be_translated_is_refused_by_name(function: Any, words: str) -> None:
    with pytest.raises(BadInput) as found:
        Translation().need(function.__name__, function)
    assert words in str(found.value)


def test_a_platform_without_a_mapping_is_refused() -> None:
    with pytest.raises(BadInput, match="accepted: "):
        transform_of("http", settings(), {})


def test_the_token_stays_here() -> None:
    made = transform_of("telegram", settings(), {"bot.username": "moab_bot"})
    assert "the-token" not in made and BOT in made and "moab_bot" in made


def test_every_moment_is_told_in_utc() -> None:
    """The translation takes that for granted."""
    for file in rules.sources():
        for line in file.text.splitlines():
            assert not file.path.startswith("webhooks/") or ".fromtimestamp(" not in line or ", UTC)" in line
