"""What is held for a person: the request's row, what its decision is bound to, its prompt, and how it ends."""

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event as sql_event

from app.agent.act import act
from app.agent.approvals import request as approval
from app.agent.approvals.closing import sweep_approvals
from app.agent.approvals.decision import Person, decide, run_decision
from app.agent.approvals.policy import FILE, make_policy, unknown_tools
from app.agent.approvals.text import fenced, prompt_of, shown, visible
from app.agent.flow import Flow, Observation
from app.agent.think import think
from app.channels.channel import Sent
from app.channels.delivery import deliver_next
from app.db import Tx
from app.events import CommandReceived, Destination, Sender
from app.sessions import approvals
from app.sessions.approvals import Approval, State
from app.sessions.calls import MAY_HAVE_HAPPENED
from app.tables import approvals as approval_rows
from app.tables import calls, deliveries, turns
from tests.unit.house import SESSION, House, ask, begin, kill_at, run_id, wishes

ADA = Sender(id="7", name="Ada")
CALL = {"key": "tool#0.0", "name": "push"}
ASK = make_policy((("push", "ask"), ("note", "ask")), None, "test")


async def planned(house: House, name: str = "push", **arguments: Any) -> Flow:
    house.model.answers = [wishes((name, arguments or {"what": "a"}))]
    flow = (await begin(house, sender=ADA)).model_copy(update={"policy": ASK})
    await think(house.harness, flow, ask())
    return flow


async def do(house: House, flow: Flow) -> Observation:
    return Observation.model_validate(await act(house.harness, flow, CALL))


def row(house: House) -> Approval:
    (found,) = house.rows(approval_rows.select())
    return Approval.of(found)


def result(house: House) -> tuple[str, str]:
    (found,) = house.rows(calls.select())
    return found.state, found.result


async def decided(house: House, verb: str, person: str = "test:7") -> str:
    def work(tx: Tx) -> str:
        return decide(tx, house.harness, row(house).id, verb, "", Person(person, "Ada")).text

    return await house.db.write(work)


async def test_a_call_that_needs_nobody_costs_no_query(house: House) -> None:
    """No extra step and no extra transaction; nothing is read or written about approvals."""
    flow = await planned(house)
    asked: list[str] = []
    lane: Any = house.db._writing

    def note(_c: Any, _k: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    sql_event.listen(lane._engine, "before_cursor_execute", note)
    allowed = flow.model_copy(update={"policy": make_policy((("push", "allow"),), None, "test")})
    assert (await do(house, allowed)).kind == "done"
    assert asked and not [one for one in asked if "approvals" in one]


async def test_a_held_call_is_asked_once_and_the_turn_stays_owned(house: House) -> None:
    flow = await planned(house)
    seen = [await do(house, flow), await do(house, flow)]
    assert [one.kind for one in seen] == ["ask", "ask"] and house.log == []
    assert seen[0].ask is not None and (seen[0].ask.wait_s, seen[0].ask.prompt) == (300, True)
    found = row(house)
    assert (found.requester, found.kind, found.tool, found.request["origin"]) == ("test:7", "approval", "push", "test")
    (turn,) = house.rows(turns.select())
    assert turn.waiting_until is not None and turn.state == "live"
    assert result(house) == ("planned", None)


async def test_the_last_wait_ends_with_the_request(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    house.clock.advance(12 * 3600 - 100)
    seen = await do(house, flow)
    assert seen.ask is not None and seen.ask.wait_s == 101
    house.clock.advance(100)
    assert (await do(house, flow)).kind == "done" and row(house).state == "expired"
    assert "expired: nobody answered in time" in result(house)[1]


@pytest.mark.parametrize("name", ["push", "note"])
@pytest.mark.parametrize("point", ["tool.started", "tool.done", "tool.recorded"])
async def test_killed_after_the_approval_was_used(house: House, name: str, point: str) -> None:
    """The approval is good for its own step: what is harmless runs again, the unsafe is reported as ever."""
    flow = await planned(house, name, **({"what": "a"} if name == "push" else {"text": "a"}))
    call = CALL | {"name": name}
    await act(house.harness, flow, call)
    await decided(house, "approve")
    with kill_at(point):
        await act(house.harness, flow, call)
    assert row(house).state == "used"
    house = house.rebooted()
    await act(house.harness, flow, call)
    if point == "tool.recorded" or name == "note":
        assert result(house) == ("finished", "noted" if name == "note" else "pushed a")
    else:
        assert result(house) == ("interrupted", MAY_HAVE_HAPPENED) and len(house.log) <= 1


@pytest.mark.parametrize("changed", ["arguments", "folder"])
async def test_an_approval_is_bound_to_arguments_and_folder(house: House, changed: str) -> None:
    """TRAPS: "always allow" stored a shell and so allowed everything."""
    flow = await planned(house)
    await do(house, flow)
    await decided(house, "approve")
    if changed == "arguments":
        with house.tx() as tx:
            tx.execute(calls.update().values(arguments=json.dumps({"what": "b"})))
    else:
        other = type(house.harness.workspace)(house.harness.workspace.root.parent)
        house = replace(house, harness=replace(house.harness, workspace=other))
    assert (await do(house, flow)).kind == "done"
    assert house.log == [] and row(house).state == "approved" and result(house)[0] == "finished"


async def test_an_approval_is_good_for_one_call(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    await decided(house, "approve")
    await do(house, flow)
    newer = await begin(house, "again", "k2", run_id(2), sender=ADA)
    newer = newer.model_copy(update={"policy": ASK})
    await think(house.harness, newer, ask())
    assert Observation.model_validate(await act(house.harness, newer, CALL)).kind == "ask"
    assert house.log == ["push a"]


async def test_a_denied_tool_is_a_result_and_asks_nobody(house: House) -> None:
    flow = await planned(house)
    flow = flow.model_copy(update={"policy": make_policy((("push", "deny"),), None, "test")})
    assert await do(house, flow) == Observation(kind="done", ok=False)
    assert "push is not allowed here" in result(house)[1] and house.rows(approval_rows.select()) == []


@pytest.mark.parametrize("path", [FILE, f"./{FILE}", f"sub/../{FILE}", FILE.upper(), "link.toml"])
async def test_no_tool_writes_the_policy(house: House, path: str) -> None:
    """Else the model would allow itself what it likes."""
    (house.harness.workspace.root / "link.toml").symlink_to(FILE)
    flow = await planned(house, "note", text=path)
    flow = flow.model_copy(update={"policy": make_policy((("*", "allow"),), None, "terminal")})
    assert not Observation.model_validate(await act(house.harness, flow, CALL | {"name": "note"})).ok
    assert house.log == [] and "is not allowed here" in result(house)[1]


async def test_with_nobody_to_ask_it_is_not_done(house: House) -> None:
    house.model.answers = [wishes(("push", {"what": "a"}))]
    flow = (await begin(house, channel="gone")).model_copy(update={"policy": ASK})
    await think(house.harness, flow, ask())
    assert (await do(house, flow)).kind == "done" and "nobody can be asked" in result(house)[1]


async def test_a_machines_turn_asks_the_person_of_the_chat(house: House) -> None:
    await begin(house, "hello", "k0", run_id(0), sender=ADA)
    house.model.answers = [wishes(("push", {"what": "a"}))]
    flow = await begin(house, "a file came", "k1", run_id(1), origin="watcher", sender=None)
    assert flow.policy.origin == "machine"
    await think(house.harness, flow, ask())
    await act(house.harness, flow.model_copy(update={"policy": ASK}), CALL)
    assert row(house).requester == "test:7"


@pytest.mark.parametrize(("hour", "critical"), [(3, True), (5, True), (6, False), (22, False), (23, True)])
async def test_what_is_asked_at_night_is_critical(house: House, hour: int, critical: bool) -> None:
    flow = await planned(house)
    house.clock.advance((hour - house.clock.now().hour) % 24 * 3600)
    await do(house, flow.model_copy())
    assert row(house).request["critical"] is critical


@pytest.mark.parametrize(
    ("person", "approvers", "may"),
    [
        ("test:7", ("requester", "admins"), True),
        ("test:9", ("requester", "admins"), True),
        ("test:8", ("requester", "admins"), False),
        ("test:7", ("admins",), False),
        ("test:9", ("requester",), False),
        ("terminal", ("admins",), True),
        ("http", ("requester", "admins"), False),
    ],
)
async def test_who_may_decide_is_named(house: House, person: str, approvers: Any, may: bool) -> None:
    settings = house.harness.settings.model_copy(update={"approval_admins": ("test:9",)})
    house = replace(house, harness=replace(house.harness, settings=settings))
    flow = await planned(house)
    await do(house, flow.model_copy(update={"policy": ASK.model_copy(update={"approvers": approvers})}))
    await decided(house, "approve", person)
    assert row(house).state == ("approved" if may else "pending")


async def test_of_two_decisions_the_first_stays(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    found = row(house)
    with house.tx() as tx:
        assert approvals.decide(tx, found, State.DENIED, house.clock.now(), by="Ada")
        assert not approvals.decide(tx, found, State.APPROVED, house.clock.now(), by="Bob")
    assert (row(house).state, row(house).decided_by) == ("denied", "Ada")


async def test_killed_before_anybody_heard_of_a_decision(house: House) -> None:
    """The step runs again: nothing is decided twice, and the event is sent this time."""
    flow = await planned(house)
    await do(house, flow)
    words = CommandReceived(
        command="approve", args=row(house).id, session_key=SESSION, channel="test", sender=ADA,
        destination=Destination(chat_id="7"), message_key="k9",
    )  # fmt: skip
    with kill_at("approval.decided"):
        await run_decision(house.harness, words, "k9")
    assert house.sender.of("agent.approval.decided") == []
    await run_decision(house.harness, words, "k9")
    (event,) = house.sender.of("agent.approval.decided")
    assert event["data"] | {"by": "Ada"} == event["data"] and event["data"]["decision"] == "approved"
    (told,) = house.rows(deliveries.select())
    assert told.text.endswith("was approved by Ada.")


async def deliver(house: House) -> None:
    await deliver_next(house.db, house.harness.channels, house.clock, house.harness.boot_id, "test:7")


async def test_where_messages_can_be_edited_the_prompt_says_how_it_ended(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    await approval.prompt(house.harness, flow, CALL)
    house.channel.results = [Sent({"messageId": 55})]
    await deliver(house)
    text = await decided(house, "deny")
    last = house.rows(deliveries.select().order_by(deliveries.c.id))[-1]
    assert last.part["edit"] == 55 and last.part["text"].endswith(text) and "May I run" in last.part["text"]
    assert "buttons" not in last.part


async def test_a_prompt_that_nobody_saw_is_taken_back(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    await approval.prompt(house.harness, flow, CALL)
    await decided(house, "deny")
    assert [one.state for one in house.rows(deliveries.select())] == ["expired"]


async def test_a_prompt_is_written_once(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    for _ in range(2):
        await approval.prompt(house.harness, flow, CALL)
    assert len(house.rows(deliveries.select())) == 1
    seen = await do(house, flow)
    assert seen.ask is not None and not seen.ask.prompt


def test_what_is_approved_is_what_is_seen() -> None:
    """Nothing invisible: no control characters, no right-to-left overrides, both ends of what is long."""
    assert visible("a\u202eb\x1b[2J\u200b\n\tc") == "a\\u202eb\\u001b[2J\\u200b\n\tc"
    long = shown("bash", json.dumps({"command": "start" + " " * 9000 + "; rm -r ~"}))
    assert long.startswith("start") and long.endswith("; rm -r ~") and "characters are not shown here" in long
    assert shown("write", json.dumps({"path": "a", "n": 3})) == "path: a\nn: 3"
    assert shown("bash", "[not json") == "[not json"


def test_a_command_cannot_end_its_own_block() -> None:
    assert fenced("echo ```\nApproved") == "````\necho ```\nApproved\n````"


async def test_the_prompt_fits_a_message_of_telegram(house: House) -> None:
    flow = await planned(house, "push", what="x" * 100_000)
    await do(house, flow)
    found = row(house)
    text, buttons = prompt_of(found, json.dumps({"what": "x" * 100_000}), found.expires_at, "de-AT")
    assert [button["text"] for button in buttons[0]] == ["Erlauben", "Ablehnen"]
    assert len(text) < 4096


def test_numbers_are_short_and_stable() -> None:
    numbers = {approvals.approval_id(f"run{n}", "tool#0.0") for n in range(2000)}
    assert len(numbers) == 2000 and all(len(number) == 8 and number.isalnum() for number in numbers)
    assert approvals.approval_id("r", "s") == approvals.approval_id("r", "s")
    assert State.PENDING == "pending"


async def test_the_sweep_closes_what_is_overdue_or_belongs_to_a_turn_that_is_over(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    assert await house.db.write(sweep_approvals, house.harness) == []
    house.clock.advance(12 * 3600)
    await house.db.write(sweep_approvals, house.harness)
    assert row(house).state == "expired" and "expired: nobody answered" in result(house)[1]


async def test_the_sweep_closes_what_nobody_waits_for(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    with house.tx() as tx:
        tx.execute(turns.update().values(state="failed"))
    await house.db.write(sweep_approvals, house.harness)
    assert row(house).state == "superseded" and result(house) == ("planned", None)


async def test_a_decision_for_a_turn_that_is_over_decides_nothing(house: House) -> None:
    flow = await planned(house)
    await do(house, flow)
    with house.tx() as tx:
        tx.execute(turns.update().values(state="offered"))
    assert "something newer took its place" in await decided(house, "approve")
    assert row(house).state == "superseded"


def test_names_in_a_policy_that_no_tool_has_are_found() -> None:
    assert unknown_tools((("bahs", "deny"), ("bash", "ask"), ("*", "ask")), {"bash": 1}) == ["bahs"]
