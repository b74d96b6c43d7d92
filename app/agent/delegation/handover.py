"""Files that a tool hands to the person: delivery rows written together with the call's result."""

from collections.abc import Sequence
from typing import Any

from app.agent.announce import reply_event
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.tool import OutgoingFile
from app.channels import outbox
from app.db import Tx
from app.events import Destination
from app.sessions import deposit
from app.sessions.calls import CallRecord


def hand_over(
    tx: Tx, harness: Harness, flow: Flow, record: CallRecord, files: Sequence[OutgoingFile]
) -> list[dict[str, Any]]:
    """Put each file into the outbox of the turn's chat, once per call; the events that say so.

    A turn that answers no chat (a sub-agent's) has nowhere to send them: no rows, no events.
    """
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None or place.channel not in harness.channels:
        return []
    destination = Destination.model_validate(place.destination)
    for number, file in enumerate(files):
        caption = file.caption or ""
        outbox.put(
            tx,
            f"file/{record.run_id}/{record.step_key}/{number}",
            session_id=flow.session_id,
            run_id=flow.run_id,
            kind="file",
            channel=place.channel,
            destination=destination,
            parts=[
                {
                    "file": harness.workspace.from_whole(file.path),
                    "name": file.name,
                    "caption": caption,
                    "text": caption or file.name,
                }
            ],
            text=f"[file {file.name}] {caption}".strip(),
            now=harness.clock.now(),
        )
    return [reply_event(harness, place, flow.session_key)]
