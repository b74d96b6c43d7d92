"""The way out to a program: signed, named, and posted again until it is taken."""

import pytest

from app.channels.channel import Absent, Channel, Later, Refused, Sent
from app.channels.generic import GenericChannel
from app.clock import ManualClock
from app.events import Attachment, Destination
from tests.fakes.callback_server import SECRET, CallbackServer

HERE = Destination(chat_id="desk", message_id="17", thread_id="t1")
PART = {"text": "**Hello**", "key": "RUN/reply/0"}


@pytest.fixture
async def program():
    async with CallbackServer() as server:
        yield server


@pytest.fixture
async def channel(program):
    channel = GenericChannel(f"{program.url}/moab", SECRET, ManualClock())
    yield channel
    await channel.close()


async def test_a_part_is_posted_with_its_id_and_signed(program, channel: Channel):
    buttons = [[{"text": "Approve", "data": "approve K3"}]]
    assert await channel.send(HERE, PART | {"buttons": buttons}) == Sent({"status": 204})
    assert program.received() == [
        {
            "id": "RUN/reply/0",
            "conversation": "desk",
            "thread": "t1",
            "inReplyTo": "17",
            "text": "**Hello**",
            "buttons": [{"text": "Approve", "command": "/approve K3"}],
        }
    ]
    assert channel.name == "generic" and channel.parts(" ") == [] and channel.parts("a") == [{"text": "a"}]


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (
            {"kind": "status", "status": 429, "retry_after": 30},
            Later(30.0, "The callback address answered with status 429."),
        ),
        ({"kind": "status", "status": 503}, Later(None, "The callback address answered with status 503.")),
        ({"kind": "status", "status": 302}, Later(None, "The callback address answered with status 302.")),
        ({"kind": "status", "status": 410}, Refused("The callback address answered with status 410.")),
        ({"kind": "drop_after"}, Later(None, "The callback address did not answer: RemoteProtocolError.")),
    ],
)
async def test_what_the_program_says_is_a_value(program, channel, fault, result):
    program.script(fault)
    assert await channel.send(HERE, PART) == result


async def test_the_same_part_twice_is_one_for_the_program(program, channel):
    program.script({"kind": "drop_after"})
    await channel.send(HERE, PART)
    assert await channel.find(HERE, PART) == Absent()
    assert isinstance(await channel.send(HERE, PART), Sent)
    assert len(program.received()) == 1 and len(program.calls("callback")) == 2


async def test_what_the_program_cannot_take_is_refused(channel, tmp_path):
    assert isinstance(await channel.send(HERE, {"file": "a.txt"}), Refused)
    assert isinstance(await channel.fetch(Attachment(kind="document", ref="1"), tmp_path / "x", 10), Refused)
    assert not await channel.acknowledge(HERE) and await channel.conclude(HERE, ok=True)
    assert await channel.preview(HERE, "a", None) is None


async def test_an_address_that_is_none_is_waited_for():
    channel = GenericChannel("http://127.0.0.1:1/", SECRET, ManualClock())
    assert isinstance(await channel.send(HERE, PART), Later)
    await channel.close()
