"""Files that tools hand over reach the chat once, before the answer, and past conversations reach the tools."""

from pathlib import Path

import pytest

from app.agent.tool import Effect, OutgoingFile, Toolbox, ToolContext, ToolResult, tool
from app.channels import outbox
from app.channels.channel import Refused
from app.channels.delivery import deliver_next
from app.events import Destination
from app.sessions import session
from app.tables import deliveries
from tests.unit.core.embedded import embedded
from tests.unit.house import RUN, SESSION, House, begin, message, wishes

pytestmark = pytest.mark.usefixtures("clean_environment")


@tool(Effect.UNSAFE)
async def show(context: ToolContext) -> ToolResult:
    """Hands a file over."""
    return ToolResult(f"handed over to {context.channel}", files=(OutgoingFile("a.txt", "a.txt", "the file"),))


@tool(Effect.UNSAFE)
async def fail(context: ToolContext) -> ToolResult:
    """Fails after choosing a file."""
    return ToolResult("no", ok=False, files=(OutgoingFile("a.txt", "a.txt"),))


@tool(Effect.READ)
async def recall(context: ToolContext, words: str) -> str:
    """Looks into past conversations."""
    assert context.history is not None
    return "; ".join(found.snippet for found in await context.history.search(words, 5)) or "nothing"


async def test_a_file_goes_out_before_the_answer(tmp_path: Path, template: Path) -> None:
    async with embedded(tmp_path / "house", template, wishes(("show", {})), "Done.", toolbox=Toolbox.of(show)) as life:
        await life.send(message())
        rows = life.house.rows(deliveries.select().order_by(deliveries.c.id))
        assert [(row.kind, row.state) for row in rows] == [("file", "sent"), ("reply", "sent")]
        assert rows[0].part["file"] == "a.txt" and rows[0].part["caption"] == "the file"
        told = life.house.model.requests[1][1][-1]
        assert told["role"] == "tool" and told["content"] == "handed over to test"


# The model takes a file for sent that it handed over, and so does who reads the answer.
async def test_a_file_that_the_platform_refuses_is_told_of(tmp_path: Path, template: Path) -> None:
    async with embedded(tmp_path / "house", template, wishes(("show", {})), "Done.", toolbox=Toolbox.of(show)) as life:
        life.house.channel.results = [Refused("The file is larger than 9 bytes.")]
        await life.send(message(channel_meta={"languageCode": "de"}))
        rows = life.house.rows(deliveries.select().order_by(deliveries.c.id))
        assert [(row.kind, row.state) for row in rows if row.kind == "file"] == [("file", "failed")]
        told = "Die Datei a.txt konnte nicht gesendet werden: Die Datei ist größer als 9 Bytes."
        assert sorted(life.house.channel.sent) == sorted(["Done.", told])


async def test_an_answer_read_aloud_that_is_refused_is_there_as_text(house: House) -> None:
    await begin(house)
    row = {"session_id": await house.db.read(session.find, SESSION), "run_id": RUN, "kind": "file", "channel": "test"}
    place = {"destination": Destination(chat_id="7"), "parts": [{"file": "a.ogg", "text": "a"}], "text": "a"}
    await house.db.write(outbox.put, f"{RUN}/spoken", now=house.clock.now(), **row, **place)
    house.channel.results = [Refused("no")]
    await deliver_next(house.db, house.harness.channels, house.clock, house.harness.boot_id, "test:7")
    assert [row.state for row in house.rows(deliveries.select())] == ["failed"]


async def test_a_failed_call_hands_nothing_over(tmp_path: Path, template: Path) -> None:
    async with embedded(tmp_path / "house", template, wishes(("fail", {})), "Done.", toolbox=Toolbox.of(fail)) as life:
        await life.send(message())
        rows = life.house.rows(deliveries.select())
        assert [row.kind for row in rows] == ["reply"]


async def test_a_tool_finds_what_was_said_before_a_fresh_conversation(tmp_path: Path, template: Path) -> None:
    answers = ["Noted.", wishes(("recall", {"words": "marmalade"})), "Done."]
    async with embedded(tmp_path / "house", template, *answers, toolbox=Toolbox.of(recall)) as life:
        await life.send(message("my favourite is marmalade", key="test:1"))
        await life.send(message("what did I like?", key="test:2"))
        told = life.house.model.requests[2][1][-1]
        assert "marmalade" in told["content"]
