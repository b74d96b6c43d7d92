"""The fetch step: files that came with messages are brought into the workspace, before a model hears of them."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from app.agent.announce import announce, notice
from app.agent.attend import attend
from app.agent.flow import Fetching, Flow
from app.agent.harness import Harness
from app.channels import outbox
from app.channels.channel import Channel, Fetched, Later, Refused
from app.db import Tx
from app.events import Attachment
from app.failpoints import reach
from app.files import INBOX, safe_name
from app.sentences import Sentence, retell
from app.sessions import deposit, session
from app.sessions.session import Claim
from app.sessions.transcript import Entry
from app.tables import messages
from app.work import ledger, tracking
from app.work.observation import TEXT_CHARS, Kind, Observation, Status
from app.work.projection import REASON_OF_STATUS

FetchResult = Fetched | Later | Refused

MAX_TRIES = 3
PAUSES_S = (2.0, 15.0)
GIVEN_UP = Sentence("It could not be fetched, after {tries} tries: {reason}")
NO_PLACE = Sentence("The workspace does not take it ({why}).")
FELL_SHORT = Sentence("Only {got} of {size} bytes came.")
TOO_LARGE = Sentence("It has {size} and was not fetched; at most {limit} are taken.")


@dataclass(frozen=True)
class Wanted:
    """A file to fetch: the `number`th of a message, and where it is to lie."""

    message_id: int
    number: int
    channel: str
    attachment: Attachment
    tries: int
    path: str


def files_to_fetch(entries: Sequence[Entry]) -> bool:
    """Whether a file of these messages is neither in the workspace nor given up."""
    return any(_is_wanted(file) for entry in entries if entry.role == "user" for file in _files(entry.data))


def _files(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return data.get("attachments") or ()


def _is_wanted(file: Mapping[str, Any]) -> bool:
    return bool(file.get("ref")) and not file.get("path") and not file.get("fault")


async def fetch(harness: Harness, flow: Flow) -> dict[str, Any]:
    """A Fetching as JSON: each file that is wanted was tried once. Done before, it finds nothing to do."""
    wanted = await harness.db.write(_begin, harness, flow)
    if isinstance(wanted, Fetching):
        return wanted.wire()
    pause: float | None = None
    for file in wanted:
        result = await attend(harness, flow, _bring(harness, file))
        reach("fetch.brought")
        if result is None:
            return Fetching(kind="stopped").wire()
        events, wait_s = await harness.db.write(_record, harness, flow, file, result)
        if events:
            await announce(harness, events)
        pause = max(pause or 0.0, wait_s) if wait_s is not None else pause
    if pause is None:
        return Fetching(kind="done").wire()
    until = harness.clock.now() + timedelta(seconds=pause)
    return Fetching(kind="later", wait_until=until.isoformat()).wire()


def _begin(tx: Tx, harness: Harness, flow: Flow) -> Fetching | list[Wanted]:
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=harness.clock.now())
    if claim is not Claim.HELD:
        return Fetching(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    query = (
        select(messages.c.id, messages.c.channel, messages.c.data, messages.c.created_at)
        .where(messages.c.session_id == flow.session_id, messages.c.role == "user", messages.c.attached.is_(True))
        .order_by(messages.c.id)
    )
    return [wanted for row in tx.execute(query).all() for wanted in _wanted(harness, row)]


def _wanted(harness: Harness, row: Any) -> Iterator[Wanted]:
    for number, file in enumerate(_files(row.data)):
        if _is_wanted(file):
            attachment = Attachment.model_validate(file)
            day = harness.daily_log.local(row.created_at).date()
            path = f"{INBOX}/{day}/{row.id}-{number}-{safe_name(attachment.name or '', attachment.kind)}"
            yield Wanted(row.id, number, row.channel or "", attachment, int(file.get("tries", 0)), path)


async def _bring(harness: Harness, file: Wanted) -> FetchResult:
    limit, size = harness.settings.attachment_bytes, file.attachment.size
    channel = harness.channels.get(file.channel)
    if channel is None:
        return Refused(Sentence("It came by a channel that is not there any more."))
    if size is not None and size > limit:
        return Refused(TOO_LARGE.format(size=megabytes(size), limit=megabytes(limit)))
    try:
        return await _download(channel, file, harness.workspace.root, limit)
    except OSError as error:
        return Later(None, NO_PLACE.format(why=error.strerror))


async def _download(channel: Channel, file: Wanted, root: Path, limit: int) -> FetchResult:
    """Under another name first: what is seen under its own is whole."""
    target = root / file.path
    incoming = target.with_name(f".{target.name}.coming")
    await asyncio.to_thread(_make_room, incoming)
    result = await channel.fetch(file.attachment, incoming, limit)
    promised = file.attachment.size or 0
    if isinstance(result, Fetched) and result.size < promised:
        result = Later(None, FELL_SHORT.format(got=result.size, size=promised))
    if isinstance(result, Fetched):
        await asyncio.to_thread(os.replace, incoming, target)
    else:
        await asyncio.to_thread(incoming.unlink, missing_ok=True)
    return result


def _make_room(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _record(
    tx: Tx, harness: Harness, flow: Flow, file: Wanted, result: FetchResult
) -> tuple[list[dict[str, Any]], float | None]:
    """Note what came of a file; what to send for it, and how long to wait before the next try."""
    tries = file.tries + 1
    is_given_up = isinstance(result, Refused) or (isinstance(result, Later) and tries >= MAX_TRIES)
    _observe(tx, harness, flow, file, result, is_given_up)
    if isinstance(result, Fetched):
        _note(tx, file, {"path": file.path, "size": result.size})
        return [], None
    if isinstance(result, Later) and not is_given_up:
        _note(tx, file, {"tries": tries})
        return [], result.after_s if result.after_s is not None else PAUSES_S[min(tries, len(PAUSES_S)) - 1]
    fault = GIVEN_UP.format(tries=tries, reason=result.reason) if isinstance(result, Later) else result.reason
    _note(tx, file, {"fault": fault})
    return _tell(tx, harness, flow, file, fault), None


def _observe(tx: Tx, harness: Harness, flow: Flow, file: Wanted, result: FetchResult, is_given_up: bool) -> None:
    """The file as a tracked task. This step tries again by itself, so nobody watches over it."""
    name = file.attachment.name or file.attachment.kind
    shared: dict[str, Any] = {"task_id": deposit.file_task(file.message_id, file.number), "at": harness.clock.now()}
    shared |= {"source": file.channel or "a channel"}
    data: dict[str, Any] = {"path": file.path, "status": _status(result)}
    if isinstance(result, Fetched):
        data["bytes"] = result.size
    if file.attachment.size is not None:
        data["expected_bytes"] = file.attachment.size
    why = "" if isinstance(result, Fetched) else result.reason[:TEXT_CHARS]
    if not ledger.exists(tx, shared["task_id"]):
        goal = {"goal": f"fetch {name} to {file.path}", "owner": flow.session_key}
        tracking.start(tx, Observation(kind=Kind.STARTED, key="started", data=goal, **shared), watched=False)
    seen = [Observation(kind=Kind.DOWNLOAD_OBSERVED, key=f"try {file.tries}", summary=why, data=data, **shared)]
    if isinstance(result, Fetched):
        seen.append(Observation(kind=Kind.TASK_COMPLETED, key="fetched", **shared))
    elif is_given_up:
        final = {"reason": REASON_OF_STATUS[data["status"]], "final": True}
        seen.append(Observation(kind=Kind.BLOCKED_CONFIRMED, key="given up", summary=why, data=final, **shared))
    tracking.record(tx, *seen)


def _status(result: FetchResult) -> Status:
    match result:
        case Fetched():
            return Status.COMPLETED
        case Later(timed_out=timed_out):
            return Status.TIMEOUT if timed_out else Status.INCOMPLETE
        case _:
            return Status.FAILED


def _note(tx: Tx, file: Wanted, found: Mapping[str, Any]) -> None:
    data = dict(tx.scalar(select(messages.c.data).where(messages.c.id == file.message_id)) or {})
    attachments = [dict(one) for one in _files(data)]
    if file.number < len(attachments) and attachments[file.number].get("ref") == file.attachment.ref:
        attachments[file.number] |= found
        changed = data | {"attachments": attachments}
        tx.execute(update(messages).where(messages.c.id == file.message_id).values(data=changed))


def _tell(tx: Tx, harness: Harness, flow: Flow, file: Wanted, fault: str) -> list[dict[str, Any]]:
    """A line to whoever sent the file, so that nobody has to guess what the model was not shown."""
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None:
        return []
    language = outbox.language_of(tx, flow.session_id)
    text = f"{file.attachment.name or file.attachment.kind.replace('_', ' ').capitalize()}: {retell(fault, language)}"
    return notice(tx, harness, f"fetch/{file.message_id}/{file.number}", flow.session_id, place, text)


def megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB"
