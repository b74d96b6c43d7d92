"""Approvals on the embedded engine: the wait, the decision that comes too early or too late, a restart in between."""

import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app import engines
from app.agent.approvals import request as approval
from app.agent.models.llm import Completion
from app.events import CommandReceived, Destination, MessageReceived, Sender
from app.sessions import approvals
from app.tables import approvals as approval_rows
from app.tables import calls, deliveries, messages, turns
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, message, wishes

ADA = Sender(id="7", name="Ada")
BOB = Sender(id="8", name="Bob")
NEVER = "0 0 1 1 *"
"""A beat would look at the requests as well, and when it comes depends on the time of day."""


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    push = wishes(("push", {"what": "a"}))
    rules = {"tool_policy": "push=ask", "heartbeat_cron": NEVER}
    async with embedded(tmp_path / "house", template, push, "Done.", **rules) as one:
        yield one


def said(text: str = "hello", key: str = "k1", sender: Sender = ADA) -> MessageReceived:
    return message(text, key, sender=sender)


def command(name: str, args: str = "", sender: Sender = ADA, key: str | None = None) -> CommandReceived:
    return CommandReceived(
        command=name,
        args=args,
        session_key=SESSION,
        channel="test",
        sender=sender,
        destination=Destination(chat_id="7"),
        message_key=key or f"test:{name}:{args}:{sender.id}",
    )


def row(life: Embedded) -> Any:
    return life.house.rows(approval_rows.select().order_by(approval_rows.c.created_at))[-1]


async def ask(life: Embedded) -> str:
    """A turn that waits; the number of its request."""
    await life.send(said())
    (run,) = await life.runs("handle-message")
    assert run.status == "Running" and life.house.log == []
    number: str = row(life).id
    assert number in life.house.channel.sent[-1]
    return number


async def test_an_approved_call_runs_once(life: Embedded) -> None:
    number = await ask(life)
    await life.send(command("approve", number))
    assert life.house.log == ["push a"]
    assert life.house.channel.sent[1:] == [f"The request to run push ({number}) was approved by Ada.", "Done."]
    (run,) = await life.runs("handle-message")
    assert await life.steps(run) == [
        "receive", "think", "tool-push", "prompt", "decision", "tool-push", "think", "finish",
    ]  # fmt: skip
    assert (row(life).state, row(life).decided_by) == ("used", "Ada")


async def test_the_prompt_says_what_and_how(life: Embedded) -> None:
    number = await ask(life)
    (text,) = life.house.channel.sent
    assert f"/approve {number} or /deny {number} [reason]" in text and "**push**" in text and "```\na\n```" in text
    (part,) = [one.part for one in life.house.rows(deliveries.select()) if one.kind == "prompt"]
    assert part["buttons"] == [
        [{"text": "Approve", "data": f"approve {number}"}, {"text": "Deny", "data": f"deny {number}"}]
    ]


async def test_a_denied_call_is_a_result_for_the_model(life: Embedded) -> None:
    number = await ask(life)
    await life.send(command("deny", f"{number} not on a Friday"))
    assert life.house.log == [] and life.house.channel.sent[-1] == "Done."
    told = life.house.model.requests[-1][1][-1]
    assert told["role"] == "tool" and "was denied by Ada: not on a Friday. It was not done." in told["content"]


async def test_only_permitted_people_decide(life: Embedded) -> None:
    number = await ask(life)
    await life.send(command("approve", number, BOB))
    assert life.house.channel.sent[-1] == f"Only who asked for it or an admin may decide on {number}."
    assert row(life).state == "pending" and life.house.log == []
    await life.send(command("approve", number))
    assert life.house.log == ["push a"]


async def test_the_first_decision_counts(life: Embedded) -> None:
    number = await ask(life)
    await life.send(command("deny", number))
    await life.send(command("approve", number))
    assert life.house.log == []
    assert life.house.channel.sent[-1] == f"The request to run push ({number}) was denied by Ada. It was not done."


async def test_the_same_tap_twice_is_one_decision(life: Embedded) -> None:
    number = await ask(life)
    await life.send(command("approve", number, key="tap:1"))
    await life.link.send([command("approve", number, key="tap:1").to_wire("another id")])
    await life.link.engine.idle()
    assert life.house.log == ["push a"] and len(life.house.channel.sent) == 3


async def test_row_9_a_newer_message_closes_the_request_and_the_tap_explains_itself(life: Embedded) -> None:
    """TRAPS: a pending approval blocks all messages -> a newer one takes its place at once."""
    life.house.model.answers = [wishes(("push", {"what": "a"})), Completion("To both.")]
    number = await ask(life)
    await life.send(said("never mind", "k2"))
    closed = f"The request to run push ({number}) is closed: something newer took its place. It was not done."
    assert sorted(life.house.channel.sent[1:]) == sorted([closed, "To both."]) and row(life).state == "superseded"
    await life.send(command("approve", number))
    assert life.house.channel.sent[-1] == closed and life.house.log == []
    assert [one.state for one in life.house.rows(calls.select())] == ["planned"]


async def test_row_9_also_where_starts_are_lost(
    tmp_path: Path, template: Path, clean_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "Engine", functools.partial(engines.Engine, singleton_lossy=True))
    answers = (wishes(("push", {"what": "a"})), Completion("To all."))
    async with embedded(tmp_path / "house", template, *answers, tool_policy="push=ask") as life:
        number = await ask(life)
        await life.send(said("never mind", "k2"))
        await life.send(said("really", "k3"))
        await life.pass_time(62, 31)
        await life.send(command("approve", number))
        assert life.house.channel.sent[-1].endswith("something newer took its place. It was not done.")
        states = {one.state for one in life.house.rows(messages.select().where(messages.c.role == "user"))}
        assert row(life).state == "superseded" and life.house.log == [] and states == {"answered"}


async def test_row_10_a_tap_before_the_wait_exists(life: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided as soon as the row is there, before anybody was asked: its event wakes nobody, the row is read."""
    read = approval._prompt

    def too_early(tx: Any, harness: Any, flow: Any, call: Any) -> Any:
        found = approvals.of_step(tx, flow.run_id, call.key)
        assert found is not None
        approvals.decide(tx, found, approvals.State.APPROVED, harness.clock.now(), by="Ada")
        return read(tx, harness, flow, call)

    monkeypatch.setattr(approval, "_prompt", too_early)
    await life.send(said())
    assert life.house.log == ["push a"] and life.house.channel.sent == ["Done."]


async def test_a_decision_whose_event_was_lost_is_found_within_five_minutes(life: Embedded) -> None:
    number = await ask(life)
    with life.house.tx() as tx:
        found = approvals.find(tx, number)
        assert found is not None
        approvals.decide(tx, found, approvals.State.APPROVED, life.clock.now(), by="Ada")
    await life.pass_time(299, 299)
    assert life.house.log == []
    await life.pass_time(2)
    assert life.house.log == ["push a"] and life.house.channel.sent[-1] == "Done."


async def test_a_request_is_valid_after_a_restart(life: Embedded) -> None:
    """TRAPS: approvals lost on restart."""
    number = await ask(life)
    await life.restart()
    await life.pass_time(1200, 290)
    assert row(life).state == "pending" and len(await life.runs("handle-message")) == 1
    await life.send(command("approve", number))
    assert life.house.log == ["push a"] and life.house.channel.sent[-1] == "Done."
    assert sum("May I run" in text for text in life.house.channel.sent) == 1


async def test_a_decision_that_nobody_heard_of_is_heard_at_the_next_start(life: Embedded) -> None:
    number = await ask(life)
    life.clock.advance(1)
    with life.house.tx() as tx:
        found = approvals.find(tx, number)
        assert found is not None
        approvals.decide(tx, found, approvals.State.APPROVED, life.clock.now(), by="Ada")
    await life.restart()
    assert life.house.log == ["push a"] and life.house.channel.sent[-1] == "Done."


async def test_a_sub_agents_request_is_put_to_who_gave_the_task(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    answers = [
        wishes(("delegate_task", {"task": "push it"})),
        wishes(("push", {"what": "a"})),
        Completion("Pushed."),
        Completion("All done."),
    ]
    async with embedded(tmp_path / "house", template, *answers, tool_policy="push=ask") as life:
        await life.send(said())
        assert row(life).requester == "test:7" and row(life).request["origin"] == "task"
        assert row(life).id in life.house.channel.sent[0]
        await life.pass_time(1200, 290)
        await life.send(command("approve", row(life).id))
        assert life.house.log == ["push a"] and life.house.channel.sent[-1] == "All done."
        assert len(await life.runs("handle-message")) == 1 and len(await life.runs("sub-agent")) == 1


async def test_a_long_wait_stays_owned_and_ends_visibly(life: Embedded) -> None:
    """TRAPS: approvals expire visibly. Nobody wakes a second turn meanwhile."""
    number = await ask(life)
    for _ in range(12):
        await life.pass_time(3601, 301)
    assert row(life).state == "expired" and len(await life.runs("handle-message")) == 1
    expired = f"The request to run push ({number}) expired: nobody answered in time. It was not done."
    assert life.house.channel.sent[1:] == [expired, "Done."] and life.house.log == []
    assert expired in life.house.model.requests[-1][1][-1]["content"]
    await life.send(command("approve", number))
    assert life.house.channel.sent[-1] == expired


async def test_stop_closes_what_was_asked(life: Embedded) -> None:
    number = await ask(life)
    await life.send(command("stop"))
    assert row(life).state == "superseded"
    assert any("is closed: something newer" in text for text in life.house.channel.sent)
    await life.send(command("approve", number))
    assert "is closed: something newer took its place" in life.house.channel.sent[-1] and life.house.log == []


async def test_status_works_and_other_chats_are_answered_while_one_waits(life: Embedded) -> None:
    """TRAPS: `/approve` queued behind the turn it should free; a pending approval blocks all messages."""
    await ask(life)
    await life.send(command("status"))
    assert "waiting" in life.house.channel.sent[-1]
    life.house.model.answers = [Completion("Here.")]
    await life.send(message("hello", "other:1", session_key="test:other", sender=BOB))
    assert life.house.channel.sent[-1] == "Here."
    (waiting,) = [one for one in life.house.rows(turns.select()) if one.state == "live"]
    assert waiting.waiting_until is not None


async def test_approve_without_a_number_lists_what_is_open(life: Embedded) -> None:
    """Nothing is approved that was not named: meanwhile another request may have taken its place."""
    number = await ask(life)
    await life.send(command("approve"))
    assert f"- {number}: push" in life.house.channel.sent[-1] and row(life).state == "pending"


async def test_reads_side_by_side_that_ask_wait_one_after_the_other(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    twice = wishes(("look", {"at": "a"}), ("look", {"at": "b"}))
    async with embedded(tmp_path / "house", template, twice, "Done.", tool_policy="look=ask") as life:
        await life.send(said())
        for _ in range(2):
            open_rows = life.house.rows(approval_rows.select().where(approval_rows.c.state == "pending"))
            numbers = [one.id for one in open_rows if one.id in "".join(life.house.channel.sent)]
            await life.send(command("approve", numbers[0]))
        assert sorted(life.house.log) == ["look a", "look b"] and life.house.channel.sent[-1] == "Done."


async def test_a_read_beside_one_that_asks_does_not_give_the_turn_away(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    both = wishes(("look", {"at": "a"}), ("broken", {}))
    async with embedded(tmp_path / "house", template, both, "Done.", tool_policy="look=ask,broken=allow") as life:
        await life.send(said())
        await life.pass_time(2000, 100)
        assert row(life).state == "pending" and len(await life.runs("handle-message")) == 1
        await life.send(command("approve", row(life).id))
        assert life.house.log == ["look a"] and life.house.channel.sent[-1] == "Done."


async def test_a_decision_that_was_heard_is_not_repeated(life: Embedded) -> None:
    """The turn waits once more, for something else: the sweep sends nothing of the first request."""
    life.house.model.answers = [
        wishes(("push", {"what": "a"})), wishes(("push", {"what": "b"})), Completion("Done."),
    ]  # fmt: skip
    await life.send(said())
    first = row(life).id
    life.clock.advance(1)
    await life.send(command("deny", first))
    second = [one for one in life.house.rows(approval_rows.select()) if one.state == "pending"]
    assert len(second) == 1
    await life.pass_time(1, 1)
    with life.house.tx() as tx:
        assert approvals.unheard(tx) == []
