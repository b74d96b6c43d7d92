"""Decisions of people on requests: commands, buttons, the command line, and answers to questions."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import update

from app.agent.announce import announce, reply_event
from app.agent.approvals.closing import close, decided_event, mark_prompt
from app.agent.approvals.text import ended_text
from app.agent.harness import Harness
from app.agent.people.gate import admit_started
from app.channels import outbox
from app.db import Tx
from app.events import CommandReceived, MessageReceived
from app.failpoints import reach
from app.ids import new_id
from app.sentences import say
from app.sessions import approvals, calls, people, session
from app.sessions.approvals import OUTSIDE, Approval, State
from app.sessions.deposit import Deposited
from app.tables import messages

COMMANDS = frozenset({"approve", "deny", "answer"})
MAX_ANSWER_CHARS = 12_000
OPERATOR = "terminal"
"""Whoever types at the terminal or uses `moab approvals` runs the service: he may decide on everything."""


@dataclass(frozen=True)
class Person:
    """Who decides: `identity` as `approvals.identity` says, `name` for others to read."""

    identity: str
    name: str

    @property
    def is_operator(self) -> bool:
        return self.identity.partition(":")[0] == OPERATOR


@dataclass(frozen=True)
class Outcome:
    """What to tell who decided, and the events that follow; `done` is false if nothing was decided.

    `shown` is true where the prompt itself says how it ended.
    """

    text: str
    events: tuple[dict[str, Any], ...] = ()
    done: bool = False
    shown: bool = False
    row: Approval | None = None


async def run_decision(harness: Harness, event: CommandReceived, command_key: str) -> dict[str, Any]:
    """/approve, /deny and /answer, carried out once per `command_key`; works while the turn waits. JSON."""
    if not await admit_started(harness, event, command_key):
        return {"command": ""}
    events = await harness.db.write(_command, harness, event, command_key)
    reach("approval.decided")
    await announce(harness, [*events, reply_event(harness, event, event.session_key)])
    harness.notifier.publish(event.session_key)
    return {"command": event.command}


def _command(tx: Tx, harness: Harness, event: CommandReceived, command_key: str) -> list[dict[str, Any]]:
    number, _, rest = event.args.partition(" ")
    language = str(event.channel_meta.get("languageCode") or "")
    now = harness.clock.now()
    session_id = session.open_session(tx, event.session_key, new_id(harness.clock), now)
    if number:
        outcome = decide(tx, harness, number, event.command, rest.strip(), person_of(event), language)
    else:
        outcome = Outcome(_open_requests(tx, session_id, language))
    if outcome.shown and event.channel_meta.get("pressed"):
        return list(outcome.events)  # the button's own message tells it
    channel = harness.channels.get(event.channel)
    outbox.put(
        tx,
        f"{command_key}/command",
        session_id=session_id,
        run_id=None,
        kind="command",
        channel=event.channel,
        destination=event.destination,
        parts=channel.parts(outcome.text) if channel else ({"text": outcome.text},),
        text=outcome.text,
        now=now,
    )
    return _heard(tx, harness, outcome)


def _heard(tx: Tx, harness: Harness, outcome: Outcome) -> list[dict[str, Any]]:
    """The events of an outcome; of one that was decided before, the early wake once more: it may have been lost."""
    row = outcome.row
    repeated = not outcome.done and row is not None and row.state != State.PENDING
    return [*outcome.events, decided_event(tx, harness, row)] if repeated and row else list(outcome.events)


def _open_requests(tx: Tx, session_id: str, language: str) -> str:
    rows = [row for row in approvals.pending(tx, session_id) if row.kind != OUTSIDE]
    listed = "\n".join(f"- {row.id}: {row.tool}" for row in rows)
    if not rows:
        return say("Nothing is waiting for a decision.", language)
    return f"{say('Which one? /approve or /deny and its number.', language)}\n{listed}"


def person_of(event: CommandReceived | MessageReceived) -> Person:
    sender = event.sender
    name = (sender.name or sender.username or sender.id) if sender is not None else event.channel
    return Person(approvals.identity(event), name)


def decide(tx: Tx, harness: Harness, number: str, verb: str, words: str, person: Person, language: str = "") -> Outcome:
    """Decide on the request `number` for `person`. `verb` is approve, deny or answer; `words` a reason or the answer.

    Whoever is first decides; everybody else is told how it ended.
    """
    row = approvals.find(tx, number)
    if row is None:
        return Outcome(say("There is no request {id}.", language, id=number[:20]))
    if row.kind == OUTSIDE:
        said = say("{id} waits for a result from outside: POST /api/calls/{id}/result gives it.", language, id=row.id)
        return Outcome(said, row=row)
    if not may_decide(row, person, (*harness.settings.approval_admins, *people.admins(tx))):
        return Outcome(_not_yours(row, language))
    if row.state == State.PENDING and not approvals.is_awaited(tx, row):
        return _too_late(tx, harness, row, State.SUPERSEDED, language)
    if row.state == State.PENDING and row.expires_at <= harness.clock.now():
        return _too_late(tx, harness, row, State.EXPIRED, language)
    if row.state != State.PENDING:
        return Outcome(ended_text(row, language), row=row)
    if row.kind == "question":
        answer = words if verb == "answer" else {"approve": "yes", "deny": f"no {words}".strip()}[verb]
        chosen = choice_of(row, answer)
        if chosen is None:
            said = say("{answer} is none of the choices of {id}.", language, answer=repr(answer[:50]), id=row.id)
            return Outcome(said, row=row)
        return _decided(tx, harness, row, State.ANSWERED, person, language, answer=chosen)
    if verb == "answer":
        said = say("{id} is no question: /approve {id} or /deny {id}.", language, id=row.id)
        return Outcome(said, row=row)
    state = State.APPROVED if verb == "approve" else State.DENIED
    return _decided(tx, harness, row, state, person, language, note=words[:500] or None)


def _too_late(tx: Tx, harness: Harness, row: Approval, state: State, language: str) -> Outcome:
    events = close(tx, harness, row, state)
    return Outcome(ended_text(approvals.find(tx, row.id) or row, language), tuple(events), row=row)


def _decided(
    tx: Tx, harness: Harness, row: Approval, state: State, person: Person, language: str, *,
    answer: str | None = None, note: str | None = None,
) -> Outcome:  # fmt: skip
    """Close a pending request. Anything but an approval is the outcome of its call and is recorded there at once."""
    now = harness.clock.now()
    approvals.decide(tx, row, state, now, by=person.name, answer=answer, note=note)
    closed = approvals.find(tx, row.id) or row
    record = calls.find(tx, row.run_id, row.step_key)
    if record is not None and state is not State.APPROVED:
        told = ended_text(closed) if answer is None else _shortened(answer)
        calls.finish(tx, record.id, ok=state is State.ANSWERED, result=told, now=now)
    marked = mark_prompt(tx, harness, closed)
    events = (*marked, decided_event(tx, harness, closed))
    return Outcome(ended_text(closed, language), events, done=True, shown=bool(marked), row=closed)


def _shortened(answer: str) -> str:
    """An answer as a call's result: a tool could not say more either."""
    return answer if len(answer) <= MAX_ANSWER_CHARS else f"{answer[:MAX_ANSWER_CHARS]}\n[The answer was longer.]"


def may_decide(row: Approval, person: Person, admins: tuple[str, ...]) -> bool:
    """The operator always; admins and the requester as the policy of the turn names them."""
    approvers = ("requester", "admins") if row.kind == "question" else row.request["approvers"]
    if person.is_operator or ("admins" in approvers and person.identity in admins):
        return True
    return "requester" in approvers and row.requester == person.identity


def _not_yours(row: Approval, language: str) -> str:
    match sorted(row.request["approvers"]):
        case ["admins"]:
            return say("Only an admin may decide on {id}.", language, id=row.id)
        case ["requester"]:
            return say("Only who asked for it may decide on {id}.", language, id=row.id)
    return say("Only who asked for it or an admin may decide on {id}.", language, id=row.id)


def choice_of(row: Approval, text: str) -> str | None:
    """The answer that `text` gives to a question: anything if it has no choices, else a number, a choice in full or
    the beginning of exactly one; None if it is none of them.
    """
    choices = list(row.request["arguments"].get("choices") or ())
    said = text.strip()
    if not choices:
        return said or None
    if said.rstrip(".)").isdecimal() and 1 <= int(said.rstrip(".)")) <= len(choices):
        return str(choices[int(said.rstrip(".)")) - 1])
    exact = [choice for choice in choices if choice.casefold() == said.casefold()]
    begun = [choice for choice in choices if said and choice.casefold().startswith(said.casefold())]
    found = exact or begun
    return str(found[0]) if len(found) == 1 else None


def take_answer(tx: Tx, harness: Harness, event: MessageReceived, stored: Deposited) -> Outcome | None:
    """What came of it if a message that was just stored answers an open question of its session; else None.

    An answer is the outcome of the question's call and starts no turn. Whatever else is said, also by somebody else,
    is a new message, whose turn closes the question.
    """
    if not stored.fresh or event.origin != "person" or event.attachments:
        return None
    person = person_of(event)
    admins = (*harness.settings.approval_admins, *people.admins(tx))
    for row in reversed(approvals.pending(tx, stored.session_id)):
        if row.kind != "question" or not may_decide(row, person, admins):
            continue
        language = str(event.channel_meta.get("languageCode") or "")
        outcome = decide(tx, harness, row.id, "answer", event.message, person, language)
        if outcome.done:
            answered = {"state": "answered", "answered_by": row.run_id, "event_sent_at": harness.clock.now()}
            tx.execute(update(messages).where(messages.c.id == stored.message_id).values(answered))
            return outcome
    return None
