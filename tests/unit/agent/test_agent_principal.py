"""Whose memory it is: a person has his own, a group its own, and only whoever runs the service has the whole."""

from pathlib import Path
from typing import Any

import pytest

from app.agent.flow import Flow
from app.agent.heartbeat.distillation import distil_log
from app.agent.heartbeat.look import look_around
from app.agent.loop import run_turn
from app.agent.receive import receive
from app.agent.turn import bodies_of
from app.events import Destination, Sender
from app.memory.workspace import Workspace
from app.sessions import people
from app.sessions.people import Newcomer, folder_of
from tests.unit.house import DirectSteps, House, message, run_id


@pytest.fixture(autouse=True)
def knowledge(house: House, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the operator's own files say; the test channel is one that anybody may use."""
    monkeypatch.setattr(people, "OPERATORS", ("terminal", "http"))
    root = house.harness.workspace.root
    (root / "MEMORY.md").write_text("The operator's secret.")
    (root / "SOUL.md").write_text("Be kind.")
    skill = root / "skills" / "cook"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: cook\ndescription: when hungry\n---\nBoil it.")
    return root


def told(text: str, number: int, user: str = "5", group: str = "", channel: str = "test") -> Any:
    meta = {"chatType": "group", "group": True} if group else {}
    chat = group or user
    return message(
        text,
        f"{channel}:{chat}:{number}",
        session_key=f"{channel}:{chat}",
        channel=channel,
        sender=Sender(id=user),
        destination=Destination(chat_id=chat),
        channel_meta=meta,
    )


async def turn(house: House, event: Any, number: int) -> tuple[str, Flow]:
    """A turn on an event; the system prompt the model was shown, and the flow."""
    flow = Flow.model_validate(await receive(house.harness, run_id(number), event, event.message_key))
    await run_turn(DirectSteps(house), bodies_of(house.harness, flow), flow)
    return str(house.model.requests[-1][1][0]["content"]), flow


# Tools and memory: one user's memory shown to another -> memory belongs to a principal; groups have their own.
async def test_nobody_is_shown_what_is_known_of_another(house: House) -> None:
    for number, who in enumerate(("5", "6"), 1):
        harness = house.harness.at(folder_of(f"test:{who}"))
        harness.workspace.prepare()
        await harness.daily_log.remember(f"likes number {who}", f"k{who}")
        (harness.workspace.root / "MEMORY.md").write_text(f"Person {who} is tall.")
        prompt, flow = await turn(house, told("hello", number, who), number)
        assert flow.principal == f"test-{who}"
        assert f"Person {who} is tall." in prompt and f"likes number {who}" in prompt
        assert "operator's secret" not in prompt and "Be kind." in prompt and "cook" in prompt
    assert "Person 5" not in prompt and "likes number 5" not in prompt


async def test_a_group_has_a_memory_of_its_own_whoever_speaks(house: House) -> None:
    _, first = await turn(house, told("hello", 1, "5", group="-7"), 1)
    _, second = await turn(house, told("hello", 2, "6", group="-7"), 2)
    assert first.principal == second.principal == folder_of("test:-7")
    assert first.principal != (await turn(house, told("hello", 3, "5"), 3))[1].principal


async def test_whoever_runs_the_service_has_the_whole(house: House) -> None:
    prompt, flow = await turn(house, told("hello", 1, channel="terminal"), 1)
    assert flow.principal == "" and "operator's secret" in prompt
    await house.db.write(people.pair, Newcomer("test:5", "person", "test:5"), "admin", "me", house.clock.now())
    prompt, flow = await turn(house, told("hello", 2), 2)
    assert flow.principal == "" and "operator's secret" in prompt
    _, in_group = await turn(house, told("hello", 3, group="-7"), 3)
    assert in_group.principal == folder_of("test:-7")


async def test_files_of_a_person_are_out_of_reach_of_another(house: House) -> None:
    _, flow = await turn(house, told("hello", 1, "6"), 1)
    root = house.harness.at(flow.principal).workspace.root
    assert root == house.harness.workspace.root / ".moab" / "people" / "test-6"
    assert (root / "skills" / "cook" / "SKILL.md").read_text().endswith("Boil it.")
    assert not (root / "MEMORY.md").exists()


async def test_the_time_zone_of_a_person_is_that_of_his_turns(house: House) -> None:
    house.clock.advance(11 * 3600 + 1800)  # 23:30 in London, the next day in Paris
    await house.db.write(people.set_zone, Newcomer.person(told("", 0)), "Europe/Paris", house.clock.now())
    prompt, flow = await turn(house, told("hello", 1), 1)
    assert flow.zone == "Europe/Paris" and "Today is 2026-01-06 (Europe/Paris)." in prompt
    prompt, _ = await turn(house, told("hello", 2, "6"), 2)
    assert "Today is 2026-01-05 (UTC)." in prompt


async def test_what_a_person_told_yesterday_is_distilled_into_his_own_memory(house: House) -> None:
    harness = house.harness.at("test-5")
    harness.workspace.prepare()
    await harness.daily_log.remember("likes tea", "k")
    house.clock.advance(36 * 3600)
    found = await look_around(house.harness, None)
    assert {"step": "distil", "of": "test-5/2026-01-05.md"} in found["chores"]
    house.model.answers = ["- Likes tea."]
    assert (await distil_log(house.harness, "test-5/2026-01-05.md"))["kind"] == "distilled"
    assert (harness.workspace.root / "MEMORY.md").read_text() == "- Likes tea.\n"
    assert (house.harness.workspace.root / "MEMORY.md").read_text() == "The operator's secret."


def test_a_skill_that_changed_reaches_everybody(tmp_path: Path) -> None:
    whole = Workspace(tmp_path)
    skill = tmp_path / "skills" / "a" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("one")
    own = whole.of("p")
    own.prepare()
    skill.write_text("two")
    own.prepare()
    assert (own.root / "skills" / "a" / "SKILL.md").read_text() == "two"
    assert whole.principals() == ["p"] and whole.of("p") is own


@pytest.mark.parametrize("who", ["test:../../etc", "test:a/b", "test:a b", "test:"])
def test_a_folder_has_a_name_of_its_own_whatever_the_id(who: str) -> None:
    name = folder_of(who)
    assert "/" not in name and "." not in name and name != folder_of("test:a-b")
