"""Budgets: what may still be spent, reserved before each call under its run and step, settled or given back after."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from app.agent.models.budget import Limit, limits_of, refusal
from app.agent.models.llm import Completion, Facts, ModelFailure, Trouble
from app.agent.think import think
from app.config import Settings
from app.sessions import session
from app.sessions import usage as spending
from app.sessions.usage import Amount, Price, Scope
from app.tables import calls, deliveries, messages, usage
from tests.unit.house import RUN, House, ask, begin, message, run_id, whole_turn, wishes

TURN, SESSION, DAY = Limit("turn", tokens=100), Limit("session", usd=2.0), Limit("day", 1_000, 5.0)


def used(tokens: int = 0, usd: float = 0.0, *scopes: str) -> dict[str, Amount]:
    none = dict.fromkeys(("turn", "session", "day"), Amount())
    return none | dict.fromkeys(scopes or none, Amount(tokens, usd))


@pytest.mark.parametrize(
    ("limits", "before", "wanted", "said"),
    [
        ((), used(10**9, 10**9), Amount(10**9), None),
        ((TURN,), used(), Amount(100), None),
        ((TURN,), used(), Amount(101), "0 of 100 tokens (BUDGET_TURN_TOKENS)"),
        ((TURN,), used(60), Amount(40), None),
        ((TURN,), used(60), Amount(41), "60 of 100 tokens (BUDGET_TURN_TOKENS)"),
        ((TURN,), used(60, 99.0), Amount(40, 99.0), None),
        ((TURN,), used(10**6, 0, "session", "day"), Amount(1), None),
        ((SESSION,), used(10**6, 1.5), Amount(10**6, 0.5), None),
        ((SESSION,), used(0, 1.75), Amount(0, 0.5), "$1.75 of $2.00 (BUDGET_SESSION_USD)"),
        ((DAY,), used(999), Amount(1, 5.0), None),
        ((DAY,), used(999), Amount(2), "999 of 1,000 tokens (BUDGET_DAY_TOKENS)"),
        ((DAY,), used(0, 4.9), Amount(0, 0.2), "$4.90 of $5.00 (BUDGET_DAY_USD)"),
        ((TURN, SESSION, DAY), used(2_000, 9.0), Amount(1), "BUDGET_TURN_TOKENS"),
        ((SESSION, DAY), used(500, 4.5, "day"), Amount(1, 0.6), "BUDGET_DAY_USD"),
    ],
)
def test_what_fits(limits: Any, before: dict[str, Amount], wanted: Amount, said: str | None) -> None:
    found = refusal(limits, before, wanted)
    assert (found is None) if said is None else (found is not None and said in found)


def test_only_what_is_set_is_a_limit() -> None:
    none = {f"budget_{scope}_{unit}": 0 for scope in ("turn", "session", "day") for unit in ("tokens", "usd")}
    assert limits_of(Settings(_env_file=None, **none)) == ()
    assert limits_of(Settings(_env_file=None, **none | {"budget_day_usd": 1.5})) == (Limit("day", usd=1.5),)
    assert [limit.scope for limit in limits_of(Settings(_env_file=None))] == ["turn", "day"]


def rows(house: House) -> list[tuple[str, str, int]]:
    return sorted((r.step_key, r.state, r.input_tokens + r.output_tokens) for r in house.rows(usage.select()))


def with_budget(house: House, **settings: Any) -> House:
    changed = house.harness.settings.model_copy(update=settings)
    return replace(house, harness=replace(house.harness, settings=changed))


# TRAPS, Context: "1,535 identical polls cost 150 dollars -> ... budget reserved before each call, settled after".
async def test_reserved_before_the_call_and_settled_after(house: House) -> None:
    seen: list[list[tuple[str, str, int]]] = []

    async def answer() -> Completion:
        seen.append(rows(house))
        return Completion("Hi.", input_tokens=90, output_tokens=10)

    house.model.answers = [answer]
    house.model.known = Facts(max_output=500, input_usd=0.0001, output_usd=0.001)
    await think(house.harness, await begin(house), ask())
    ((key, state, tokens),) = seen[0]
    assert (key, state) == ("think#0", "reserved") and tokens > 4_000
    assert rows(house) == [("think#0", "settled", 100)]
    (row,) = house.rows(usage.select())
    assert row.cost_usd == pytest.approx(90 * 0.0001 + 10 * 0.001), "the table's price where the provider names none"


@pytest.mark.parametrize("failure", [ModelFailure(Trouble.OVERLOADED, "busy"), ModelFailure(Trouble.INVALID, "no")])
async def test_a_call_without_an_answer_gives_back_what_was_held(house: House, failure: ModelFailure) -> None:
    house.model.answers = [failure]
    await think(house.harness, await begin(house), ask())
    assert rows(house) == []


async def test_a_step_that_runs_again_holds_it_once(house: House) -> None:
    async def die() -> Completion:
        raise MemoryError

    house.model.answers = [die, Completion("Hi.", input_tokens=7)]
    conditions = await begin(house)
    with pytest.raises(MemoryError):
        await think(house.harness, conditions, ask())
    assert [state for _, state, _ in rows(house)] == ["reserved"]
    await think(house.harness, conditions, ask())
    assert rows(house) == [("think#0", "settled", 7)]


async def test_a_newer_turn_gives_back_what_an_older_one_held(house: House) -> None:
    """Row 19: budget reserved by a run that is then cancelled; its late answer is paid all the same."""
    older = await begin(house, "one", "k1", run_id(1))

    async def answer() -> Completion:
        assert [state for _, state, _ in rows(house)] == ["reserved"]
        await begin(house, "two", "k2", run_id(2))
        assert rows(house) == []
        return Completion("too late", input_tokens=9)

    house.model.answers = [answer]
    assert (await think(house.harness, older, ask()))["kind"] == "superseded"
    assert rows(house) == [("think#0", "settled", 9)]


async def test_a_turn_that_has_used_its_budget_ends_with_an_explanation(house: House) -> None:
    """1,535 identical polls cost 150 dollars: budget reserved before each call; a stop is a normal, explained end."""
    house = with_budget(house, budget_turn_tokens=60_000)
    house.model.answers = [replace(wishes(("look", {})), input_tokens=15_000, output_tokens=9)]
    ending = await whole_turn(house)
    assert ending.kind == "answered" and len(house.model.requests) == 2
    (sent,) = [row.text for row in house.rows(deliveries.select())]
    assert "30,018 of 60,000 tokens (BUDGET_TURN_TOKENS)" in sent and "go on in a new turn" in sent
    house.model.answers = ["Fresh."]
    assert (await whole_turn(house, "go on", "k2", run_id(2))).kind == "answered" and len(house.model.requests) == 3


async def test_a_conversation_and_a_day_have_budgets(house: House) -> None:
    house.model.answers = [Completion("Hi.", input_tokens=30_000, cost_usd=1.0)]
    for number in range(1, 4):
        await whole_turn(house, "hi", f"k{number}", run_id(number))
    asked = len(house.model.requests)
    in_session = with_budget(house, budget_session_tokens=100_000)
    assert "/new" in await spent_text(in_session, 10)
    in_day = with_budget(house, budget_day_usd=3.0, budget_turn_usd=0)
    assert "BUDGET_DAY_USD" in await spent_text(in_day, 11)
    assert len(house.model.requests) == asked
    house.clock.advance(timedelta(days=1).total_seconds())
    house.model.known = Facts(input_usd=0.00001, output_usd=0.00001)
    await whole_turn(in_day, "hi", "k12", run_id(12))
    assert len(house.model.requests) == asked + 1


async def spent_text(house: House, number: int) -> str:
    house.model.known = Facts(input_usd=0.0001, output_usd=0.0001)
    conditions = await begin(house, "hi", f"k{number}", run_id(number))
    thought = await think(house.harness, conditions, ask())
    assert thought["kind"] == "spent"
    return str(thought["message"])


async def test_children_count_with_their_parent(house: House) -> None:
    parent = await begin(house)
    now = house.clock.now()
    with house.tx() as tx:
        child = session.open_session(tx, f"task:{RUN}:tool#0.0", "CHILD", now)
        other = session.open_session(tx, f"task:{run_id(9)}:tool#0.0", "OTHER", now)
        call = {"session_id": parent.session_id, "message_id": tx.scalar(select(messages.c.id)), "run_id": RUN}
        call |= {"step_key": "tool#0.0", "position": 0, "provider_id": "c", "name": "delegate_task", "arguments": "{}"}
        tx.execute(insert(calls), call | {"effect": "safe", "state": "started", "child_key": f"task:{RUN}:tool#0.0"})
        for name, run, tokens in ((parent.session_id, RUN, 1), (child, run_id(50), 10), (other, run_id(51), 100)):
            spending.settle(tx, name, run, "think#0", Price("m", tokens, 0), now)
        day = now - timedelta(hours=1)
        of_parent = spending.spent(tx, Scope(RUN, parent.session_id, parent.session_key, day), "new", now)
        of_child = spending.spent(tx, Scope(run_id(50), child, f"task:{RUN}:tool#0.0", day), "new", now)
    assert {name: amount.tokens for name, amount in of_parent.items()} == {"turn": 11, "session": 11, "day": 111}
    assert of_child == of_parent


async def test_what_a_dead_process_held_counts_for_an_hour(house: House) -> None:
    conditions = await begin(house)
    now = house.clock.now()
    with house.tx() as tx:
        spending.reserve(tx, conditions.session_id, RUN, "think#0", Price("m", 500, 0), now)
        day = now - timedelta(hours=3)
        scope = Scope(RUN, conditions.session_id, conditions.session_key, day)
        held = spending.spent(tx, scope, "think#1", now)
        own = spending.spent(tx, scope, "think#0", now)
        gone = spending.spent(tx, scope, "think#1", now + timedelta(hours=2))
    assert [one["turn"].tokens for one in (held, own, gone)] == [500, 0, 0]


async def test_without_any_limit_nothing_is_held(house: House) -> None:
    house = with_budget(house, budget_turn_tokens=0, budget_turn_usd=0.0, budget_day_usd=0.0)

    async def answer() -> Completion:
        assert rows(house) == []
        return Completion("Hi.", input_tokens=5)

    house.model.answers = [answer]
    await think(house.harness, await begin(house), ask())
    assert rows(house) == [("think#0", "settled", 5)]


async def test_usage_is_reported_by_session_model_and_day(house: House) -> None:
    house.model.answers = [Completion("Hi.", input_tokens=10, output_tokens=2, cost_usd=0.5)]
    await whole_turn(house)
    house.model.answers = [Completion("Hi.", input_tokens=20)]
    await whole_turn(house, "two", "k2", run_id(2))
    with house.tx() as tx:
        start = house.clock.now() - timedelta(days=1)
        (by_session,) = spending.report(tx, "session", start)
        (by_model,) = spending.report(tx, "model", start)
        assert spending.report(tx, "model", house.clock.now() + timedelta(days=1)) == []
    counted = {"calls": 2, "input_tokens": 30, "output_tokens": 2, "cost_usd": 0.5, "unpriced": 1}
    assert by_session == {"name": message().session_key} | counted
    assert by_model == {"name": "test/model"} | counted
