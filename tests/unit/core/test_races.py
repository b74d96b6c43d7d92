"""Races on the engine, with every start and with starts lost as the real server was measured to lose them.

docs/races.md has the table of all of them. After each: every message is answered, each answer was sent once, no two
tools of the session ran at once, and what was sent again was sent under a new id.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.agent import finish as finish_module
from app.agent.accept import accept
from app.agent.models.llm import Completion
from app.agent.tool import Effect, Toolbox, ToolContext, tool
from app.sessions import deposit
from app.tables import deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, message, wishes

BURST_MS = 0.03


class Gate:
    """Something slow: whoever comes in waits until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.entered.set()
        await self.opened.wait()


class Shop:
    """Tools that take as long as a gate says, and what they saw of one another."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, Gate] = {}
        self._inside = 0

    def toolbox(self) -> Toolbox:
        @tool(Effect.UNSAFE)
        async def push(context: ToolContext, what: str) -> str:
            """Push."""
            self._inside += 1
            assert self._inside == 1, "two tools of one session at once"
            self.log.append(f"push {what}")
            if what in self.gates:
                await self.gates[what].pass_through()
            self.log.append(f"pushed {what}")
            self._inside -= 1
            return f"pushed {what}"

        return Toolbox.of(push)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=[False, True], ids=["all starts", "starts are lost"])
async def life(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path, clean_environment: None, shop: Shop
) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, toolbox=shop.toolbox(), lossy=request.param) as one:
        yield one


def slowly(gate: Gate, answer: Any) -> Callable[[], Awaitable[Any]]:
    async def think() -> Any:
        await gate.pass_through()
        return Completion(answer) if isinstance(answer, str) else answer

    return think


async def burst(life: Embedded, *texts: str) -> None:
    """Messages 30 ms apart, as a person sends them who does not stop writing."""
    for text in texts:
        await accept(life.house.harness, message(text, f"k-{text}"))
        life.clock.advance(BURST_MS)
        await asyncio.sleep(0.01)


async def settle(life: Embedded) -> None:
    """Let everything happen, the second look after a minute too."""
    await life.link.engine.idle()
    await life.pass_time(70, 35)


async def check(life: Embedded, *replies: str) -> None:
    house = life.house
    assert house.channel.sent == list(replies)
    assert {row.state for row in house.rows(messages.select()) if row.role == "user"} == {"answered"}
    assert {row.state for row in house.rows(turn_rows.select())} <= {"finished", "superseded"}
    assert {row.state for row in house.rows(deliveries.select())} == {"sent"}
    events = await life.link.engine.events(limit=1000)
    assert [event.event_id for event in events if event.source == "repeated"] == [], "sent again under the same id"


def shown(life: Embedded) -> list[str]:
    return [str(m["content"]) for m in life.house.model.requests[-1][1][1:]]


async def test_second_message_while_the_first_ones_think_is_in_flight(life: Embedded) -> None:
    """Row 1: the first one's words come too late and are not recorded."""
    gate = Gate()
    life.house.model.answers = [slowly(gate, "only the first"), Completion("both")]
    await burst(life, "first")
    await gate.entered.wait()
    await burst(life, "second")
    gate.opened.set()
    await settle(life)
    await check(life, "both")
    assert shown(life) == ["first\n\nsecond"]
    said = [row.text for row in life.house.rows(messages.select()) if row.role == "assistant"]
    assert said == ["both"]


async def test_five_messages_while_it_thinks(life: Embedded) -> None:
    """Rows 1 and 13: of five starts 30 ms apart some are lost; no message is."""
    gate = Gate()
    life.house.model.answers = [slowly(gate, "only the first"), Completion("all")]
    await burst(life, "one")
    await gate.entered.wait()
    await burst(life, "two", "three", "four", "five")
    gate.opened.set()
    await settle(life)
    assert set(life.house.channel.sent) == {"all"}
    assert {row.state for row in life.house.rows(messages.select()) if row.role == "user"} == {"answered"}
    assert all(word in str(shown(life)) for word in ("one", "two", "three", "four", "five"))


async def test_second_message_during_a_long_tool(life: Embedded, shop: Shop) -> None:
    """Row 2: the new turn waits for the tool, is shown its result, and the tool is not run again."""
    gate = shop.gates["a"] = Gate()
    push, again = wishes(("push", {"what": "a"})), wishes(("push", {"what": "b"}))
    life.house.model.answers = [push, again, Completion("both")]
    await burst(life, "first")
    await gate.entered.wait()
    await burst(life, "second", "third")
    assert shop.log == ["push a"]
    gate.opened.set()
    await settle(life)
    await check(life, "both")
    assert shop.log == ["push a", "pushed a", "push b", "pushed b"]
    assert "pushed a" in str(life.house.model.requests[1][1]), "what was done before the steer is known"


async def test_message_between_the_last_thought_and_the_end(life: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 5."""
    said: list[str] = []
    plain_end = finish_module._end

    def end(tx: Any, *given: Any) -> Any:
        if not said:
            said.append("second")
            event = message("second", "k-second")
            deposit.deposit(tx, event, "k-second", new_session_id="X", now=life.clock.now())
        return plain_end(tx, *given)

    monkeypatch.setattr(finish_module, "_end", end)
    life.house.model.answers = [Completion("only the first"), Completion("both")]
    await burst(life, "first")
    await settle(life)
    await check(life, "both")


async def test_cancelled_between_the_end_and_its_event(life: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 6: the outbox row is unsent, and whoever sees it sends."""

    async def lost(*_: Any) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(finish_module, "announce", lost)
        await burst(life, "first")
        await life.link.engine.idle()
    assert life.house.channel.sent == []
    await settle(life)
    await check(life, "Hello.")


async def test_a_machine_speaks_while_the_person_is_talked_to(life: Embedded) -> None:
    """Rows 12 and 20: a wake, a child or a file is deposited, nobody is cancelled, the live turn reads it."""
    gate = Gate()
    life.house.model.answers = [slowly(gate, "to the person"), Completion("to both")]
    await burst(life, "first")
    await gate.entered.wait()
    for number in range(3):
        event = message(f"wake {number}", f"w{number}", origin="a wake", steers=False)
        await accept(life.house.harness, event)
        life.clock.advance(BURST_MS)
    await asyncio.sleep(0.05)
    gate.opened.set()
    await settle(life)
    await check(life, "to both")
    assert {run.status for run in await life.runs("handle-message")} == {"Completed"}
    assert all(f"wake {number}" in str(shown(life)) for number in range(3))


async def test_an_edit_while_its_turn_thinks(life: Embedded) -> None:
    """Row 22: under an id of its own; what the old text asked for is never answered."""
    gate = Gate()
    life.house.model.answers = [slowly(gate, "a plain is booked"), Completion("a plane is booked")]
    await burst(life, "book a plain")
    await gate.entered.wait()
    for date in (100, 101):
        await accept(life.house.harness, message("book a plane", "k-book a plain", edited=str(date)))
        life.clock.advance(BURST_MS)
    gate.opened.set()
    await settle(life)
    await check(life, "a plane is booked")
    assert shown(life) == ["book a plane"]
    ids = [event.event_id for event in await life.link.engine.events(limit=1000, name="agent.message.received")]
    assert {"k-book a plain:first", "k-book a plain:edit-100", "k-book a plain:edit-101"} <= set(ids)


async def test_the_reply_event_twice_at_once(life: Embedded) -> None:
    """Row 8: parts are claimed by their rows."""
    life.house.model.answers = ["one\n---\ntwo\n---\nthree"]
    await burst(life, "first")
    await life.link.engine.idle()
    (event,) = [e for e in await life.link.engine.events(limit=100, name="agent.reply.ready")]
    with life.house.tx() as tx:
        tx.execute(deliveries.update().values(state="pending", boot_id=None, not_before=None))
    life.house.channel.sent.clear()
    data = event.data
    await life.link.send([{"name": "agent.reply.ready", "id": f"again-{n}", "data": data} for n in range(3)])
    await settle(life)
    assert life.house.channel.sent == ["one", "two", "three"]


async def test_sweep_beside_a_run_that_is_just_starting(life: Embedded) -> None:
    """Row 13: what is owned is not woken, however often somebody looks."""
    gate = Gate()
    life.house.model.answers = [slowly(gate, "here"), Completion("woken twice")]
    await burst(life, "first")
    await gate.entered.wait()
    beat = {"sessionKey": SESSION, "wakeId": "w"}
    await life.link.send([{"name": "agent.wake.due", "id": f"beat-{n}", "data": beat} for n in range(3)])
    await asyncio.sleep(0.05)
    gate.opened.set()
    await settle(life)
    await check(life, "here")
    assert len(await life.runs("handle-message")) == 1


async def test_two_beats_at_once_do_each_thing_once(life: Embedded) -> None:
    """Row 21: a beat that an event starts always runs; what it decides is a compare-and-set."""
    await life.house.harness.db.write(
        deposit.deposit, message("forgotten", "k1"), "k1", new_session_id="S", now=life.clock.now()
    )
    life.clock.advance(61)
    beat = {"sessionKey": SESSION, "wakeId": "w"}
    await life.link.send([{"name": "agent.wake.due", "id": f"beat-{n}", "data": beat} for n in range(4)])
    await settle(life)
    assert life.house.channel.sent == ["Hello."]
    assert len([run for run in await life.runs("heartbeat") if run.event_name == "agent.wake.due"]) == 4
