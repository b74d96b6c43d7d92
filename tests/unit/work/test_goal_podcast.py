"""The podcast, step by step, with a scripted model and ears: every product, once; and what happens when parts fail."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.agent.goals.orders import cancel_goal, continue_goals, retry_goal
from app.agent.models.llm import ModelFailure, Trouble
from app.channels import outbox
from app.errors import BadInput, NotFound, ServiceUnavailable
from app.speech import Transcript
from app.tables import deliveries, observations
from app.work import ledger
from app.work.projection import Truth
from tests.unit.house import House, begin
from tests.unit.work.goal_house import (
    SUMMARY,
    WORDS,
    Engine,
    Judge,
    files_below,
    make,
    states,
    told,
    view,
    workspace_file,
)

PAGE = "wiki/raw/2026-01-05-the-blue-sky.md"


async def test_every_product_is_made_once(goal_house: House, engine: Engine, recording: Path, tmp_path: Path) -> None:
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()

    shown = await view(goal_house, made.goal.id)
    assert shown["life"] == "COMPLETED" and shown["truth"] == Truth.COMPLETED
    assert set(states(shown).values()) == {"done"}
    page = workspace_file(goal_house, PAGE)
    assert page.startswith('---\ntitle: "The blue sky"\ndate: 2026-01-05\nsource: "The blue sky.mp3"\n')
    assert SUMMARY in page and WORDS in page
    line = (
        f"- 2026-01-05 [The blue sky](../raw/2026-01-05-the-blue-sky.md): Why the sky is blue. <!-- {made.goal.id} -->"
    )
    assert workspace_file(goal_house, "wiki/topics/physics.md") == f"# Physics\n\n{line}\n"
    assert workspace_file(goal_house, "wiki/index.md") == (
        "# Index\n\n## raw\n\n- [The blue sky](raw/2026-01-05-the-blue-sky.md)\n\n"
        "## topics\n\n- [Physics](topics/physics.md)\n"
    )
    assert files_below(recording.parent) == {recording.name: b"sound"}, "it was named by hand: it is a person's"
    assert files_below(tmp_path / "phone") == {"2026-01-05-the-blue-sky.md": page.strip().encode()}
    assert told(goal_house) == [f'"The blue sky" is in the wiki: {PAGE}\n\n{SUMMARY}']
    assert workspace_file(goal_house, "memory/2026-01-05.md").count("Done by itself: The blue sky") == 1
    assert len(goal_house.model.requests) == 3


async def test_a_poor_summary_is_made_again_with_a_hint_and_all_that_came_of_it(
    goal_house: House, engine: Engine, recording: Path
) -> None:
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.verdicts = ['```json\n{"verdict": "redo", "hint": "Say why."}\n```', '{"verdict": "pass"}']
    judge.summaries = ["It is about the sky, somehow or other.", SUMMARY]
    judge.topics = [
        '{"topics": [{"page": "weather", "title": "Weather", "entry": "The sky again."}]}',
        *judge.topics,
    ]
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()

    shown = await view(goal_house, made.goal.id)
    assert shown["life"] == "COMPLETED" and shown["truth"] == "COMPLETED"
    assert engine.steps.count("transcribe") == 1 and engine.steps.count("notify") == 1
    assert all(engine.steps.count(step) == 2 for step in ("summary", "page", "topics", "topic_pages", "index", "check"))
    assert "What to do better: Say why." in judge.requests[3][1][1]["content"]
    assert SUMMARY in workspace_file(goal_house, PAGE) and "somehow" not in workspace_file(goal_house, PAGE)
    assert workspace_file(goal_house, "wiki/topics/weather.md") == "", "the line of the first choice is taken back"
    assert "weather" not in workspace_file(goal_house, "wiki/index.md")
    assert len(told(goal_house)) == 1


async def test_a_check_gives_up_after_two_more_versions(goal_house: House, engine: Engine, recording: Path) -> None:
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.verdicts = ['{"verdict": "redo", "hint": "Say why."}']
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()

    shown = await view(goal_house, made.goal.id)
    assert shown["life"] == "FAILED_PERMANENT"
    assert shown["reason"] == "summary was made again 2 times and is still not good enough: Say why."
    assert engine.steps.count("summary") == 3 and "cleanup" not in engine.steps
    assert files_below(recording.parent) == {recording.name: b"sound"}, "nothing is cleaned up"
    assert len(told(goal_house)) == 1 and PAGE in told(goal_house)[0]


async def test_why_a_goal_failed_is_told_in_the_language_of_who_reads_it(
    goal_house: House, engine: Engine, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "language_of", lambda tx, session_id: "de")
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.verdicts = ['{"verdict": "redo", "hint": "Say why."}']
    await make(goal_house, "podcast_from_audio", recording)
    await engine.run()
    assert "summary wurde 2-mal neu gemacht und ist immer noch nicht gut genug: Say why." in told(goal_house)[0]


async def test_a_check_may_stop_the_goal(goal_house: House, engine: Engine, recording: Path) -> None:
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.verdicts = ['{"verdict": "stop", "reason": "It is only noise."}']
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()
    assert (await view(goal_house, made.goal.id))["reason"] == "the check stopped it: It is only noise."
    assert "It is only noise." in told(goal_house)[0] and f"moab goals retry {made.goal.id}" in told(goal_house)[0]


async def test_an_answer_of_the_wrong_form_is_asked_for_again(
    goal_house: House, engine: Engine, recording: Path
) -> None:
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.verdicts = ["Looks fine to me!", '{"verdict": "pass"}']
    judge.topics = ['{"topics": [{"page": "../../etc", "title": "x"}]}', *judge.topics]
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()
    assert (await view(goal_house, made.goal.id))["life"] == "COMPLETED"
    asked = [messages[1]["content"] for _, messages, _ in judge.requests]
    assert any("was not accepted: this is not JSON" in text for text in asked)
    assert any("was not accepted: topics.0.page: " in text for text in asked)
    assert set(engine.steps) == set(states(await view(goal_house, made.goal.id))), "no step was tried twice"
    assert len(engine.steps) == 10


async def test_a_failing_step_is_tried_four_times_told_once(goal_house: House, engine: Engine, recording: Path) -> None:
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.summaries = [ModelFailure(Trouble.OVERLOADED, "too many", None)]
    begun = goal_house.clock.now()
    made = await make(goal_house, "podcast_from_audio", recording)
    lives: list[str] = []
    for _ in range(5):
        count = len(engine.steps)
        await engine.run(until=lambda count=count: len(engine.steps) > count)  # type: ignore[misc]
        lives.append((await view(goal_house, made.goal.id))["life"])
    assert lives == ["IN_PROGRESS", "FAILED", "FAILED", "FAILED", "FAILED_PERMANENT"]
    assert (goal_house.clock.now() - begun).total_seconds() >= 30 + 120 + 600
    assert len(told(goal_house)) == 1
    assert 'I could not finish "The blue sky" (podcast_from_audio).' in told(goal_house)[0]
    assert f"transcribe: .moab/goals/{made.goal.id}/transcribe.txt" in told(goal_house)[0]
    await engine.run()
    assert engine.steps.count("summary") == 4

    judge.summaries = [SUMMARY]
    assert await retry_goal(goal_house.harness, made.goal.id) == f"{made.goal.id} is tried again."
    await engine.run()
    assert (await view(goal_house, made.goal.id))["life"] == "COMPLETED"
    assert engine.steps.count("transcribe") == 1, "what is done stays done"
    assert len(told(goal_house)) == 2


async def test_what_waits_for_a_retry_is_tried_at_once(goal_house: House, engine: Engine, recording: Path) -> None:
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.summaries = [ModelFailure(Trouble.UNAVAILABLE, "away", 3_600.0), SUMMARY]
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run(until=lambda: "summary" in engine.steps)
    await retry_goal(goal_house.harness, made.goal.id)
    begun = goal_house.clock.now()
    await engine.run(until=lambda: "notify" in engine.steps)
    assert (await view(goal_house, made.goal.id))["life"] == "COMPLETED"
    assert (goal_house.clock.now() - begun).total_seconds() < 5, "the provider's hour is not waited for"
    with pytest.raises(BadInput, match="is COMPLETED; only what failed is tried again"):
        await retry_goal(goal_house.harness, made.goal.id)


async def test_another_model_answers_where_the_first_does_not(goal_house: House, recording: Path) -> None:
    settings = goal_house.harness.settings.model_copy(update={"fallback_agent_model": "test/other"})
    goal_house = replace(goal_house, harness=replace(goal_house.harness, settings=settings))
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.summaries = [ModelFailure(Trouble.QUOTA, "no money"), SUMMARY]
    engine = Engine(goal_house)
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()
    assert (await view(goal_house, made.goal.id))["life"] == "COMPLETED"
    assert [model for model, _, _ in judge.requests][:2] == ["test/model", "test/other"]


@pytest.mark.parametrize(
    ("heard", "reason", "tries"),
    [
        (BadInput("The file is no recording."), "The file is no recording.", 1),
        (Transcript("  ", "", 11.0, 0.0), "nobody speaks in this recording", 1),
        (ServiceUnavailable("The process took too long."), "The process took too long.", 3),
    ],
)
async def test_a_recording_that_cannot_be_heard_fails_with_its_reason(
    goal_house: House, engine: Engine, recording: Path, heard: Any, reason: str, tries: int
) -> None:
    goal_house.harness.speech.heard = [heard]  # type: ignore[attr-defined]
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run()
    shown = await view(goal_house, made.goal.id)
    assert (shown["life"], shown["reason"]) == ("FAILED_PERMANENT", reason)
    assert engine.steps == ["transcribe"] * tries
    assert len(told(goal_house)) == 1 and reason in told(goal_house)[0]
    assert workspace_file(goal_house, "memory/2026-01-05.md").count("Not done: The blue sky") == 1


async def test_a_cancelled_goal_goes_no_further(goal_house: House, engine: Engine, recording: Path) -> None:
    made = await make(goal_house, "podcast_from_audio", recording)
    await engine.run(until=lambda: "summary" in engine.steps)
    assert await cancel_goal(goal_house.harness, made.goal.id) == f"{made.goal.id} is cancelled."
    await engine.run()
    shown = await view(goal_house, made.goal.id)
    assert shown["life"] == "CANCELLED" and "page" in states(shown)
    assert not workspace_file(goal_house, PAGE) and told(goal_house) == []
    assert [event["data"]["taskId"] for event in goal_house.sender.of("agent.task.cancelled")] == [
        f"{made.goal.id}/page/1",
        f"{made.goal.id}/topics/1",
    ]
    with pytest.raises(NotFound, match="has ended already \\(CANCELLED\\)"):
        await cancel_goal(goal_house.harness, made.goal.id)


async def test_the_same_wish_and_the_same_content_make_one_goal(goal_house: House, recording: Path) -> None:
    first = await make(goal_house, "podcast_from_audio", recording, identity="a")
    again = await make(goal_house, "podcast_from_audio", recording, identity="a")
    copy = recording.with_name("copy.mp3")
    copy.write_bytes(b"sound")
    other = await make(goal_house, "podcast_from_audio", copy, identity="b")
    assert (first.fresh, again.fresh, other.fresh) == (True, False, False)
    assert first.goal.id == again.goal.id == other.goal.id
    wanted = await make(goal_house, "podcast_from_audio", copy, identity="c", again=True)
    assert wanted.fresh and wanted.goal.id != first.goal.id


async def test_two_sources_of_one_name_have_their_own_pages(goal_house: House, engine: Engine, recording: Path) -> None:
    other = recording.parent / "other" / recording.name
    other.parent.mkdir()
    other.write_bytes(b"other sound")
    one = await make(goal_house, "podcast_from_audio", recording)
    two = await make(goal_house, "podcast_from_audio", other)
    await engine.run()
    assert (await view(goal_house, one.goal.id))["life"] == (await view(goal_house, two.goal.id))["life"] == "COMPLETED"
    root = goal_house.harness.workspace.root
    assert len(files_below(root / "wiki" / "raw")) == 2
    assert workspace_file(goal_house, "wiki/topics/physics.md").count("Why the sky is blue.") == 2
    assert workspace_file(goal_house, "wiki/index.md").count("](raw/") == 2


async def test_wishes_that_do_not_fit_are_refused(goal_house: House, recording: Path) -> None:
    empty = recording.with_name("empty.mp3")
    empty.touch()
    for name, source, says in [
        (
            "nothing",
            recording,
            "There is no pipeline 'nothing'; there are: podcast_from_audio, podcast_from_transcript",
        ),
        ("podcast_from_audio", None, "The pipeline podcast_from_audio begins with a file"),
        ("podcast_from_transcript", recording, "does not take it; accepted: txt, md, srt, vtt"),
        ("podcast_from_audio", recording.with_name("gone.mp3"), "There is no file"),
        ("podcast_from_audio", empty, "is empty."),
    ]:
        with pytest.raises((BadInput, NotFound), match=says):
            await make(goal_house, name, source)
    assert goal_house.rows(select(observations)) == []


async def test_the_podcast_from_a_transcript(goal_house: House, engine: Engine, tmp_path: Path) -> None:
    source = tmp_path / "Evening talk.txt"
    source.write_text(WORDS)
    made = await make(goal_house, "podcast_from_transcript", source)
    await engine.run()
    assert (await view(goal_house, made.goal.id))["life"] == "COMPLETED"
    page = workspace_file(goal_house, "wiki/raw/2026-01-05-evening-talk.md")
    assert SUMMARY in page and page.endswith(f"## Transcript\n\n{WORDS}\n")
    assert "transcribe" not in engine.steps


async def test_a_talk_in_the_chat_is_told_there(goal_house: House, engine: Engine, recording: Path) -> None:
    flow = await begin(goal_house, "please do the podcast")
    await make(goal_house, "podcast_from_audio", recording, session_id=flow.session_id)
    await engine.run()
    rows = goal_house.rows(select(deliveries))
    assert [(row.channel, row.session_id) for row in rows] == [("test", flow.session_id)]


async def test_a_beat_starts_what_was_lost(goal_house: House, engine: Engine, recording: Path) -> None:
    goal_house.sender.broken = True
    made = await make(goal_house, "podcast_from_audio", recording)
    goal_house.sender.broken = False
    assert engine.waiting() == []
    goal_house.clock.advance(59)
    assert (await continue_goals(goal_house.harness))["lost"] == 0
    goal_house.clock.advance(2)
    assert (await continue_goals(goal_house.harness))["lost"] == 1
    await engine.run()
    assert (await view(goal_house, made.goal.id))["life"] == "COMPLETED"
    assert (await goal_house.db.read(ledger.derived, made.goal.id)).inconsistencies == ()
