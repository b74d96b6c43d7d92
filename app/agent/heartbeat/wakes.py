"""Wakes of a conversation: set by the model and validated here, fired by the heartbeat as an input of the session."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.agent import quiet
from app.agent.announce import announce, start_message
from app.agent.delegation.tasks import local_time, parse_moment
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.tool import WakeWish
from app.clock import milliseconds
from app.db import Tx
from app.errors import BadInput, NotFound
from app.events import Destination, MessageReceived, WakeDue, wire_safe
from app.failpoints import reach
from app.ids import new_id
from app.sessions import deposit
from app.work import wakes
from app.work.wakes import MAX_AHEAD, MIN_AHEAD, Wake, WakeState

MAX_OPEN = 20
ORIGIN = quiet.WAKE

EARLY = timedelta(seconds=5)
"""An engine's clock may be ahead of ours by so much: its signal is not to be lost for that."""

LATE_AFTER = timedelta(minutes=5)
SIGNAL_AHEAD = timedelta(days=6)
"""Engines keep events for later only so long; of what is due after that they are told when it comes near."""

MACHINE = (
    "Only a turn that a person started may set wakes, or what a wake starts could set more of them for ever. "
    "Ask the user, or let a wake repeat."
)
CHAIN_ENDED = "This is the last of {limit} wakes in a row that were set without a person; ask the user to go on."
NO_CHAT = "This conversation has no chat that a wake could come back to."
TIME_FORM = "a time such as 2026-12-24T18:00 ({zone})"
WOKEN = """You are woken now, as was asked for on {set_at}: {reason}
(Wake {id}, due at {due_at}{late}. {next} {hint})"""


def set_wake(tx: Tx, harness: Harness, flow: Flow, step_key: str, wish: WakeWish) -> Wake:
    """Write down what a call asks for, once. Raises BadInput with the accepted form."""
    known = wakes.of_step(tx, flow.run_id, step_key)
    if known is not None:
        return known
    now = harness.clock.now()
    zone = wish.zone or harness.daily_log.zone.key
    due_at = _due(harness, wish, zone, now)
    chain = _checked_chain(tx, harness, flow, wish)
    if len(wakes.open_of_key(tx, flow.session_key)) >= MAX_OPEN:
        raise BadInput(f"There are {MAX_OPEN} open wakes already; list_wakes shows them, cancel_wake ends one.")
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None:
        raise BadInput(NO_CHAT)
    wake = Wake(
        id="w" + hashlib.sha256(f"{flow.run_id}:{step_key}".encode()).hexdigest()[:10],
        session_id=flow.session_id,
        session_key=flow.session_key,
        run_id=flow.run_id,
        step_key=step_key,
        reason=wire_safe(wish.reason),
        cron=wish.cron if wish.repeats else None,
        zone=zone,
        rings=wish.rings,
        chain=chain,
        due_at=due_at,
        channel=place.channel,
        destination=place.destination,
        created_at=now,
    )
    wakes.add(tx, wake)
    return wake


def _due(harness: Harness, wish: WakeWish, zone: str, now: datetime) -> datetime:
    given = [name for name, value in (("at", wish.at), ("after", wish.after), ("cron", wish.cron)) if value]
    if len(given) != 1:
        raise BadInput(f"Give one of at, after and cron; given: {', '.join(given) or 'none'}.")
    if wish.cron:
        return wakes.first_instant(wish.cron, zone, now)
    if wish.repeats:
        raise BadInput("Only a schedule repeats: give cron instead of at or after.")
    text = f"+{wish.after.strip().lstrip('+')}" if wish.after else str(wish.at).strip()
    form = "90m, 2h or 3d" if wish.after else TIME_FORM.format(zone=zone)
    due_at = parse_moment(text, now, wakes.checked_zone(zone))
    if due_at is None or bool(wish.after) != text.startswith("+"):
        raise BadInput(
            f"{given[0]}={text!r} is not understood; accepted: {form}. It is now {local_time(harness, now)}."
        )
    if not now + MIN_AHEAD <= due_at <= now + MAX_AHEAD:
        raise BadInput(
            f"{given[0]}={text!r} is in the past, less than a minute or more than a year ahead; accepted: {form}. "
            f"It is now {local_time(harness, now)}."
        )
    return due_at


def _checked_chain(tx: Tx, harness: Harness, flow: Flow, wish: WakeWish) -> int:
    """Machine-started turns may not multiply: where WAKE_CHAIN allows it, a wake's turn sets one wake in its place."""
    origins = {row.origin: row.message_key for row in deposit.open_inputs(tx, flow.session_id)}
    if "person" in origins:
        return 0
    limit = harness.settings.wake_chain
    before = wakes.find(tx, str(origins.get(ORIGIN)).split(":")[1]) if origins.get(ORIGIN) else None
    if not limit or before is None or wish.repeats or wakes.count_set_by(tx, flow.run_id):
        raise BadInput(MACHINE)
    if before.chain >= limit:
        raise BadInput(CHAIN_ENDED.format(limit=limit))
    return before.chain + 1


def due_signal(harness: Harness, wake: Wake) -> dict[str, Any]:
    """`agent.wake.due`, kept by the engine until its time; the heartbeat hears it, and no turn is started by it."""
    event = WakeDue(session_key=wake.session_key, wake_id=wake.id)
    return event.to_wire(f"{wake.id}:{wake.fired}:{new_id(harness.clock)}", ts=milliseconds(wake.due_at))


async def signal(harness: Harness, waiting: Sequence[Wake]) -> None:
    """Tell the engine when these wakes are due; what it does not take is told on a later beat."""
    near = [wake for wake in waiting if wake.due_at <= harness.clock.now() + SIGNAL_AHEAD]
    if near and await announce(harness, [due_signal(harness, wake) for wake in near]):
        await harness.db.write(wakes.mark_signalled, near)


async def fire_due(harness: Harness) -> int:
    """Deposit what is due into its session, each once, and signal what is due next; how many fired."""
    now = harness.clock.now()
    due, near = await harness.db.read(_waiting, now)
    fired = await harness.db.write(_fire, harness, due, now) if due else []
    reach("wake.committed")
    for event in fired:
        await start_message(harness, event, str(event.message_key))
    if near or fired:
        await signal(harness, (await harness.db.read(_waiting, now))[1])
    return len(fired)


def _waiting(tx: Tx, now: datetime) -> tuple[list[Wake], list[Wake]]:
    return wakes.due(tx, now + EARLY), wakes.unsignalled(tx, now + SIGNAL_AHEAD)


def _fire(tx: Tx, harness: Harness, due: Sequence[Wake], now: datetime) -> list[MessageReceived]:
    fired = [(wake, after) for wake in due if (after := wakes.fire(tx, wake, now)) is not None]
    events = [_input(harness, wake, after, now) for wake, after in fired]
    for event in events:
        deposit.deposit(tx, event, str(event.message_key), new_session_id=new_id(harness.clock), now=now)
    return events


def _input(harness: Harness, wake: Wake, after: Wake, now: datetime) -> MessageReceived:
    late = "; it comes only now, because the service was away" if now - wake.due_at > LATE_AFTER else ""
    following = f"It repeats ({wake.cron}, {wake.zone}): next at {local_time(harness, after.due_at)}."
    text = WOKEN.format(
        set_at=local_time(harness, wake.created_at),
        reason=wake.reason,
        id=wake.id,
        due_at=local_time(harness, wake.due_at),
        hint=quiet.HINT,
        late=late + (", and what fell in between is left out" if late and wake.cron else ""),
        next=following if after.state == WakeState.OPEN else "It does not come again.",
    )
    return MessageReceived(
        message=text,
        message_key=f"wake:{wake.id}:{after.fired}",
        session_key=wake.session_key,
        channel=wake.channel,
        destination=Destination.model_validate(wake.destination),
        origin=ORIGIN,
        steers=False,
    )


def rings(tx: Tx, message_key: str) -> bool:
    """Whether an input is a wake whose user wants to hear of it at any hour."""
    kind, _, rest = message_key.partition(":")
    wake = wakes.find(tx, rest.partition(":")[0]) if kind == ORIGIN else None
    return wake is not None and wake.rings


@dataclass(frozen=True)
class OwnWakes:
    """The wakes of one turn's conversation. Implements `Wakes` of the tool contract."""

    harness: Harness
    flow: Flow

    async def schedule(self, step_key: str, wish: WakeWish) -> str:
        wake = await self.harness.db.write(set_wake, self.harness, self.flow, step_key, wish)
        if not wake.signalled:
            await signal(self.harness, [wake])
        return f"Wake {wake.id} is set: {self._when(wake)}. You are told its reason then; cancel_wake ends it before."

    async def listed(self) -> list[str]:
        found = await self.harness.db.read(wakes.open_of_key, self.flow.session_key)
        return [f"{wake.id} {self._when(wake)}: {wake.reason}" for wake in found]

    async def cancel(self, wake_id: str) -> None:
        def end(tx: Tx) -> bool:
            wake = wakes.find(tx, wake_id)
            is_own = wake is not None and wake.session_key == self.flow.session_key
            return is_own and wakes.cancel(tx, wake_id, self.harness.clock.now())

        if not await self.harness.db.write(end):
            raise NotFound(f"There is no open wake {wake_id}; list_wakes shows them.")

    def _when(self, wake: Wake) -> str:
        again = f", and then by {wake.cron} ({wake.zone})" if wake.cron else ""
        return f"at {local_time(self.harness, wake.due_at)}{again}"
