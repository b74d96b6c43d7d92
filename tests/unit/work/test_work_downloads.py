"""Downloads are tracked tasks: what falls short is tried again first, and what a machine began is asked about never."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.agent.delegation.supervise import run_monitor
from app.agent.fetch import fetch
from app.agent.receive import receive
from app.agent.tool import Toolbox
from app.events import Attachment, Sender
from app.sessions import person_records
from app.tables import messages, observations
from app.work import ledger, supervision
from app.work.observation import Kind
from app.work.projection import Derived, Truth
from tests.unit.house import RUN, House, begin, make_house, message, run_id
from tests.unit.tools import test_tool_web
from tests.unit.tools.test_tool_web import PUBLIC, Names, Server
from tests.unit.work.test_work_tools import Turn
from tools.download import download_tool

server, names = test_tool_web.server, test_tool_web.names

SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 400


@pytest.fixture
async def home(tmp_path: Path, template: Path, clean_environment: None, names: Names) -> AsyncIterator[House]:
    built = make_house(tmp_path / "home", template)
    tool = download_tool(resolver=names, permits=lambda address: address == PUBLIC)
    yield replace(built, harness=replace(built.harness, toolbox=Toolbox.of(tool)))
    await built.db.close()


async def download(turn: Turn, server: Server) -> str:
    return await turn.call("download", url=f"http://site.test:{server.port}/a", path="a")


async def derived(house: House) -> Derived:
    (task_id,) = {row.task_id for row in house.rows(observations.select())}
    return await house.db.read(ledger.derived, task_id)


def asked(house: House) -> list[str]:
    return [row.text for row in house.rows(messages.select().where(messages.c.origin == "the monitor"))]


async def test_what_falls_short_is_tried_again_and_then_done(home: House, server: Server) -> None:
    server.pages["/a"] = SHORT
    turn = Turn(home, await begin(home))
    assert "the connection ended after 400 bytes" in await download(turn, server)
    found = await derived(home)
    assert found.truth_state is Truth.BLOCKED and found.blocks[0].reason == "DOWNLOAD_INCOMPLETE"
    assert dict((await run_monitor(home.harness))["kinds"]) == {"RETRY": 1}
    assert "a is blocked: DOWNLOAD_INCOMPLETE" in asked(home)[0] and "This is retry 1 of 3" in asked(home)[0]

    server.page("/a", b"x" * 1000)
    assert "a: 1.0 KB from" in await download(turn, server)
    assert (await derived(home)).truth_state is Truth.COMPLETED
    assert dict((await run_monitor(home.harness))["kinds"]) == {"STOP_AND_DELETE": 1}
    assert (await derived(home)).inconsistencies == ()


async def test_a_step_that_runs_again_observes_once(home: House, server: Server) -> None:
    server.page("/a", b"x")
    turn = Turn(home, await begin(home))
    await download(turn, server)
    turn.number -= 1
    await turn.again("download")
    assert [row.kind for row in home.rows(observations.select())] == [
        Kind.STARTED, Kind.DOWNLOAD_OBSERVED, Kind.TASK_COMPLETED,
    ]  # fmt: skip


async def test_what_was_done_may_be_done_again(home: House, server: Server) -> None:
    server.page("/a", b"x")
    turn = Turn(home, await begin(home))
    await download(turn, server)
    await run_monitor(home.harness)
    server.pages["/a"] = SHORT
    await download(turn, server)
    assert (await derived(home)).truth_state is Truth.BLOCKED
    assert dict((await run_monitor(home.harness))["kinds"]) == {"RETRY": 1}


@pytest.mark.parametrize("origin", ["the monitor", "wake", "task"])
async def test_what_a_machine_began_is_in_the_ledger_and_nobody_is_asked(
    home: House, server: Server, origin: str
) -> None:
    server.pages["/a"] = SHORT
    turn = Turn(home, await begin(home, "go on", "k", run_id(2), origin=origin, steers=False))
    for _ in range(2):
        await download(turn, server)
    assert (await derived(home)).truth_state is Truth.BLOCKED
    assert await home.db.read(supervision.everything) == [] and (await run_monitor(home.harness))["looked"] == 0


@pytest.mark.parametrize("group", [False, True])
async def test_who_is_forgotten_has_no_tasks_left_that_have_ended(home: House, server: Server, group: bool) -> None:
    server.page("/a", b"x")
    home.channel.files["F"] = b"file"
    file = Attachment(kind="document", ref="F", name="letter.txt")
    about = {"sender": Sender(id="5"), "channel_meta": {"group": True}} if group else {"sender": Sender(id="7")}
    await receive(home.harness, RUN, message(attachments=(file,), **about), "test:1")
    flow = await begin(home, attachments=(file,), **about)
    await fetch(home.harness, flow)
    if not group:
        await download(Turn(home, flow), server)
        await run_monitor(home.harness)
    assert len({row.task_id for row in home.rows(observations.select())}) == (1 if group else 2)
    found = await home.db.read(person_records.export, "test:5" if group else "test:7")
    assert "letter" in str(found["observations"])
    await home.db.write(person_records.forget, "test:5" if group else "test:7", home.clock.now())
    assert home.rows(observations.select()) == []
