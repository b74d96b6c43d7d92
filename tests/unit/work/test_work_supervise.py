"""What the monitor decides is done: once, to the right people, and nothing else is touched."""

from typing import Any

import pytest
from sqlalchemy import select

from app.agent.delegation import supervise
from app.agent.delegation.supervise import run_monitor
from app.agent.heartbeat.sweep import send_unsent
from app.tables import deliveries, messages, observations, sessions, turns
from app.work import ledger, supervision, tracking
from app.work.observation import Branch, Kind, Observation
from app.work.projection import Truth
from app.work.supervision import Supervision
from tests.unit.agent.test_agent_commands import say
from tests.unit.house import SESSION, House, begin, whole_turn
from tests.unit.work.ledgers import TASK


async def start(house: House, owner: str | None = SESSION, *steps: str, executor: str = "owner") -> None:
    data: dict[str, Any] = {"goal": "count the ships", "steps": list(steps or ("a",))}
    data |= {"owner": owner} if owner else {}
    opening = Observation(TASK, Kind.STARTED, "start", house.clock.now(), "owner", data=data)
    await house.db.write(tracking.start, opening, executor=executor)


async def see(house: House, kind: Kind, step: str | None = None, **data: Any) -> None:
    key = f"{kind}:{len(house.rows(observations.select()))}"
    await house.db.write(tracking.record, Observation(TASK, kind, key, house.clock.now(), "owner", step, data=data))


async def beat(house: House, minutes: float = 0) -> list[tuple[str, str]]:
    """What a beat so much later decides, other than OK."""
    house.clock.advance(minutes * 60)
    found = await run_monitor(house.harness)
    return [(one["id"], str(one["action"]["kind"])) for one in found["decided"]]


def asked(house: House) -> list[Any]:
    return house.rows(messages.select().where(messages.c.origin == supervise.ORIGIN).order_by(messages.c.id))


def told(house: House) -> list[str]:
    return [row.text for row in house.rows(deliveries.select().where(deliveries.c.kind == "notice"))]


async def watch(house: House) -> Supervision | None:
    return await house.db.read(supervision.find, TASK)


@pytest.fixture
async def owned(house: House) -> House:
    """A house whose chat owns a task, and is at rest."""
    await whole_turn(house)
    await start(house)
    return house


async def test_with_nothing_due_a_beat_is_one_read(owned: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await beat(owned) == []
    monkeypatch.setattr(supervise, "_look", None)
    assert await run_monitor(owned.harness) == {"looked": 0, "kinds": {}, "decided": []}


async def test_an_idle_task_is_asked_about_in_its_owners_chat_and_steers_nobody(owned: House) -> None:
    assert await beat(owned, 29) == [(TASK, "STALE_PROGRESS")] and asked(owned) == []
    assert await beat(owned, 1) == [(TASK, "NUDGE_MAIN_AGENT")]
    (question,) = asked(owned)
    (event,) = owned.sender.of("agent.message.received")[-1:]
    assert (event["data"]["steers"], event["data"]["sessionKey"]) == (False, SESSION)
    assert event["data"]["messageKey"] == question.message_key and question.destination["chatId"] == "7"
    assert "No progress since 2026-01-05 12:00 UTC." in question.text and "count the ships" in question.text
    assert "task_reply (task_id ships)" in question.text and "Question 1 of 3" in question.text
    for branch in ("A still working", "B done", "C blocked", "D waiting outside", "E give up"):
        assert branch in question.text


async def test_nobody_is_asked_twice_before_the_time_has_come_again(owned: House) -> None:
    await beat(owned, 30)
    for _ in range(29):
        await beat(owned, 1)
    assert len(asked(owned)) == 1
    await beat(owned, 1)
    assert len(asked(owned)) == 2


async def test_after_three_questions_the_person_is_told_once(owned: House) -> None:
    for _ in range(40):
        await beat(owned, 10)
    assert len(asked(owned)) == 3
    (notice,) = told(owned)
    assert "count the ships" in notice and "No progress since" in notice and "moab task show ships" in notice
    await see(owned, Kind.STEP_PROGRESS, "a")
    for _ in range(40):
        await beat(owned, 10)
    assert len(asked(owned)) == 6 and len(told(owned)) == 2, "it got on in between, so this is another time"


async def test_a_contradiction_is_asked_about_on_the_next_beat(owned: House) -> None:
    await beat(owned)
    await see(owned, Kind.TASK_COMPLETED)
    assert await beat(owned, 1) == [(TASK, "OWNER_RECONCILE")]
    assert "not its steps: a" in asked(owned)[0].text


async def test_the_answer_ends_the_asking(owned: House) -> None:
    await see(owned, Kind.TASK_COMPLETED)
    await beat(owned, 1)
    reply = Observation(
        TASK, Kind.OWNER_REPLY_RECORDED, "r", owned.clock.now(), "owner", data={"branch": Branch.DONE}
    )  # fmt: skip
    await owned.db.write(tracking.reply, reply)
    assert await beat(owned, 1) == [(TASK, "STOP_AND_DELETE")]
    assert await watch(owned) is None and len(asked(owned)) == 1


@pytest.mark.parametrize("branch", [Branch.WORKING, Branch.DONE, Branch.BLOCKED, Branch.GIVEN_UP])
async def test_an_answer_that_crosses_the_completion_opens_nothing_again(owned: House, branch: Branch) -> None:
    await see(owned, Kind.STEP_COMPLETED, "a")
    await see(owned, Kind.TASK_COMPLETED)
    await beat(owned)
    data = {"branch": branch, "reason": "NEEDS_A_PERSON"}
    late = Observation(TASK, Kind.OWNER_REPLY_RECORDED, "r", owned.clock.now(), "owner", step="a", data=data)
    assert (await owned.db.write(tracking.reply, late)).truth_state is Truth.COMPLETED
    assert await watch(owned) is None and await beat(owned, 600) == []


async def test_the_end_deletes_the_watch_and_no_observation(owned: House) -> None:
    await see(owned, Kind.STEP_COMPLETED, "a")
    await see(owned, Kind.TASK_COMPLETED)
    before = owned.rows(observations.select())
    assert await beat(owned) == [(TASK, "STOP_AND_DELETE")]
    assert await watch(owned) is None and owned.rows(observations.select()) == before
    assert await beat(owned, 600) == []


@pytest.mark.parametrize(
    ("kind", "data", "decided"),
    [
        (Kind.OWNER_RESUMED, {}, []),
        (Kind.TASK_COMPLETED, {}, [(TASK, "OWNER_RECONCILE")]),
        (Kind.HEARTBEAT, {"success": True}, None),
    ],
)
async def test_what_had_ended_and_has_not_is_watched_over_again(
    owned: House, kind: Kind, data: dict[str, Any], decided: list[tuple[str, str]] | None
) -> None:
    await see(owned, Kind.STEP_COMPLETED, "a")
    await see(owned, Kind.TASK_COMPLETED)
    await beat(owned)
    await see(owned, kind, **data)
    found = await watch(owned)
    assert (found is None) is (decided is None)
    assert found is None or found.owner_key == SESSION
    assert await beat(owned, 1) == (decided or [])


async def test_a_passing_fault_is_tried_again_before_anybody_is_told(owned: House) -> None:
    await see(owned, Kind.BLOCKED_CONFIRMED, "a", reason="DOWNLOAD_TIMEOUT")
    found = [await beat(owned, minutes) for minutes in (0, 4, 1, 14, 1)]
    assert found == [[(TASK, "RETRY")], [], [(TASK, "RETRY")], [], [(TASK, "RETRY")]]
    texts = [row.text for row in asked(owned)]
    assert [f"This is retry {n} of 3." in text for n, text in enumerate(texts, 1)] == [True, True, True]
    assert "try a again now" in texts[0] and told(owned) == []
    assert await beat(owned, 16) == [(TASK, "BLOCKED_ESCALATE")]
    await beat(owned, 60)
    assert len(told(owned)) == 1 and "a is blocked: DOWNLOAD_TIMEOUT." in told(owned)[0]
    assert len(asked(owned)) == 3


async def test_retries_are_counted_also_where_nobody_can_be_asked(house: House) -> None:
    """Whoever does the work outside reads the order in `moab task monitor`; a person is told in the end."""
    await whole_turn(house)
    await start(house, None)
    await see(house, Kind.BLOCKED_CONFIRMED, "a", reason="TRANSIENT_NETWORK")
    found = [await beat(house, minutes) for minutes in (0, 5, 15, 15)]
    assert found == [[(TASK, "RETRY")]] * 3 + [[(TASK, "BLOCKED_ESCALATE")]]
    assert asked(house) == [] and len(told(house)) == 1


async def test_after_new_the_question_goes_to_the_same_chat(owned: House) -> None:
    await say(owned, "new", "c1")
    assert await beat(owned, 30) == [(TASK, "NUDGE_MAIN_AGENT")]
    (question,) = asked(owned)
    (session_id,) = owned.rows(select(sessions.c.id).where(sessions.c.closed_at.is_(None)))[0]
    assert (question.session_id, question.destination["chatId"]) == (session_id, "7")


async def test_what_no_retry_can_mend_is_told_at_once(owned: House) -> None:
    await see(owned, Kind.BLOCKED_CONFIRMED, "a", reason="NEEDS_A_PERSON")
    assert await beat(owned) == [(TASK, "BLOCKED_ESCALATE")]
    assert len(told(owned)) == 1 and asked(owned) == []


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (Kind.BLOCKED_CONFIRMED, {"reason": "NEEDS_A_PERSON"}, "Die Aufgabe ist blockiert: NEEDS_A_PERSON."),
        (Kind.TASK_COMPLETED, {}, "Die Aufgabe ist abgeschlossen, aber nicht ihre Schritte: a."),
    ],
)
async def test_the_reason_is_told_in_the_language_of_who_reads_it(
    house: House, kind: Kind, data: dict[str, str], words: str
) -> None:
    await begin(house, channel_meta={"languageCode": "de"})
    await start(house, None)
    await see(house, kind, None, **data)
    await beat(house, 1)
    (text,) = told(house)
    assert words in text


async def test_at_night_the_notice_waits_for_the_morning(owned: House) -> None:
    owned.clock.advance(12 * 3600)
    await see(owned, Kind.BLOCKED_CONFIRMED, "a", reason="NEEDS_A_PERSON")
    assert await beat(owned) == [(TASK, "BLOCKED_ESCALATE")]
    assert told(owned) == []


async def test_an_executor_of_its_own_tries_again_by_itself(house: House) -> None:
    await whole_turn(house)
    await start(house, executor="pipeline")
    await see(house, Kind.BLOCKED_CONFIRMED, "a", reason="EXECUTION_ERROR")
    assert await beat(house) == [(TASK, "RETRY")]
    held = await watch(house)
    assert held is not None and held.retries == {} and asked(house) == []


@pytest.mark.parametrize("owner", [None, "test:nobody"])
async def test_with_nobody_to_ask_the_person_who_spoke_last_is_told(house: House, owner: str | None) -> None:
    await whole_turn(house)
    await start(house, owner)
    await see(house, Kind.TASK_COMPLETED)
    assert await beat(house, 1) == [(TASK, "TRUTH_INCONSISTENT")]
    await beat(house, 100)
    assert len(told(house)) == 1 and asked(house) == []


async def test_where_nobody_ever_spoke_it_is_in_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    await start(house, None)
    await see(house, Kind.TASK_COMPLETED)
    await beat(house, 1)
    assert "Nobody can be told" in caplog.text and house.sender.events == []


async def test_two_beats_at_once_ask_once(owned: House) -> None:
    """Row 21: every decision is a compare-and-set on its row."""
    owned.clock.advance(30 * 60)
    now = owned.clock.now()
    other = owned.other_door()
    stale = await other.read(supervision.find, TASK)
    await run_monitor(owned.harness)
    assert stale is not None and not await other.write(supervision.change, stale, asks=1, asked_at=now)
    await run_monitor(owned.harness)
    await other.close()
    assert len(asked(owned)) == 1


class Killed(BaseException):
    """What stands for `kill -9` between the commit and the event."""


async def test_killed_between_the_question_and_its_event_it_is_asked_once(
    owned: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_name: str) -> None:
        raise Killed

    monkeypatch.setattr(supervise, "reach", die)
    owned.clock.advance(30 * 60)
    with pytest.raises(Killed):
        await run_monitor(owned.harness)
    monkeypatch.undo()
    assert len(asked(owned)) == 1 and asked(owned)[0].event_sent_at is None
    again = owned.rebooted()
    await run_monitor(again.harness)
    await send_unsent(again.harness)
    assert len(asked(owned)) == 1 and asked(owned)[0].event_sent_at is not None
    assert len([e for e in owned.sender.of("agent.message.received") if e["data"]["origin"] == "the monitor"]) == 1


async def test_a_task_with_steady_progress_costs_four_hours_of_silence(owned: House) -> None:
    for minute in range(240):
        if minute % 9 == 0:
            await see(owned, Kind.STEP_PROGRESS, "a")
        assert await beat(owned, 1) == []
    assert asked(owned) == [] and told(owned) == [] and len(owned.rows(turns.select())) == 1


async def test_a_live_turn_is_not_cancelled_by_a_question(house: House) -> None:
    flow = await begin(house)
    await start(house)
    assert await beat(house, 30) == [(TASK, "NUDGE_MAIN_AGENT")]
    (turn,) = house.rows(turns.select())
    assert (turn.run_id, turn.state) == (flow.run_id, "live")
    assert house.sender.of("agent.turn.stopped") == []


async def test_a_look_at_everything_does_not_wait_for_its_time(owned: House) -> None:
    await beat(owned)
    found = await run_monitor(owned.harness, everything=True)
    assert (found["looked"], found["kinds"]) == (1, {"OK": 1})


async def test_what_was_asked_is_derived_from_observations_alone(owned: House) -> None:
    """No second bookkeeping: the watch can be lost, and the task stands as it stood."""
    await see(owned, Kind.STEP_PROGRESS, "a")
    before = await owned.db.read(ledger.derived, TASK)
    await owned.db.write(supervision.end, TASK)
    assert await owned.db.read(ledger.derived, TASK) == before and before.truth_state is Truth.RUNNING


async def test_what_is_tracked_for_a_conversation_is_listed_there_too(house: House) -> None:
    assert await say(house, "tasks", "c1") == "There are no open tasks in this conversation."
    await start(house)
    assert await say(house, "tasks", "c2") == f"- {TASK} is looked after: count the ships"
