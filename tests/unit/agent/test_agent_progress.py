"""A long turn says that it is still at work, at most every three minutes, and never after its answer."""

import asyncio
from typing import Any

import pytest

from app.agent import attend as attend_module
from app.agent.act import act
from app.agent.attend import attend
from app.agent.delegation.tasks import receive_task
from app.agent.finish import finish
from app.agent.flow import Flow
from app.agent.models.llm import Completion
from app.agent.people.progress import say_still_working
from app.agent.think import think
from app.channels.delivery import deliver_next
from app.events import SubagentSpawn
from app.sessions import session
from app.tables import deliveries
from tests.unit.agent.test_agent_commands import say
from tests.unit.house import House, ask, begin, run_id, wishes


def lines(house: House) -> list[str]:
    query = deliveries.select().where(deliveries.c.kind == "notice").order_by(deliveries.c.id)
    return [row.text for row in house.rows(query)]


async def pass_minutes(house: House, flow: Flow, minutes: float, doing: dict[str, Any] | None = None) -> None:
    """Time goes by as the attend loop spends it: a sign of life every 20 s."""
    for _ in range(int(minutes * 3)):
        house.clock.advance(20)
        with house.tx() as tx:
            session.claim(
                tx, flow.session_id, flow.run_id, boot_id="home:boot1", now=house.clock.now(), doing=doing or {}
            )
        await say_still_working(house.harness, flow)


async def test_every_three_minutes_and_not_before(house: House) -> None:
    flow = await begin(house)
    doing = {"activity": "tool", "tool": "bash", "iteration": 6}
    await pass_minutes(house, flow, 2.9, doing)
    assert lines(house) == []
    await pass_minutes(house, flow, 7, doing)
    assert lines(house) == [f"Still working, {n} min, step 7: bash." for n in (3, 6, 9)]
    assert house.sender.names() == ["agent.reply.ready"] * 3 and len(set(house.sender.ids())) == 3


async def test_after_a_restart_it_does_not_begin_anew(house: House) -> None:
    flow = await begin(house)
    await pass_minutes(house, flow, 4)
    again = house.rebooted()
    await pass_minutes(again, flow, 1)
    assert lines(house) == ["Still working, 3 min, step 1: thinking."]


async def test_a_turn_that_was_taken_over_says_nothing(house: House) -> None:
    flow = await begin(house)
    await begin(house, "newer", "k2", run_id(2))
    house.clock.advance(600)
    await say_still_working(house.harness, flow)
    assert lines(house) == []


@pytest.mark.parametrize("channel", ["terminal", "http", "gone"])
async def test_clients_that_fetch_see_it_by_themselves(house: House, channel: str) -> None:
    flow = await begin(house, channel=channel)
    await pass_minutes(house, flow, 4)
    assert lines(house) == []


async def test_never_after_the_answer(house: House) -> None:
    """A line that has not gone out when the answer is there is taken back; one that comes too late is not written."""
    flow = await begin(house)
    await pass_minutes(house, flow, 4)
    house.model.answers = [Completion("Here.")]
    thought = await think(house.harness, flow, ask())
    await finish(house.harness, flow, {"key": "finish#1", "head": thought["head"], "text": "", "state": "finished"})
    house.clock.advance(600)
    await say_still_working(house.harness, flow)
    while (await deliver_next(house.db, house.harness.channels, house.clock, "home:boot1", "test:7"))["kind"] != "done":
        pass
    assert house.channel.sent == ["Here."]


async def test_nor_after_stop(house: House) -> None:
    flow = await begin(house)
    await pass_minutes(house, flow, 4)
    await say(house, "stop")
    while (await deliver_next(house.db, house.harness.channels, house.clock, "home:boot1", "test:7"))["kind"] != "done":
        pass
    assert house.channel.sent == ["Stopped."]


async def test_the_turn_speaks_for_the_sub_agent_it_waits_for(house: House) -> None:
    parent = await begin(house)
    house.model.answers = [wishes(("delegate_task", {"task": "count"}))]
    await think(house.harness, parent, ask())
    handed = await act(house.harness, parent, {"key": "tool#0.0", "name": "delegate_task", "durable": True})
    spawn = SubagentSpawn.from_data(handed["invoke"])
    child = Flow.model_validate(await receive_task(house.harness, run_id(7), spawn))
    await pass_minutes(house, child, 4)
    assert lines(house) == ["Still working, 3 min, step 1: delegate_task."]


async def test_a_task_in_the_background_says_nothing_before_its_end(house: House) -> None:
    flow = await begin(house, "count", session_key="task:t1", channel="task", origin="task")
    await pass_minutes(house, flow.model_copy(update={"delegates": False}), 10)
    assert lines(house) == []


async def test_whoever_attends_to_long_work_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend_module, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(attend_module, "SEEN_EVERY_LOOKS", 1)
    flow = await begin(house)
    house.clock.advance(181)

    said = asyncio.Event()

    async def say_so(*given: Any) -> None:
        await say_still_working(*given)
        said.set()

    monkeypatch.setattr(attend_module, "say_still_working", say_so)

    async def work() -> str:
        async with asyncio.timeout(5):
            await said.wait()
        return "done"

    assert await attend(house.harness, flow, work()) == "done"
    assert len(lines(house)) == 1
