"""Whose goals are whose: a member sees his own, and what the service says by itself goes to its operator."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.flow import Flow
from app.agent.goals.folders import scan_folders
from app.agent.goals.own_goals import OwnGoals
from app.agent.heartbeat.telling import home_chat
from app.agent.people.shutting_out import shut_out
from app.agent.receive import receive
from app.errors import NotFound
from app.events import Sender
from app.goal_tables import goals
from app.sessions import people, session, tasks
from app.work import goals as work_goals
from app.work import ledger, supervision, tracking, wakes
from app.work.observation import Kind, Observation
from tests.unit.house import House, message, run_id
from tests.unit.work.goal_house import put_pipeline

ADMIN, ANN, BOB = "test:1", "test:2", "test:3"
ORDER = """
accepts: [txt]
steps:
  - {id: a, action: notify, content: "{text.source}"}
"""


@pytest.fixture
def home(goal_house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house in which three people write to the test channel, one of them an admin."""
    monkeypatch.setattr(people, "OPERATORS", ())
    put_pipeline(goal_house, "order", ORDER)
    settings = goal_house.harness.settings.model_copy(update={"approval_admins": (ADMIN,)})
    return replace(goal_house, harness=replace(goal_house.harness, settings=settings))


async def say(house: House, who: str, number: int) -> Flow:
    event = message("hello", f"{who}:{number}", session_key=who, sender=Sender(id=who.partition(":")[2]))
    return Flow.model_validate(await receive(house.harness, run_id(number), event, str(event.message_key)))


def goals_of(house: House, flow: Flow) -> OwnGoals:
    return OwnGoals(house.harness.at(flow.principal), flow)


async def order(house: House, flow: Flow, text: str) -> str:
    """A goal that somebody orders in his turn; its id."""
    root = house.harness.at(flow.principal).workspace.root
    root.mkdir(parents=True, exist_ok=True)
    (root / f"{text}.txt").write_text(text)
    await goals_of(house, flow).make("tool#0.0", "order", f"{text}.txt", "")
    return next(str(row.id) for row in house.rows(goals.select()) if row.facts["title"] == text)


async def test_a_member_sees_his_own_goals_and_an_admin_all(home: House) -> None:
    ann, bob = await say(home, ANN, 1), await say(home, BOB, 2)
    hers, his = await order(home, ann, "hers"), await order(home, bob, "his")
    for flow, own, other in ((ann, hers, his), (bob, his, hers)):
        (line,) = await goals_of(home, flow).listed()
        assert line.startswith(own) and own in await goals_of(home, flow).shown(own)
        with pytest.raises(NotFound, match="There is no goal"):
            await goals_of(home, flow).shown(other)
    admin = await say(home, ADMIN, 3)
    assert len(await goals_of(home, admin).listed()) == 2 and hers in await goals_of(home, admin).shown(hers)


async def test_the_same_content_tells_nothing_of_another_persons_goal(home: House) -> None:
    ann, bob = await say(home, ANN, 1), await say(home, BOB, 2)
    await order(home, ann, "secret")
    root = home.harness.at(bob.principal).workspace.root
    root.mkdir(parents=True, exist_ok=True)
    (root / "mine.txt").write_text("secret")
    said = await goals_of(home, bob).make("tool#0.0", "order", "mine.txt", "")
    assert "went through order before" in said and "secret" not in said


async def test_a_turn_begins_with_knowing_its_own_goals(home: House) -> None:
    ann = await say(home, ANN, 1)
    hers = await order(home, ann, "hers")
    assert hers in (await say(home, ANN, 4)).standing
    assert "goal" not in (await say(home, BOB, 5)).standing
    assert hers in (await say(home, ADMIN, 6)).standing


async def test_what_the_service_says_by_itself_goes_to_its_operator(home: House, tmp_path: Path) -> None:
    """A file in a watched folder is the operator's, whoever wrote last."""
    await say(home, ADMIN, 1)
    await say(home, ANN, 2)
    (home.harness.workspace.root / "watch.yaml").write_text(
        "settle: 1\nfolders:\n  - {path: inbox/orders, pattern: '*.txt', pipeline: order}\n"
    )
    inbox = home.harness.workspace.root / "inbox" / "orders"
    inbox.mkdir(parents=True)
    (inbox / "diary.txt").write_text("dear diary")
    home.clock.advance(366 * 86_400)
    assert (await scan_folders(home.harness))["goals"] == 1
    with home.tx() as tx:
        chat = home_chat(tx, home.harness)
    assert chat is not None and chat.session_key == ADMIN
    assert [row.session_id for row in home.rows(goals.select())] == [chat.session_id]


async def test_where_no_operator_ever_wrote_it_is_who_wrote_last(home: House) -> None:
    await say(home, BOB, 1)
    await say(home, ANN, 2)
    with home.tx() as tx:
        chat = home_chat(tx, home.harness)
    assert chat is not None and chat.session_key == ANN


async def test_nothing_goes_out_to_who_is_shut_out(home: House) -> None:
    """His wakes, tasks and goals end with it; those of others go on."""
    waits = "steps:\n  - {id: a, action: exec, command: 'true'}\n"
    put_pipeline(home, "waits", waits)
    for number, who in enumerate((ANN, BOB), 1):
        flow = await say(home, who, number)
        place = {"channel": "test", "destination": {"chatId": who}, "reason": "the news", "zone": "UTC"}
        now = home.clock.now()
        wake: dict[str, Any] = {"id": f"w{number}", "session_id": flow.session_id, "session_key": who, "step_key": "t"}
        wake |= {"run_id": flow.run_id, "due_at": now, "created_at": now} | place
        opening = Observation(f"k{number}", Kind.STARTED, "k", now, "owner", data={"goal": "x", "owner": who})
        task: dict[str, Any] = {"session_id": flow.session_id, "run_id": flow.run_id, "step_key": "d", "model": None}
        with home.tx() as tx:
            wakes.add(tx, wakes.Wake(**wake))
            tracking.start(tx, opening)
            tasks.add(tx, f"t{number}", mode="scheduled", task="count", due_at=now, now=now, **task)
        await goals_of(home, flow).make("tool#1.0", "waits", "", "")
    await shut_out(home.harness, ANN)
    for _ in range(2):  # whoever is shut out once more
        await shut_out(home.harness, ANN)
    with home.tx() as tx:
        assert [wake.id for wake in wakes.all_open(tx)] == ["w2"]
        assert {
            watch.owner_key for watch in supervision.everything(tx) if not ledger.derived(tx, watch.task_id).is_terminal
        } == {BOB}
        assert [row.id for row in tasks.open_of_key(tx, ANN) + tasks.open_of_key(tx, BOB)] == ["t2"]
        assert {goal.session_id for goal in work_goals.open_goals(tx)} == {session.find(tx, BOB)}
