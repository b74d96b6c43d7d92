"""/undo takes back the last exchange by moving the head; /undo files puts back what the last turn wrote."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.models.llm import Completion
from app.agent.people import commands
from app.agent.people.undo import NOTHING, WORKING
from app.agent.tool import Toolbox
from app.sessions import calls, deposit, search
from app.tables import backups, deliveries, messages, sessions
from tests.unit.agent.test_agent_commands import say
from tests.unit.house import SESSION, House, begin, kill_at, message, run_id, whole_turn, wishes
from tools.edit import edit
from tools.files import write


@pytest.fixture
async def desk(house: House) -> AsyncIterator[House]:
    """A house whose model can write and edit files."""
    toolbox = Toolbox.of(*house.harness.toolbox.tools.values(), write, edit)
    yield replace(house, harness=replace(house.harness, toolbox=toolbox))


async def exchange(house: House, number: int, *answers: Any) -> None:
    house.model.answers = list(answers) or [Completion(f"answer {number}")]
    await whole_turn(house, f"question {number}", f"k{number}", run_id(number))


def file(house: House, name: str) -> Path:
    return house.harness.workspace.root / name


async def shown_next(house: House, key: str, number: int) -> list[str]:
    """What the model is shown with the next message."""
    house.model.answers = [Completion("seen")]
    await whole_turn(house, "next", key, run_id(number))
    return [str(m["content"]) for m in house.model.requests[-1][1][1:]]


async def test_the_last_exchange_is_taken_back(house: House) -> None:
    await exchange(house, 1)
    await exchange(house, 2)
    assert await say(house, "undo", "c1") == 'Taken back: "question 2" and what followed.'
    assert await shown_next(house, "k9", 9) == ["question 1", "answer 1", "next"]


async def test_a_second_undo_goes_further_and_a_third_has_nothing(house: House) -> None:
    await exchange(house, 1)
    await exchange(house, 2)
    await say(house, "undo", "c1")
    assert '"question 1"' in await say(house, "undo", "c2")
    assert await say(house, "undo", "c3") == "There is nothing to take back."
    assert await shown_next(house, "k9", 9) == ["next"]


async def test_nothing_is_deleted_and_all_is_still_found(house: House) -> None:
    await exchange(house, 1)
    before = len(house.rows(messages.select()))
    await say(house, "undo")
    assert len(house.rows(messages.select())) == before
    with house.tx() as tx:
        assert len(search.search(tx, SESSION, "question", 5)) == 1


async def test_an_exchange_is_all_that_one_turn_answered(house: House) -> None:
    """Two messages, the calls and the answer of one turn are one exchange, also when it took over from another."""
    await exchange(house, 1)
    with house.tx() as tx:
        deposit.deposit(tx, message("and this", "k2b"), "k2b", new_session_id="X", now=house.clock.now())
    await exchange(house, 2, wishes(("look", {})), Completion("done"))
    await say(house, "undo")
    assert await shown_next(house, "k9", 9) == ["question 1", "answer 1", "next"]


async def test_while_a_turn_runs_its_own_message_is_taken_back(house: House) -> None:
    await exchange(house, 1)
    await begin(house, "a mistake", "k2", run_id(2))
    assert '"a mistake"' in await say(house, "undo")
    assert house.sender.names()[-2:] == ["agent.turn.stopped", "agent.reply.ready"]
    assert await shown_next(house, "k9", 9) == ["question 1", "answer 1", "next"]


async def test_a_message_that_no_model_saw_yet_is_taken_back_alone(house: House) -> None:
    await exchange(house, 1)
    with house.tx() as tx:
        deposit.deposit(tx, message("a mistake", "k2"), "k2", new_session_id="X", now=house.clock.now())
    assert '"a mistake"' in await say(house, "undo")
    assert await shown_next(house, "k9", 9) == ["question 1", "answer 1", "next"]


async def test_carried_out_once_for_its_key(house: House) -> None:
    await exchange(house, 1)
    await exchange(house, 2)
    await say(house, "undo", "c1")
    await say(house, "undo", "c1")
    assert await shown_next(house, "k9", 9) == ["question 1", "answer 1", "next"]


def writing(path: str = "notes.md", content: str = "new") -> Completion:
    return wishes(("write", {"path": path, "content": content}))


async def test_files_are_put_back_as_before_the_first_write(desk: House) -> None:
    file(desk, "notes.md").write_text("old")
    changed = wishes(("edit", {"path": "notes.md", "old_text": "new", "new_text": "newer"}))
    await exchange(desk, 1, writing(), changed, writing("made/here.md"), Completion("ok"))
    assert file(desk, "notes.md").read_text() == "newer" and file(desk, "made/here.md").exists()
    assert await say(desk, "undo", args="files") == "Put back as before the last turn: made/here.md, notes.md."
    assert file(desk, "notes.md").read_text() == "old" and not file(desk, "made/here.md").exists()


async def test_one_copy_for_each_turn_and_path(desk: House) -> None:
    file(desk, "notes.md").write_text("old")
    await exchange(desk, 1, writing(content="a"), writing(content="b"), writing("./notes.md", "c"), Completion("ok"))
    (row,) = desk.rows(backups.select())
    assert (row.path, row.run_id) == ("notes.md", run_id(1))
    assert (file(desk, row.kept)).read_text() == "old"


async def test_what_somebody_else_changed_since_is_left_alone_and_named(desk: House) -> None:
    await exchange(desk, 1, writing("mine.md"), writing("ours.md"), Completion("ok"))
    file(desk, "ours.md").write_text("a person was here")
    said = await say(desk, "undo", args="files")
    assert said == (
        "Put back as before the last turn: mine.md.\nLeft alone, because somebody changed them since: ours.md."
    )
    assert file(desk, "ours.md").read_text() == "a person was here" and not file(desk, "mine.md").exists()


async def test_only_the_last_turn_counts(desk: House) -> None:
    await exchange(desk, 1, writing("first.md"), Completion("ok"))
    await exchange(desk, 2)
    assert await say(desk, "undo", args="files") == NOTHING
    assert file(desk, "first.md").exists()


async def test_the_message_says_that_files_can_be_put_back(desk: House) -> None:
    await exchange(desk, 1, writing(), Completion("ok"))
    assert "/undo files" in await say(desk, "undo", "c1")
    assert file(desk, "notes.md").exists()
    await say(desk, "undo", "c2", args="files")
    assert not file(desk, "notes.md").exists()


async def test_not_while_a_turn_runs(desk: House) -> None:
    await begin(desk)
    assert await say(desk, "undo", args="files") == WORKING


async def test_killed_between_the_copy_and_the_write_it_still_has_the_old_text(desk: House) -> None:
    """The tool starts again after the kill: the copy of its first start stays."""
    file(desk, "notes.md").write_text("old")
    desk.model.answers = [writing(), Completion("ok")]
    with kill_at("tool.done"):
        await whole_turn(desk)
    assert file(desk, "notes.md").read_text() == "new"
    again = desk.rebooted()
    with desk.tx() as tx:
        calls.close_dead(tx, "home", "home:boot2", desk.clock.now())
    await whole_turn(again)
    await say(again, "undo", args="files")
    assert file(desk, "notes.md").read_text() == "old"


async def test_killed_before_it_was_said_the_command_does_the_rest(desk: House, monkeypatch: Any) -> None:
    await exchange(desk, 1, writing(), Completion("ok"))

    def dead(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(commands, "_carry_out", dead)
        with pytest.raises(KeyboardInterrupt):
            await say(desk, "undo", "c1", args="files")
    assert not file(desk, "notes.md").exists()
    assert await say(desk, "undo", "c1", args="files") == "Put back as before the last turn: notes.md."


async def test_a_link_in_the_place_of_a_folder_is_not_followed(desk: House, tmp_path: Path) -> None:
    await exchange(desk, 1, writing("made/here.md"), Completion("ok"))
    outside = tmp_path / "outside"
    outside.mkdir()
    file(desk, "made/here.md").rename(outside / "here.md")
    file(desk, "made").rmdir()
    file(desk, "made").symlink_to(outside)
    assert "Left alone" in await say(desk, "undo", args="files")
    assert (outside / "here.md").exists()


async def test_a_write_that_is_refused_leaves_nothing_to_undo(desk: House) -> None:
    await exchange(desk, 1, writing("../outside.md"), Completion("ok"))
    assert desk.rows(backups.select()) == []
    assert await say(desk, "undo", args="files") == NOTHING


async def test_the_words_behind_undo_are_files_or_none(house: House) -> None:
    await exchange(house, 1)
    assert await say(house, "undo", args="everything") == (
        "There are /undo (takes back the last exchange) and /undo files (puts back what was written)."
    )
    assert house.scalar(sessions.select().with_only_columns(sessions.c.head_id)) is not None
    assert len(house.rows(deliveries.select().where(deliveries.c.kind == "command"))) == 1
