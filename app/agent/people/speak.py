"""The speak step: an answer that went out as text is sent once more as a voice message, where people asked for that."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.agent.announce import announce, reply_event
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.quiet import says_nothing
from app.aloud import read_aloud, spoken_words
from app.channels import outbox
from app.config import speech_environment
from app.db import Tx
from app.errors import MoabError
from app.events import Destination
from app.failpoints import reach
from app.sessions import deposit, transcript
from app.tables import messages

log = logging.getLogger("moab.agent")

RECENT = 20
"""How many inputs are looked at for the language that is spoken here."""


async def speak(harness: Harness, flow: Flow, request: Mapping[str, Any]) -> dict[str, Any]:
    """Have the answer `head` read aloud into a file and put it into the outbox, once for a run.

    What cannot be read is logged and left out: the answer itself is on its way as text.
    """
    words, language, done = await harness.db.read(_words, flow, int(request["head"]))
    if done or not words:
        return {"kind": "done"}
    path = harness.workspace.artifacts / f"{flow.run_id}-spoken.ogg"
    settings = harness.settings
    try:
        await asyncio.to_thread(_make_room, path)
        await read_aloud(
            words, path, language=language, piper_voice=settings.piper_voice, environment=speech_environment()
        )
    except MoabError as error:
        log.warning("The answer of run %s is not read aloud: %s", flow.run_id, error, extra={"action": "speak"})
        return {"kind": "failed"}
    reach("speak.read")
    events = await harness.db.write(_put, harness, flow, path)
    if events:
        await announce(harness, events)
    return {"kind": "done"}


def _make_room(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)


def _words(tx: Tx, flow: Flow, head: int) -> tuple[str, str, bool]:
    """What to read, in which language, and whether that is done already."""
    done = outbox.exists(tx, _key(flow))
    text = transcript.text_of(tx, head)
    return "" if says_nothing(text) else spoken_words(text), _language(tx, flow.session_id), done


def _language(tx: Tx, session_id: str) -> str:
    """The language that was last heard here; "" where nobody has spoken."""
    query = select(messages.c.data).where(messages.c.session_id == session_id, messages.c.role == "user")
    for data in tx.scalars(query.order_by(messages.c.id.desc()).limit(RECENT)):
        for file in data.get("attachments") or ():
            if file.get("language") and not file.get("quoted"):
                return str(file["language"])
    return ""


def _key(flow: Flow) -> str:
    return f"{flow.run_id}/spoken"


def _put(tx: Tx, harness: Harness, flow: Flow, path: Path) -> list[dict[str, Any]]:
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None or place.channel not in harness.channels:
        return []
    name = f"answer-{flow.run_id[-6:].lower()}.ogg"  # a name of its own: a platform may know files by nothing else
    file = harness.workspace.from_whole(path.relative_to(harness.workspace.root).as_posix())
    outbox.put(
        tx,
        _key(flow),
        session_id=flow.session_id,
        run_id=flow.run_id,
        kind="file",
        channel=place.channel,
        destination=Destination.model_validate(place.destination),
        parts=[{"file": file, "name": name, "caption": "", "text": name}],
        text="[the answer, read aloud]",
        now=harness.clock.now(),
    )
    return [reply_event(harness, place, flow.session_key)]
