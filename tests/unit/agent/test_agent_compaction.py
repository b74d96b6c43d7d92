"""The compact step: a summary takes the place of the older part, is measured, and never costs what it stands for."""

from typing import Any

import pytest

from app.agent.context.briefing import Look, fit
from app.agent.context.build import build_context
from app.agent.context.compaction import SHORTENED, compact
from app.agent.context.coverage import plan
from app.agent.context.summary import HEADINGS, OPENING, accepted
from app.agent.flow import Compaction, Flow
from app.agent.models.llm import Completion, Facts, ModelFailure, Trouble
from app.agent.think import think
from app.sessions import calls, session, transcript
from app.sessions.transcript import Entry
from app.tables import deliveries, messages, usage
from tests.unit.agent.transcripts import answered, said, summary
from tests.unit.house import RUN, House, ask, begin, kill_at, run_id, whole_turn, wishes

GOOD = "## Goal\n- find the fox\n## Critical facts\n- the fox lives in den 7"


def wanted(number: int = 0, attempt: int = 0, **changes: Any) -> dict[str, Any]:
    return {"key": f"compact#{number}", "model": "test/model", "attempt": attempt} | changes


async def compaction(house: House, flow: Flow, number: int = 0, attempt: int = 0, **changes: Any) -> Compaction:
    return Compaction.model_validate(await compact(house.harness, flow, wanted(number, attempt, **changes)))


async def long_talk(house: House, turns: int = 6, words: str = "fox " * 300) -> Flow:
    """A session with `turns` answered questions of 1,200 characters, and a turn that begins on a new one."""
    house.model.answers = ["An answer. " * 20]
    for number in range(turns):
        await whole_turn(house, f"question {number} {words}", f"k{number}", run_id(number))
    house.model.requests.clear()
    return await begin(house, "the newest question", "newest", run_id(100))


def entries(house: House, flow: Flow) -> list[Entry]:
    with house.tx() as tx:
        return transcript.load(tx, flow.session_id, session.head_of(tx, flow.session_id))


def shown(house: House, flow: Flow) -> str:
    return str(build_context(entries(house, flow), "sys"))


# TRAPS, Context: "compaction then deletes older history -> compaction covers ranges and deletes nothing".
async def test_a_summary_takes_the_place_of_the_older_part_and_deletes_nothing(house: House) -> None:
    """History cut to ten messages, compaction then deletes older history: it covers a range and deletes nothing."""
    flow = await long_talk(house)
    before = entries(house, flow)
    house.model.answers = [GOOD]
    assert (await compaction(house, flow)).kind == "done"
    after = entries(house, flow)
    assert after[: len(before)] == before and after[-1].role == "summary"
    text = shown(house, flow)
    assert OPENING in text and "den 7" in text and "question 0" not in text
    assert "the newest question" in text and "question 5" in text
    (row,) = house.rows(messages.select().where(messages.c.role == "summary"))
    assert row.data["covers"][0] == before[0].id
    assert row.data["after"] < row.data["before"] * 0.9


async def test_the_model_is_shown_the_range_under_fixed_headings(house: House) -> None:
    flow = await long_talk(house)
    house.model.answers = [GOOD]
    await compaction(house, flow)
    ((model, (system, user), tools),) = house.model.requests
    assert model == "test/model" and tools == []
    assert all(f"## {heading}" in system["content"] for heading in HEADINGS)
    assert "User: question 0" in user["content"] and "the newest question" not in user["content"]


async def test_a_second_summary_covers_the_first_and_is_told_what_it_said(house: House) -> None:
    flow = await long_talk(house)
    house.model.answers = [GOOD]
    await compaction(house, flow)
    house.model.answers = ["An answer. " * 20]
    for number in range(10, 16):
        await whole_turn(house, f"question {number} " + "owl " * 300, f"k{number}", run_id(200 + number))
    house.model.requests.clear()
    flow = await begin(house, "and now?", "now", run_id(300))
    house.model.answers = [GOOD.replace("den 7", "den 8")]
    assert (await compaction(house, flow)).kind == "done"
    assert "den 7" in house.model.requests[0][1][1]["content"]
    text = shown(house, flow)
    assert "den 8" in text and "den 7" not in text and text.count(OPENING) == 1


async def test_the_last_units_and_the_newest_words_are_never_covered(house: House) -> None:
    """Compact separates a tool call from its result, every later call is a 400: call and results are one unit."""
    flow = await begin(house, "the question " + "fox " * 2_000)
    house.model.answers = [wishes(("look", {"at": "x" * 3_000}), text="w" * 500)]
    for number in range(5):
        await think(house.harness, flow, ask(number))
        with house.tx() as tx:
            call = calls.find(tx, RUN, f"tool#{number}.0")
            assert call is not None
            calls.finish(tx, call.id, ok=True, result=f"result {number}", now=house.clock.now())
    house.model.answers = [GOOD]
    assert (await compaction(house, flow)).kind == "done"
    built = build_context(entries(house, flow), "sys")
    assert [m["content"] for m in built if m["role"] == "tool"] == ["result 2", "result 3", "result 4"]
    assert built[1]["role"] == "user" and "the question" in built[1]["content"] and "den 7" in built[1]["content"]


async def test_the_step_finds_its_own_record_and_asks_nobody(house: House) -> None:
    flow = await long_talk(house)
    house.model.answers = [GOOD]
    await compaction(house, flow)
    assert (await compaction(house, flow)).kind == "done"
    assert len(house.model.requests) == 1


@pytest.mark.parametrize("point", ["compact.answered", "compact.committed"])
async def test_killed_anywhere_there_is_one_summary(house: House, point: str) -> None:
    flow = await long_talk(house)
    house.model.answers = [GOOD]
    with kill_at(point):
        await compact(house.harness, flow, wanted())
    assert (await compaction(house, flow)).kind == "done"
    assert len(house.rows(messages.select().where(messages.c.role == "summary"))) == 1


# TRAPS, Context: "Compaction frees nothing and fires every turn -> measured before and after, tries capped".
@pytest.mark.parametrize("answer", ["", "I cannot.", "## Goal\n" + "- more words\n" * 2_000])
async def test_what_does_not_help_is_no_summary_but_paid(house: House, answer: str) -> None:
    """Compaction frees nothing and fires every turn: measured before and after."""
    flow = await long_talk(house)
    house.model.answers = [Completion(answer, input_tokens=70)]
    assert (await compaction(house, flow)).kind == "failed"
    assert house.rows(messages.select().where(messages.c.role == "summary")) == []
    assert 70 in [row.input_tokens for row in house.rows(usage.select())]


async def test_a_failure_that_passes_is_waited_for(house: House) -> None:
    flow = await long_talk(house)
    house.model.answers = [ModelFailure(Trouble.OVERLOADED, "busy", 7.0)]
    found = await compaction(house, flow)
    assert found.kind == "failed" and found.wait_until is not None
    house.model.answers = [ModelFailure(Trouble.QUOTA, "spent")]
    assert (await compaction(house, flow, 1, 1)).wait_until is None


async def test_the_last_try_asks_no_model_and_the_user_is_told_once(house: House) -> None:
    flow = await long_talk(house)
    assert (await compaction(house, flow, 2, 2)).kind == "done"
    assert house.model.requests == []
    text = shown(house, flow)
    assert "left out without a summary" in text and "The user said: question 0" in text
    told = [row.text for row in house.rows(deliveries.select()) if row.kind == "notice"]
    assert told == [SHORTENED]
    for number in range(10, 16):
        await whole_turn(house, f"question {number} " + "owl " * 300, f"k{number}", run_id(200 + number))
    flow = await begin(house, "and now?", "now", run_id(300))
    assert (await compaction(house, flow, 2, 2)).kind == "done"
    assert len([row for row in house.rows(deliveries.select()) if row.kind == "notice"]) == 1


async def test_only_the_holder_records(house: House) -> None:
    flow = await long_talk(house)

    async def answer() -> Completion:
        await begin(house, "newer", "newer", run_id(101))
        return Completion(GOOD)

    house.model.answers = [answer]
    assert (await compaction(house, flow)).kind == "superseded"
    assert (await compaction(house, flow, 1)).kind == "superseded"
    assert house.rows(messages.select().where(messages.c.role == "summary")) == []


async def test_a_short_talk_has_nothing_to_cover(house: House) -> None:
    flow = await begin(house)
    assert (await compaction(house, flow)).kind == "nothing" and house.model.requests == []


async def test_a_transcript_that_fills_the_window_is_summarised_before_the_model_is_asked(house: House) -> None:
    flow = await long_talk(house, words="fox " * 400)
    house.model.known = Facts(window=2_500)
    assert (await think(house.harness, flow, ask()))["kind"] == "compact"
    assert house.model.requests == [] and {row.state for row in house.rows(usage.select())} == {"settled"}
    house.model.answers = [GOOD]
    await compaction(house, flow)
    house.model.answers = ["So it is."]
    assert (await think(house.harness, flow, ask(1, compactions=1)))["kind"] == "say"
    assert "den 7" in str(house.model.requests[-1][1])


async def test_real_counts_win_over_the_estimate(house: House) -> None:
    """The estimate would have stayed far below: the provider counted more."""
    flow = await long_talk(house, turns=6, words="fox " * 1_500)
    house.model.known = Facts(window=60_000)
    assert (await think(house.harness, flow, ask()))["kind"] == "say"
    house.model.answers = [Completion("An answer. " * 20, input_tokens=50_000, output_tokens=100)]
    await whole_turn(house, "counted", "counted", run_id(101))
    flow = await begin(house, "next", "next", run_id(102))
    assert (await think(house.harness, flow, ask()))["kind"] == "compact"
    house.model.answers = [GOOD]
    await compaction(house, flow)
    house.model.answers = ["fine"]
    assert (await think(house.harness, flow, ask(1)))["kind"] == "say", "the count was of the context before"


async def test_with_nothing_to_summarise_the_context_is_cut_to_fit(house: House) -> None:
    flow = await long_talk(house, words="fox " * 400)
    house.model.known = Facts(window=3_000)
    assert (await think(house.harness, flow, ask(0, compactions=3)))["kind"] == "say"
    shown_to_it = house.model.requests[-1][1]
    assert "the newest question" in str(shown_to_it) and "question 0" not in str(shown_to_it)


async def test_after_an_overflow_a_summary_is_made_of_whatever_there_is(house: House) -> None:
    flow = await long_talk(house)
    assert (await think(house.harness, flow, ask(0)))["kind"] == "say"
    flow = await begin(house, "again", "again", run_id(101))
    assert (await think(house.harness, flow, ask(0, overflow=True)))["kind"] == "compact"


async def test_a_whole_turn_that_overflows_summarises_and_answers(house: House) -> None:
    await long_talk(house)
    overflow = ModelFailure(Trouble.OVERFLOW, "too long")
    house.model.answers = [overflow, GOOD, "There you are."]
    ending = await whole_turn(house, "go on", "go", run_id(101))
    assert ending.kind == "answered" and "den 7" in str(house.model.requests[-1][1])


def test_a_summary_has_exactly_the_fixed_headings() -> None:
    text = accepted("Sure!\n**Goal:**\n- a\n### critical facts\nb\n## Next Steps\n")
    assert text is not None
    assert [line[3:] for line in text.split("\n") if line.startswith("## ")] == list(HEADINGS)
    assert "## Goal\n- a" in text and "## Critical facts\nb" in text and "## Next steps\n- none" in text
    assert accepted("no headings") is None and accepted("## Goal\n\n## Done\n") is None


def test_nothing_is_planned_of_nothing() -> None:
    assert plan([], 1) is None


def test_very_many_messages_are_summarised_whatever_their_size() -> None:
    """History cut before the compaction test: what lies behind the window of the transcript is read no more."""
    asking = ask()
    talk = [said("a", n) if n % 2 else answered("b", number=n) for n in range(1, 1_600)]
    assert fit(asking, Look(None, talk), "sys", (), (), 10**6) is None
    covered = Look(None, [*talk, summary(5_000, 1, 1_500), said("newest", 6_000)])
    assert fit(asking, covered, "sys", (), (), 10**6) is not None
    assert fit(asking, Look(None, talk[:99]), "sys", (), (), 10**6) is not None
