"""An answer that is seen while it is written: best effort, and never a second answer."""

import asyncio
from typing import Any

import pytest

from app.agent import attend as attend_module
from app.agent.failure import tell_failure
from app.agent.finish import finish
from app.agent.people.commands import run_command
from app.agent.people.preview import Preview
from app.agent.think import think
from app.events import CommandReceived, Destination
from app.sentences import GIVEN_UP
from app.tables import deliveries
from tests.unit.house import RUN, SESSION, House, ask, begin, run_id


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend_module, "LOOK_EVERY_S", 0.005)


def rows(house: House) -> list[tuple[str, str, Any]]:
    """(key, state, message edited) of the deliveries."""
    found = house.rows(deliveries.select().order_by(deliveries.c.id))
    return [(row.key, row.state, row.part.get("edit")) for row in found]


async def grow(house: House, flow: Any, *texts: str) -> Preview:
    preview = Preview(house.harness, flow)
    await preview.show()
    for text in texts:
        preview.hear(text)
        await preview.show()
    return preview


async def test_an_answer_grows_in_one_message_and_the_final_text_takes_its_place(house: House) -> None:
    house.channel.preview_id = "m1"
    flow = await begin(house)

    async def slowly() -> str:
        hear = house.model.askings[-1].on_text
        assert hear is not None
        for text in ("Once", "Once upon", "Once upon a time"):
            hear(text)
            async with asyncio.timeout(30):
                while not house.channel.previews or house.channel.previews[-1][1] != text:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        return "Once upon a time."

    house.model.answers = [slowly]
    thought = await think(house.harness, flow, ask())
    assert house.channel.previews == [(None, "Once"), ("m1", "Once upon"), ("m1", "Once upon a time")]
    await finish(house.harness, flow, {"key": "finish#1", "head": thought["head"], "text": "", "state": "finished"})
    assert rows(house) == [(f"{RUN}/preview/0", "replaced", None), (f"{RUN}/reply/0", "pending", "m1")]


async def test_a_quick_answer_has_no_preview(house: House) -> None:
    house.channel.preview_id = "m1"
    preview = Preview(house.harness, await begin(house))
    preview.hear("Hello")
    await preview.show()
    assert house.channel.previews == []


async def test_what_has_not_grown_is_not_shown_again(house: House) -> None:
    house.channel.preview_id = "m1"
    await grow(house, await begin(house), "one", "one", "one two")
    assert house.channel.previews == [(None, "one"), ("m1", "one two")]


async def test_where_no_preview_comes_about_nobody_tries_again(house: House) -> None:
    await grow(house, await begin(house), "one", "one two")
    assert house.channel.previews == [(None, "one")] and rows(house) == []


async def test_a_step_that_runs_again_goes_on_in_the_same_message(house: House) -> None:
    house.channel.preview_id = "m1"
    flow = await begin(house)
    await grow(house, flow, "one")
    await grow(house, flow, "one again")
    assert house.channel.previews == [(None, "one"), ("m1", "one again")]


# A preview that came about just before the process died has no receipt: what follows looks for it by its mark.
async def test_a_preview_that_may_have_come_about_is_left_to_be_found(house: House) -> None:
    house.channel.finds_previews = True
    flow = await begin(house)
    await grow(house, flow, "one")  # the platform says nothing, or nobody is left to hear it
    assert house.channel.marks == [f"{RUN}/preview/0"] and rows(house) == [(f"{RUN}/preview/0", "begun", None)]
    await grow(house, flow, "one", "one two")
    assert len(house.channel.previews) == 1, "the next life begins no second one"
    thought = await think(house.harness, flow, ask())
    await finish(house.harness, flow, {"key": "finish#1", "head": thought["head"], "text": "", "state": "finished"})
    preview, reply = house.rows(deliveries.select().order_by(deliveries.c.id))
    since = house.clock.now().isoformat()
    assert reply.part["instead"] == {"mark": f"{RUN}/preview/0", "since": since} and preview.state == "replaced"


async def test_the_row_is_there_before_the_preview(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        assert rows(house) == [(mark, "begun", None)]
        return "m1"

    house.channel.finds_previews = True
    monkeypatch.setattr(house.channel, "preview", look)
    await grow(house, await begin(house), "one")
    assert [state for _, state, _ in rows(house)] == ["shown"]


async def test_one_that_may_have_come_about_says_that_it_was_given_up_if_it_did(house: House) -> None:
    house.channel.finds_previews = True
    await grow(house, await begin(house), "half an ans")
    await begin(house, "newer", "k2", run_id(2))
    _, given_up = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert given_up.key == f"{RUN}/given-up/0" and given_up.part["only_instead"] is True
    assert given_up.part["instead"]["mark"] == f"{RUN}/preview/0"


async def test_in_a_group_less_is_shown(house: House) -> None:
    house.channel.preview_id = "m1"
    flow = await begin(house, destination=Destination(chat_id="-7"))
    await grow(house, flow, *(f"word {n}" for n in range(9)))
    assert len(house.channel.previews) == 3


# The way out: a stream edit that fails leaves half an answer and then a full duplicate -> the final text replaces it.
@pytest.mark.parametrize("how", ["newer message", "stop", "failure"])
async def test_half_an_answer_of_a_turn_that_is_over_says_so(house: House, how: str) -> None:
    house.channel.preview_id = "m1"
    flow = await begin(house)
    await grow(house, flow, "half an ans")
    if how == "newer message":
        await begin(house, "newer", "k2", run_id(2))
    elif how == "stop":
        stop = CommandReceived(
            command="stop", session_key=SESSION, channel="test", destination=Destination(chat_id="7")
        )
        await run_command(house.harness, stop, "k3")
    else:
        await tell_failure(house.harness, {"run_id": RUN, "error": {"message": "it broke"}})
    assert rows(house)[:2] == [(f"{RUN}/preview/0", "replaced", None), (f"{RUN}/given-up/0", "pending", "m1")]
    texts = [row.text for row in house.rows(deliveries.select())]
    assert GIVEN_UP in texts
    assert "agent.reply.ready" in house.sender.names()


async def test_somebody_types_as_long_as_the_step_runs(house: House) -> None:
    async def work() -> None:
        async with asyncio.timeout(30):
            while len(house.channel.acknowledged) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    await attend_module.attend(house.harness, await begin(house), work())
    assert 2 <= len(house.channel.acknowledged) <= 3


async def test_a_platform_that_hangs_keeps_no_stop_waiting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = await begin(house)

    async def hang(destination: Destination) -> bool:
        await asyncio.Event().wait()
        return True

    async def work() -> None:
        stop = CommandReceived(
            command="stop", session_key=SESSION, channel="test", destination=Destination(chat_id="7")
        )
        await asyncio.sleep(0.05)
        await run_command(house.harness, stop, "k3")
        await asyncio.sleep(60)

    monkeypatch.setattr(house.channel, "acknowledge", hang)
    async with asyncio.timeout(5):
        assert await attend_module.attend(house.harness, flow, work()) is None
