"""ask_user: a question that waits durably; its answer is the call's result, is kept at once, and starts no turn."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.accept import accept
from app.agent.models.llm import Completion
from app.agent.tool import Toolbox
from app.events import CommandReceived, Destination, MessageReceived, Sender
from app.tables import approvals as approval_rows
from app.tables import calls, messages
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, kill_at, message, sample_tools, wishes
from tools.ask import ask_user

ADA = Sender(id="7", name="Ada")
BOB = Sender(id="8", name="Bob")
COLOURS = {"question": "Which colour?", "choices": ["light blue", "light green", "red"]}


def said(text: str, key: str, sender: Sender = ADA) -> MessageReceived:
    return message(text, key, sender=sender)


def command(name: str, args: str) -> CommandReceived:
    return CommandReceived(
        command=name, args=args, session_key=SESSION, channel="test", sender=ADA,
        destination=Destination(chat_id="7"), message_key=f"test:{name}:{args}",
    )  # fmt: skip


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    tools = sample_tools([])
    toolbox = Toolbox.of(*tools.tools.values(), ask_user)
    async with embedded(tmp_path / "house", template, toolbox=toolbox) as one:
        yield one


async def ask(life: Embedded, **arguments: Any) -> str:
    life.house.model.answers = [wishes(("ask_user", arguments)), Completion("Thanks.")]
    await life.send(said("paint it", "k1"))
    (row,) = life.house.rows(approval_rows.select())
    assert row.kind == "question" and row.state == "pending"
    number: str = row.id
    return number


@pytest.mark.parametrize("choices", [[], ["red", "blue"]])
async def test_where_many_speak_the_question_says_how_to_answer(life: Embedded, choices: list[str]) -> None:
    """There the next message is not for the agent unless it says so."""
    life.house.model.answers = [wishes(("ask_user", {"question": "Which?", "choices": choices})), Completion("Thanks.")]
    await life.send(said("paint it", "k1").model_copy(update={"channel_meta": {"group": True, "languageCode": "de"}}))
    prompt = life.house.channel.sent[-1]
    assert "Erwähne mich in deiner Antwort." in prompt and "next message" not in prompt


def told(life: Embedded) -> str:
    """What the model was told last."""
    last = life.house.model.requests[-1][1][-1]
    assert last["role"] == "tool"
    text: str = last["content"]
    return text


def rows_of_people(life: Embedded) -> list[tuple[str, str]]:
    return [(row.text, row.state) for row in life.house.rows(messages.select()) if row.role == "user"]


async def test_the_next_message_is_the_answer_and_starts_no_turn(life: Embedded) -> None:
    await ask(life, question="Which colour?")
    assert life.house.channel.sent == [life.house.channel.sent[0]]
    assert life.house.channel.sent[0].startswith("Which colour?")
    await life.send(said("a warm grey", "k2"))
    assert told(life) == "a warm grey" and life.house.channel.sent[1:] == ["Thanks."]
    assert len(await life.runs("handle-message")) == 1
    assert rows_of_people(life) == [("paint it", "answered"), ("a warm grey", "answered")]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("2", "light green"), ("2.", "light green"), ("RED", "red"), ("r", "red"), ("light b", "light blue")],
)
async def test_choices_are_answered_by_number_word_or_beginning(life: Embedded, text: str, answer: str) -> None:
    await ask(life, **COLOURS)
    assert "1. light blue\n2. light green\n3. red" in life.house.channel.sent[0]
    await life.send(said(text, "k2"))
    assert told(life) == answer


async def test_choices_are_answered_by_button(life: Embedded) -> None:
    number = await ask(life, **COLOURS)
    await life.send(command("answer", f"{number} 3"))
    assert told(life) == "red" and life.house.channel.sent[-1] == "Thanks."


@pytest.mark.parametrize("text", ["4", "light", "what is the weather?"])
async def test_what_is_none_of_the_choices_closes_the_question_visibly(life: Embedded, text: str) -> None:
    number = await ask(life, **COLOURS)
    life.house.model.answers = [Completion("Something else, then.")]
    await life.send(said(text, "k2"))
    closed = f"The question ({number}) is closed: something newer took its place."
    assert sorted(life.house.channel.sent[1:]) == sorted([closed, "Something else, then."])
    assert len(await life.runs("handle-message")) == 2
    assert rows_of_people(life) == [("paint it", "answered"), (text, "answered")]


async def test_somebody_else_does_not_answer(life: Embedded) -> None:
    await ask(life, question="Which colour?")
    life.house.model.answers = [Completion("Hello Bob.")]
    await life.send(said("pink", "k2", BOB))
    (row,) = life.house.rows(approval_rows.select())
    assert row.state == "superseded" and life.house.channel.sent[-1] != "Thanks."


async def test_after_its_time_a_message_is_a_message(life: Embedded) -> None:
    number = await ask(life, question="Which colour?")
    for _ in range(12):
        await life.pass_time(3601, 301)
    assert "expired" in told(life)
    life.house.model.answers = [Completion("Too late, but fine.")]
    await life.send(said("grey", "k2"))
    assert life.house.channel.sent[-1] == "Too late, but fine."
    assert [row.id for row in life.house.rows(approval_rows.select()) if row.state == "expired"] == [number]


async def test_a_command_does_not_answer(life: Embedded) -> None:
    await ask(life, question="Which colour?")
    await life.send(command("status", ""))
    assert life.house.rows(approval_rows.select())[0].state == "pending"


async def test_an_answer_delivered_twice_is_one(life: Embedded) -> None:
    await ask(life, question="Which colour?")
    await life.send(said("grey", "k2"))
    await life.send(said("grey", "k2"))
    assert len(await life.runs("handle-message")) == 1 and life.house.channel.sent[1:] == ["Thanks."]


async def test_an_answer_is_kept_before_anything_hears_of_it(life: Embedded) -> None:
    """Killed right after the row was written: nothing was sent, the wait finds the answer by itself."""
    await ask(life, question="Which colour?")
    with kill_at("deposit.committed"):
        await accept(life.house.harness, said("grey", "k2"))
    assert [(row.state, row.result) for row in life.house.rows(calls.select())] == [("finished", "grey")]
    await life.send(said("grey", "k2"))
    assert life.house.channel.sent[1:] == [] and len(await life.runs("handle-message")) == 1
    await life.pass_time(301, 301)
    assert told(life) == "grey" and life.house.channel.sent[1:] == ["Thanks."]


async def test_an_answer_outlives_the_turn_that_asked(life: Embedded) -> None:
    """Answer and afterthought come together: the afterthought's turn reads the answer in the transcript."""
    await ask(life, question="Which colour?")
    await accept(life.house.harness, said("grey", "k2"))
    await life.send(said("and shiny", "k3"))
    shown = [(one["role"], one["content"]) for one in life.house.model.requests[-1][1]]
    assert ("tool", "grey") in shown and life.house.channel.sent[-1] == "Thanks."


async def test_a_free_answer_to_an_approval_is_a_new_message(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    push = wishes(("push", {"what": "a"}))
    async with embedded(tmp_path / "other", template, push, "Fine.", tool_policy="push=ask") as life:
        await life.send(said("go", "k1"))
        await life.send(said("yes", "k2"))
        (row,) = life.house.rows(approval_rows.select())
        assert row.state == "superseded" and life.house.log == []
