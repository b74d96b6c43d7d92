"""The think step: the model is asked once, and its words are recorded once, by the holder alone."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from app.agent import attend
from app.agent.approvals.policy import Policy
from app.agent.context.build import NUDGE
from app.agent.flow import Flow, Thought
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.agent.think import think, toolbox_of
from app.config import LOCAL_MODEL
from app.sessions import calls, deposit, session, transcript
from app.tables import calls as call_rows
from app.tables import messages, sessions, usage
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, ask, begin, kill_at, message, run_id, wishes


async def thought(house: House, flow: Flow, number: int = 0, **changes: Any) -> Thought:
    return Thought.model_validate(await think(house.harness, flow, ask(number, **changes)))


def assistant_texts(house: House) -> list[str]:
    return [row.text for row in house.rows(messages.select()) if row.role == "assistant"]


async def test_words_are_recorded_behind_the_question(house: House) -> None:
    house.model.answers = [Completion("Hi.", input_tokens=5, output_tokens=2, cost_usd=0.01)]
    flow = await begin(house)
    said = await thought(house, flow)
    assert said.kind == "say" and assistant_texts(house) == ["Hi."]
    assert house.scalar(sessions.select().with_only_columns(sessions.c.head_id)) == said.head
    (cost,) = house.rows(usage.select())
    assert (cost.input_tokens, cost.output_tokens, cost.cost_usd, cost.model) == (5, 2, 0.01, "test/model")


async def test_wishes_become_planned_calls(house: House) -> None:
    house.model.answers = [wishes(("look", {"at": "a"}), ("push", "not json"), ("ghost", "{}"), text="On it.")]
    flow = await begin(house)
    found = await thought(house, flow, 3)
    assert [(c.key, c.name, c.durable) for c in found.calls] == [
        ("tool#3.0", "look", False),
        ("tool#3.1", "push", False),
        ("tool#3.2", "ghost", False),
    ]
    rows = house.rows(call_rows.select())
    assert [(r.provider_id, r.effect, r.state, r.arguments) for r in rows] == [
        ("call_1", "read", "planned", '{"at": "a"}'),
        ("call_1", "unsafe", "planned", "not json"),
        ("call_1", "read", "planned", "{}"),
    ]


async def test_a_name_of_any_length_stays_short(house: House) -> None:
    """It becomes part of a step's id and of its answer."""
    house.model.answers = [wishes(("n" * 90_000, {}))]
    flow = await begin(house)
    (call,) = (await thought(house, flow)).calls
    assert call.name == "n" * 64 and house.rows(call_rows.select())[0].name == call.name


async def test_the_step_finds_its_own_record_and_asks_nobody(house: House) -> None:
    house.model.answers = [wishes(("look", {}), ("delegate_task", {"task": "t"}))]
    flow = await begin(house)
    first = await think(house.harness, flow, ask())
    assert await think(house.harness, flow, ask()) == first
    assert len(house.model.requests) == 1 and len(house.rows(call_rows.select())) == 2


@pytest.mark.parametrize("point", ["think.asking", "think.answered", "think.committed"])
async def test_killed_anywhere_the_words_are_there_once(house: House, point: str) -> None:
    flow = await begin(house)
    with kill_at(point):
        await think(house.harness, flow, ask())
    said = await thought(house, flow)
    assert said.kind == "say" and assistant_texts(house) == ["Hello."]
    assert len(house.rows(usage.select())) == 1


async def test_what_comes_in_meanwhile_is_not_shown_and_not_lost(house: House) -> None:
    flow = await begin(house, "one")

    async def answer() -> Completion:
        with house.tx() as tx:
            deposit.deposit(tx, message("two", "k2"), "k2", new_session_id="X", now=house.clock.now())
        return Completion("to one")

    house.model.answers = [answer, Completion("to both")]
    await thought(house, flow)
    assert "two" not in str(house.model.requests[0][1])
    await thought(house, flow, 1)
    shown = [(m["role"], m["content"]) for m in house.model.requests[1][1][1:]]
    assert shown == [("user", "one"), ("assistant", "to one"), ("user", "two")]


@pytest.mark.parametrize(("origin", "is_urgent"), [("terminal", True), ("task", False), ("machine", False)])
async def test_what_a_person_waits_for_is_urgent(house: House, origin: str, is_urgent: bool) -> None:
    flow = await begin(house)
    await think(house.harness, flow.model_copy(update={"policy": Policy(origin=origin)}), ask())
    assert house.model.askings[-1].urgent is is_urgent


async def test_words_of_a_superseded_turn_are_not_recorded_but_paid(house: House) -> None:
    flow = await begin(house, "one")

    async def answer() -> Completion:
        await begin(house, "two", "k2", run_id(2))
        return Completion("too late", input_tokens=9)

    house.model.answers = [answer]
    assert (await thought(house, flow)).kind == "superseded"
    assert assistant_texts(house) == [] and house.rows(usage.select())[0].input_tokens == 9


async def test_a_superseded_turn_asks_nobody(house: House) -> None:
    flow = await begin(house)
    await begin(house, "two", "k2", run_id(2))
    assert (await thought(house, flow)).kind == "superseded" and house.model.requests == []


async def test_a_stopped_turn_stops_asking(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "LOOK_EVERY_S", 0.01)
    flow = await begin(house)
    cancelled = []

    async def answer() -> Completion:
        with house.tx() as tx:
            session.stop(tx, flow.session_id, house.clock.now())
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return Completion("never")

    house.model.answers = [answer]
    assert (await thought(house, flow)).kind == "stopped" and cancelled == [True]
    assert (await thought(house, flow, 1)).kind == "stopped"


async def test_an_old_turn_of_a_dead_boot_is_stale(house: House) -> None:
    flow = await begin(house)
    house.clock.advance(601)
    assert (await thought(house.rebooted(), flow)).kind == "stale"
    assert (await thought(house, flow)).kind == "say"


async def test_a_failure_is_a_value_and_the_turn_stays_owned(house: House) -> None:
    house.model.answers = [ModelFailure(Trouble.OVERLOADED, "m" * 900, retry_after_s=120.0)]
    flow = await begin(house)
    found = await thought(house, flow)
    assert (found.kind, found.trouble, len(found.message)) == ("failed", Trouble.OVERLOADED, 300)
    assert found.wait_until == (house.clock.now() + timedelta(seconds=120)).isoformat()
    house.clock.advance(110)
    with house.tx() as tx:
        assert session.is_live(tx, RUN, house.clock.now())


async def test_a_key_in_a_failure_does_not_leave_the_step(house: House) -> None:
    house.model.answers = [
        ModelFailure(Trouble.REJECTED, "Incorrect API key provided: sk-abcdefgh12345678", advice="KEY is not set.")
    ]
    found = await thought(house, await begin(house))
    assert found.message == "Incorrect API key provided: sk-***" and found.advice == "KEY is not set."


async def test_a_pause_grows_with_the_waits_where_nobody_names_one(house: House) -> None:
    house.model.answers = [ModelFailure(Trouble.UNAVAILABLE, "gone")]
    flow = await begin(house)
    pauses = [(await thought(house, flow, n, waits=n)).wait_until for n in range(3)]
    assert pauses == [(house.clock.now() + timedelta(seconds=s)).isoformat() for s in (2, 8, 30)]


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_answer_leaves_no_trace(house: House, text: str) -> None:
    house.model.answers = [Completion(text)]
    flow = await begin(house)
    assert (await thought(house, flow)).kind == "empty" and assistant_texts(house) == []


async def test_notes_reach_the_model(house: House) -> None:
    flow = await begin(house)
    await thought(house, flow, 19, nudge=True)
    newest = house.model.requests[0][1][-1]["content"]
    assert NUDGE in newest and "1 step left" in newest


async def test_a_shrunk_context_is_asked_for(house: House) -> None:
    flow = await begin(house)
    house.model.answers = [wishes(("look", {})), Completion("done")]
    await thought(house, flow)
    with house.tx() as tx:
        call = calls.find(tx, RUN, "tool#0.0")
        assert call is not None
        calls.finish(tx, call.id, ok=True, result="r" * 9_000, now=house.clock.now())
    await thought(house, flow, 1, shrink=2)
    (result,) = [m for m in house.model.requests[1][1] if m["role"] == "tool"]
    assert len(result["content"]) < 3_100


async def test_it_waits_for_a_tool_of_an_older_turn(house: House) -> None:
    """Row 2: its result belongs to what the model is shown."""
    older = await begin(house, "one", "k1", run_id(1))
    house.model.answers = [wishes(("push", {"what": "a"})), Completion("done")]
    await thought(house, older)
    with house.tx() as tx:
        call = calls.find(tx, run_id(1), "tool#0.0")
        assert call is not None
        calls.start(tx, call.id, "home:boot1", house.clock.now())
    newer = await begin(house, "two", "k2", run_id(2))
    waiting = asyncio.ensure_future(think(house.harness, newer, ask()))
    await house.harness.notifier.wait(SESSION, 10)
    assert house.rows(turn_rows.select().where(turn_rows.c.run_id == run_id(2)))[0].tool == "push"
    assert len(house.model.requests) == 1
    with house.tx() as tx:
        calls.finish(tx, call.id, ok=True, result="pushed", now=house.clock.now())
    house.harness.notifier.publish(newer.session_key)
    await waiting
    assert [m["content"] for m in house.model.requests[1][1] if m["role"] == "tool"] == ["pushed"]


async def test_surrogates_of_a_model_do_not_brick_the_session(house: House) -> None:
    house.model.answers = [wishes(("lo\ud800ok", '{"a": "\\ud800"}'), text="a\ud800\x00"), Completion("done")]
    flow = await begin(house)
    await thought(house, flow)
    assert (await thought(house, flow, 1)).kind == "say"
    assert house.model.requests[1][1][2]["content"] == "a?"


async def test_a_tiny_model_gets_a_short_prompt_and_no_tools(house: House) -> None:
    flow = (await begin(house, "0")).model_copy(update={"compact": True, "model": LOCAL_MODEL})
    for number in range(1, 12):
        with house.tx() as tx:
            key = f"k{number}"
            deposit.deposit(tx, message(str(number), key), key, new_session_id="X", now=house.clock.now())
    await thought(house, flow, 19)
    _, shown, tools = house.model.requests[0]
    assert tools == [] and len(shown[0]["content"]) < 200
    assert shown[1]["content"].split("\n\n") == [str(n) for n in range(4, 12)]
    assert toolbox_of(house.harness, flow).tools == {}


async def test_a_capable_model_gets_the_workspace_and_the_tools(house: House) -> None:
    (house.harness.workspace.root / "MEMORY.md").write_text("Likes tea.")
    flow = await begin(house)
    await thought(house, flow)
    _, shown, tools = house.model.requests[0]
    assert "Likes tea." in shown[0]["content"]
    assert [t["function"]["name"] for t in tools] == ["look", "note", "push", "broken", "delegate_task"]
    await thought(house, flow.model_copy(update={"delegates": False}), 1)
    assert "delegate_task" not in [t["function"]["name"] for t in house.model.requests[1][2]]


async def test_the_head_is_where_the_words_stand(house: House) -> None:
    flow = await begin(house)
    said = await thought(house, flow)
    with house.tx() as tx:
        assert [e.text for e in transcript.load(tx, flow.session_id, said.head)] == ["hello", "Hello."]
