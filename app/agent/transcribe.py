"""The transcribe step: what was spoken becomes the text of its message, before a model hears of it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from app.agent.announce import announce, notice
from app.agent.attend import attend
from app.agent.flow import Flow, Hearing
from app.agent.harness import Harness
from app.agent.output import LIMIT_BYTES, cap
from app.channels import outbox
from app.db import Tx
from app.errors import MoabError, OutsideWorkspace, ServiceUnavailable
from app.events import wire_safe
from app.failpoints import reach
from app.files import write_atomic
from app.open_rows import MESSAGE_OPEN
from app.sentences import Sentence, retell
from app.sessions import deposit, session, turns
from app.sessions.edits import HEARD
from app.sessions.session import Claim
from app.sessions.transcript import Entry
from app.speech import Transcript
from app.tables import messages

SPOKEN = ("voice", "video_note")
"""What is spoken to the agent. Music and lectures come as audio: files, which a tool can listen to."""

TRIES = 2
SURE = 0.5
MARK = HEARD + ": a {kind} of {seconds:.0f} s{language}. What follows is its transcript{doubt}."
QUOTED_MARK = HEARD + ' in the message that is answered: "{text}"'
DOUBT = ", and some of its words are likely to be wrong"
SILENT = Sentence("Nobody is heard speaking in it.")
NOT_HEARD = Sentence("I cannot make out your {kind}. {why}")
VOICE = Sentence("voice message")
NOTE = Sentence("video note")


@dataclass(frozen=True)
class Recording:
    """A recording to be heard: the `number`th file of a message, and where it lies in the workspace."""

    message_id: int
    number: int
    kind: str
    path: str


@dataclass(frozen=True)
class Heard:
    """What came of a recording: its text and a mark that says that it was spoken, or why it is not known."""

    text: str = ""
    mark: str = ""
    language: str = ""
    unheard: str = ""


def recordings_to_hear(entries: Sequence[Entry]) -> bool:
    """Whether something was spoken in these messages that nobody has tried to put into words."""
    return any(True for entry in entries if entry.role == "user" for _ in _recordings(entry.id, entry.data))


def _recordings(message_id: int, data: Mapping[str, Any]) -> Iterator[Recording]:
    for number, file in enumerate(data.get("attachments") or ()):
        if file.get("kind") in SPOKEN and file.get("path") and not (file.get("heard") or file.get("unheard")):
            yield Recording(message_id, number, str(file["kind"]), str(file["path"]))


async def transcribe(harness: Harness, flow: Flow) -> dict[str, Any]:
    """A Hearing as JSON: each recording was listened to. Done before, it finds nothing to do."""
    found = await harness.db.write(_begin, harness, flow)
    if isinstance(found, Hearing):
        return found.wire()
    for recording in found:
        heard = await attend(harness, flow, _hear(harness, flow, recording))
        if heard is None:
            return Hearing(kind="stopped").wire()
        reach("transcribe.heard")
        await harness.db.write(_record, recording, heard)
        harness.notifier.publish(flow.session_key)
    hearing, events = await harness.db.write(_close, harness, flow)
    if events:
        await announce(harness, events)
    return hearing.wire()


def _begin(tx: Tx, harness: Harness, flow: Flow) -> Hearing | list[Recording]:
    now, doing = harness.clock.now(), {"activity": "listening", "tool": None}
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now, doing=doing)
    if claim is not Claim.HELD:
        return Hearing(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    query = (
        select(messages.c.id, messages.c.data)
        .where(messages.c.session_id == flow.session_id, messages.c.role == "user", messages.c.attached.is_(True))
        .order_by(messages.c.id)
    )
    return [recording for row in tx.execute(query).all() for recording in _recordings(row.id, row.data)]


async def _hear(harness: Harness, flow: Flow, recording: Recording) -> Heard:
    """A process that dies may do so for reasons of its own, so it is asked once more; anything else would repeat."""

    async def progress(done_s: float, of_s: float | None) -> None:
        share = f", {min(99, int(100 * done_s / of_s))} %" if of_s else f", {done_s / 60:.0f} min"
        await harness.db.write(turns.note_activity, flow.run_id, f"listening{share}")
        harness.notifier.publish(flow.session_key)

    for left in reversed(range(TRIES)):
        try:
            path = await asyncio.to_thread(_inside, harness.workspace.root, recording.path)
            return await _in_words(path, recording, await harness.speech.transcribe(path, progress=progress))
        except ServiceUnavailable as error:
            if not left:
                return Heard(unheard=str(error))
        except MoabError as error:
            return Heard(unheard=str(error))
    raise AssertionError("the last try returns")


def _inside(root: Path, path: str) -> Path:
    real = (root / path).resolve()
    if not real.is_relative_to(root.resolve()):
        raise OutsideWorkspace(f"{path} leads outside the workspace.")
    return real


async def _in_words(path: Path, recording: Recording, transcript: Transcript) -> Heard:
    """A transcript too long for a message lies beside its recording, and the message has its ends."""
    if not transcript.text:
        return Heard(unheard=SILENT)
    text, beside = transcript.text, f"{recording.path}.txt"
    if len(text.encode()) > LIMIT_BYTES:
        await asyncio.to_thread(write_atomic, path.with_name(f"{path.name}.txt"), text)
        text = cap(text, artifact=beside).text
    mark = MARK.format(
        kind=_named(recording.kind),
        seconds=transcript.seconds,
        language=f" ({transcript.language})" if transcript.language else "",
        doubt="" if transcript.confidence >= SURE else DOUBT,
    )
    return Heard(text=text, mark=mark, language=transcript.language)


def _named(kind: str) -> str:
    return VOICE if kind == "voice" else NOTE


def _record(tx: Tx, recording: Recording, heard: Heard) -> None:
    """What was heard is a fact, whoever holds the session by now. The words of a caption stay in front.

    What somebody else said in a message that is answered is quoted, and never taken for the words of who answers.
    """
    row = tx.execute(select(messages.c.text, messages.c.data).where(messages.c.id == recording.message_id)).one()
    files = [dict(file) for file in row.data.get("attachments") or ()]
    if recording.number >= len(files) or files[recording.number].get("path") != recording.path:
        return  # the message was edited meanwhile and its files are others
    if files[recording.number].get("heard"):
        return  # another run was faster
    files[recording.number] |= (
        {"unheard": heard.unheard} if heard.unheard else {"heard": True, "language": heard.language}
    )
    data = dict(row.data) | {"attachments": files}
    text = row.text
    if heard.text and files[recording.number].get("quoted"):
        said = QUOTED_MARK.format(text=" ".join(heard.text.split()))
        data["marks"] = [*row.data.get("marks", ()), said]
    elif heard.text:
        data["marks"] = [*row.data.get("marks", ()), heard.mark]
        text = f"{row.text}\n\n{heard.text}".strip()
    values = {"text": wire_safe(text), "data": wire_safe(data)}
    tx.execute(update(messages).where(messages.c.id == recording.message_id).values(values))


def _close(tx: Tx, harness: Harness, flow: Flow) -> tuple[Hearing, list[dict[str, Any]]]:
    """Whether anything can be answered; else what the person is told. Where the model answers, a notice says it too."""
    query = select(messages.c.id, messages.c.text, messages.c.data).where(
        messages.c.session_id == flow.session_id, MESSAGE_OPEN, messages.c.attached.is_(True)
    )
    rows = tx.execute(query.order_by(messages.c.id)).all()
    told = {row.id: sentence for row in rows if (sentence := _sentence(row.data))}
    if told and not any(row.text.strip() or row.id not in told for row in rows):
        return Hearing(kind="unheard", text="\n".join(dict.fromkeys(told.values()))), []
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if not told or place is None or place.channel not in harness.channels:
        return Hearing(kind="done"), []
    language = outbox.language_of(tx, flow.session_id)
    events = [
        event
        for message_id, sentence in told.items()
        for event in notice(tx, harness, f"transcribe/{message_id}", flow.session_id, place, retell(sentence, language))
    ]
    return Hearing(kind="done"), events[:1]  # one signal sends all that lies there for a chat


def _sentence(data: Mapping[str, Any]) -> str:
    """What the person is told of recordings that nobody could make out; nothing if there are none."""
    files = [file for file in data.get("attachments") or () if file.get("unheard")]
    return "\n".join(NOT_HEARD.format(kind=_named(str(file["kind"])), why=file["unheard"]) for file in files)
