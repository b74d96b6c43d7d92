from app.channels.channel import Channel, Sent
from app.channels.http import MailboxChannel
from app.events import Destination


async def test_a_text_is_one_part_that_waits_to_be_fetched():
    mailbox: Channel = MailboxChannel("terminal")
    here = Destination(chat_id="local")
    (part,) = mailbox.parts("# Hello\n" + "x" * 10_000)
    assert part == {"text": "# Hello\n" + "x" * 10_000}
    assert await mailbox.send(here, part) == Sent({"mailbox": True})
    assert await mailbox.acknowledge(here)
    assert mailbox.name == "terminal"
    await mailbox.close()


def test_a_blank_text_has_no_parts():
    assert MailboxChannel("http").parts(" \n") == []
