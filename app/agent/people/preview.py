"""What a person sees of an answer while it is written: one message that grows, and that the final text replaces.

Best effort: a preview that fails changes nothing. Its row in the outbox (kind `preview`) only names the message, so
that the final text can take its place, or that it says that it was given up. Where the platform can look for a message
the row is there first: one whose id nobody has come to know is looked for when something is to take its place.
"""

from typing import Any

from app.agent.announce import reply_event
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.channels import outbox
from app.channels.channel import Part
from app.db import Tx
from app.events import Destination
from app.failpoints import reach
from app.sentences import GIVEN_UP, say
from app.sessions import deposit, session

FIRST_AFTER_LOOKS = 2
"""A quick answer needs no preview; looks are a second apart."""
GROUP_EVERY_LOOKS = 3
"""In a group a bot may say less in a minute."""
SHOWN_CHARS = 3_500


class Preview:
    """The preview of one thought. `hear` takes the text so far, `show` brings it to the person now and then."""

    def __init__(self, harness: Harness, flow: Flow) -> None:
        self._harness, self._flow = harness, flow
        self._text = self._shown = ""
        self._message: str | None = None
        self._place: Any = None
        self._looks = 0
        self._over = False

    def hear(self, text: str) -> None:
        self._text = text

    async def show(self) -> None:
        """One look: show what is new; a second or more apart, never raises for what the platform does."""
        self._looks += 1
        if self._over or self._looks < FIRST_AFTER_LOOKS or self._text == self._shown or not self._text.strip():
            return
        if self._place is None:
            self._place = await self._harness.db.read(_place, self._flow)
            self._over = self._place is None or self._place.channel not in self._harness.channels
            if self._over:
                return
            before = await self._harness.db.read(outbox.preview_of, self._flow.run_id)
            if before is not None and before.state == "begun":
                self._over = True  # an earlier life may have shown one: the text will find it
                return
            self._message = str(before.receipt["messageId"]) if before is not None else None
        destination = Destination.model_validate(self._place.destination)
        if destination.chat_id.startswith("-") and self._looks % GROUP_EVERY_LOOKS:
            return
        await self._bring(destination, self._text)

    async def _bring(self, destination: Destination, text: str) -> None:
        cut = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …"
        known, channel, mark = self._message, self._harness.channels[self._place.channel], ""
        if known is None and channel.finds_previews:
            mark = await self._harness.db.write(_begin, self._harness, self._flow, self._place)
        self._message = await channel.preview(destination, cut, known, mark)
        reach("preview.shown")
        self._shown = text
        if self._message is None:
            self._over = True
        elif known is None:
            await self._harness.db.write(_note, self._harness, self._flow, self._place, self._message)


def _place(tx: Tx, flow: Flow) -> Any | None:
    return deposit.place_of(tx, flow.session_id, flow.run_id)


def _begin(tx: Tx, harness: Harness, flow: Flow, place: Any) -> str:
    return outbox.begin_preview(
        tx,
        session_id=flow.session_id,
        run_id=flow.run_id,
        channel=place.channel,
        destination=Destination.model_validate(place.destination),
        now=harness.clock.now(),
    )


def _note(tx: Tx, harness: Harness, flow: Flow, place: Any, message: str) -> None:
    _begin(tx, harness, flow, place)
    outbox.note_preview(tx, flow.run_id, message, harness.clock.now())


def in_its_place(tx: Tx, run_id: str, parts: list[Part]) -> list[Part]:
    """The parts of a final text, the first of them in the place of the turn's preview if there is one."""
    preview = outbox.preview_of(tx, run_id)
    if preview is None or not parts:
        return parts
    outbox.close_preview(tx, run_id)
    return [{**parts[0], **outbox.in_place_of(preview), "preview": True}, *parts[1:]]


def give_up(tx: Tx, harness: Harness, session_id: str, but_run: str = "") -> list[dict[str, Any]]:
    """Previews of turns that are over say so, or half an answer would stand there as if it were one; the events."""
    events = []
    for row in outbox.open_previews(tx, session_id):
        if row.run_id == but_run or row.channel not in harness.channels:
            continue
        outbox.close_preview(tx, row.run_id)
        text = say(GIVEN_UP, outbox.language_of(tx, session_id))
        part = {**harness.channels[row.channel].parts(text)[0], **outbox.in_place_of(row), "only_instead": True}
        outbox.put(
            tx,
            f"{row.run_id}/given-up",
            session_id=session_id,
            run_id=None,
            kind="notice",
            channel=row.channel,
            destination=Destination.model_validate(row.destination),
            parts=[part],
            text=text,
            now=harness.clock.now(),
        )
        events.append(reply_event(harness, row, session.key_of(tx, session_id)))
    return events
