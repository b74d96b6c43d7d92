"""The loop with scripted bodies: the order of its steps, and that a replay takes the branches it took before."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.flow import Ask, Ending
from app.agent.loop import CRASHED, OFFER, TWICE_EMPTY, Bodies, Body, run_turn
from app.agent.recovery import EXPLANATIONS
from tests.unit.house import flow

UNTIL = "2026-01-05T12:00:02+00:00"
ANSWERED = {"kind": "answered"}


def say(head: int = 9) -> dict[str, Any]:
    return {"kind": "say", "head": head}


def act(*names: str, number: int = 0) -> dict[str, Any]:
    """A thought that wishes for tools; `!name` is a durable one."""
    calls = [
        {"key": f"tool#{number}.{i}", "name": name.lstrip("!"), "durable": name.startswith("!")}
        for i, name in enumerate(names)
    ]
    return {"kind": "act", "head": 1, "calls": calls}


def failed(trouble: str) -> dict[str, Any]:
    return {"kind": "failed", "trouble": trouble, "message": "m", "wait_until": UNTIL}


class Interrupted(BaseException):
    """What the SDK raises to end a request once a step has run."""


@dataclass
class FakeSteps:
    """Memoizes answers as an engine does, under id and index; `one_at_a_time` interrupts after each new step."""

    memos: dict[str, Any] = field(default_factory=dict)
    one_at_a_time: bool = False
    order: list[str] = field(default_factory=list)
    outcome: Mapping[str, Any] = field(default_factory=lambda: {"ok": True, "value": {"text": "child"}})

    async def run(self, step_id: str, body: Body, *args: Any) -> Mapping[str, Any]:
        key = self._key(step_id)
        if key not in self.memos:
            json.dumps(args)
            self.memos[key] = json.loads(json.dumps(await body(*args)))
            self._interrupt()
        return dict(self.memos[key])

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        key = self._key(step_id)
        assert until.tzinfo is not None
        if key not in self.memos:
            self.memos[key] = None
            self._interrupt()

    async def wait_for_decision(self, step_id: str, ask: Ask, beside: tuple[str, Body, Any] | None) -> None:
        if beside is not None:
            await self.run(*beside)
        key = self._key(step_id)
        if key not in self.memos:
            self.memos[key] = None
            self._interrupt()

    async def invoke(self, step_id: str, function_id: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        key = self._key(f"{step_id}({function_id})")
        if key not in self.memos:
            self.memos[key] = dict(self.outcome)
            self._interrupt()
        return dict(self.memos[key])

    def _key(self, step_id: str) -> str:
        key = f"{step_id}/{sum(one.rpartition('/')[0] == step_id for one in self.order)}"
        self.order.append(key)
        return key

    def _interrupt(self) -> None:
        if self.one_at_a_time:
            raise Interrupted

    @property
    def ids(self) -> list[str]:
        return [key.rpartition("/")[0] for key in self.order]


@dataclass
class Script:
    """Bodies that answer by number: thoughts and endings in order, observations by call key."""

    thoughts: list[dict[str, Any]]
    endings: list[dict[str, Any]] = field(default_factory=lambda: [ANSWERED])
    observations: dict[str, Any] = field(default_factory=dict)
    prompted: list[str] = field(default_factory=list)
    compactions: list[dict[str, Any]] = field(default_factory=lambda: [{"kind": "done"}])
    fetchings: list[dict[str, Any]] = field(default_factory=list)
    hearings: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    summarised: list[dict[str, Any]] = field(default_factory=list)
    finished: list[dict[str, Any]] = field(default_factory=list)
    observed: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def bodies(self) -> Bodies:
        return Bodies(
            think=self.think,
            compact=self.compact,
            fetch=self.fetch,
            transcribe=self.transcribe,
            act=self.act,
            observe=self.observe,
            finish=self.finish,
            speak=self.finish,
            prompt=self.prompt,
        )

    async def think(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.requests.append(dict(request))
        number = int(request["key"].partition("#")[2])
        return self.thoughts[min(number, len(self.thoughts) - 1)]

    async def compact(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.summarised.append(dict(request))
        number = int(request["key"].partition("#")[2])
        return self.compactions[min(number, len(self.compactions) - 1)]

    async def fetch(self) -> Mapping[str, Any]:
        return self.fetchings.pop(0)

    async def transcribe(self) -> Mapping[str, Any]:
        return self.hearings.pop(0)

    async def act(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        usual = {"kind": "invoke", "invoke": {"task": "t"}} if call["durable"] else {"kind": "done"}
        found = self.observations.get(call["key"], usual)
        seen: Mapping[str, Any] = found.pop(0) if isinstance(found, list) else found
        return seen

    async def prompt(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        self.prompted.append(call["key"])
        return {"kind": "prompted"}

    async def observe(self, call: Mapping[str, Any], outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        self.observed.append(outcome)
        return {"kind": "done"}

    async def finish(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.finished.append(dict(request))
        if request["state"] != "finished":
            return {"kind": request["state"]}
        number = sum(one["state"] == "finished" for one in self.finished) - 1
        return self.endings[min(number, len(self.endings) - 1)]


async def play(script: Script, limit: int = 20, fallback: str = "", **options: Any) -> tuple[Ending, FakeSteps]:
    steps = FakeSteps(**options)
    ending = await run_turn(steps, script.bodies, flow("S", max_iterations=limit, fallback=fallback))
    return ending, steps


def asks(prompt: bool) -> dict[str, Any]:
    return {"kind": "ask", "ask": {"id": "K3", "wait_s": 300, "prompt": prompt}}


async def test_files_are_fetched_before_the_model_is_asked_and_waited_for() -> None:
    later = {"kind": "later", "wait_until": "2026-01-05T12:00:02+00:00"}
    script = Script([{"kind": "fetch"}, {"kind": "fetch"}, say()], fetchings=[later, {"kind": "done"}])
    ending, steps = await play(script, limit=1)
    assert ending.kind == "answered"
    assert steps.ids == ["think", "fetch", "wait", "think", "fetch", "think", "finish"]


async def test_what_was_spoken_is_put_into_words_before_the_model_is_asked() -> None:
    script = Script([{"kind": "fetch"}, {"kind": "transcribe"}, say()])
    script.fetchings, script.hearings = [{"kind": "done"}], [{"kind": "done"}]
    _, steps = await play(script)
    assert steps.ids == ["think", "fetch", "think", "transcribe", "think", "finish"]


async def test_a_turn_that_is_stopped_while_it_fetches_ends() -> None:
    ending, _ = await play(Script([{"kind": "fetch"}], fetchings=[{"kind": "stopped"}]))
    assert ending.kind == "stopped"


@pytest.mark.parametrize("one_at_a_time", [False, True])
async def test_a_call_waits_for_a_person_and_its_row_is_read_on_every_wake(one_at_a_time: bool) -> None:
    """The person is told once, together with the first wait."""
    waits = {"tool#0.0": [asks(True), asks(False), {"kind": "done"}]}
    script = Script([act("bash"), say()], observations=waits)
    steps = FakeSteps(one_at_a_time=one_at_a_time)
    while True:
        steps.order.clear()
        try:
            ending = await run_turn(steps, script.bodies, flow("S"))
            break
        except Interrupted:
            continue
    expected = ["think", "tool-bash", "prompt", "decision", "tool-bash", "decision", "tool-bash", "think", "finish"]
    assert steps.ids == expected and ending.kind == "answered"
    assert script.prompted == ["tool#0.0"]


async def test_a_wait_that_is_superseded_ends_the_turn() -> None:
    script = Script([act("bash", "look")], observations={"tool#0.0": [asks(True), {"kind": "superseded"}]})
    ending, steps = await play(script)
    assert ending.kind == "superseded" and steps.ids == ["think", "tool-bash", "prompt", "decision", "tool-bash"]


async def test_words_end_the_turn() -> None:
    script = Script([say(7)])
    ending, steps = await play(script)
    assert (ending.kind, steps.ids) == ("answered", ["think", "finish"])
    assert script.finished == [{"key": "finish#1", "head": 7, "text": "", "state": "finished"}]


async def test_calls_run_one_after_the_other_then_it_thinks_again() -> None:
    script = Script([act("look", "push"), act("look", number=1), say()])
    _, steps = await play(script)
    assert steps.ids == ["think", "tool-look", "tool-push", "think", "tool-look", "think", "finish"]
    assert [r["key"] for r in script.requests] == ["think#0", "think#1", "think#2"]
    assert [r["iteration"] for r in script.requests] == [0, 1, 2]


async def test_a_durable_call_is_invoked_and_observed() -> None:
    script = Script([act("!delegate_task", "look"), say()])
    _, steps = await play(script)
    assert steps.ids == [
        "think",
        "tool-delegate_task",
        "delegate(sub-agent)",
        "observe",
        "tool-look",
        "think",
        "finish",
    ]
    assert script.observed == [{"ok": True, "value": {"text": "child"}}]


async def test_a_child_that_failed_is_observed_too() -> None:
    script = Script([act("!delegate_task"), say()])
    ending, _ = await play(script, outcome={"ok": False, "error": "gone"})
    assert ending.kind == "answered" and script.observed == [{"ok": False, "error": "gone"}]


async def test_a_durable_call_with_a_record_is_not_invoked_again() -> None:
    script = Script([act("!delegate_task"), say()], observations={"tool#0.0": {"kind": "done"}})
    _, steps = await play(script)
    assert "delegate(sub-agent)" not in steps.ids


async def test_a_failed_tool_does_not_end_the_turn() -> None:
    script = Script([act("push"), say()], observations={"tool#0.0": {"kind": "done", "ok": False}})
    ending, _ = await play(script)
    assert ending.kind == "answered"


@pytest.mark.parametrize(
    ("kind", "ending", "text", "state"),
    [
        ("superseded", "superseded", None, None),
        ("stopped", "stopped", None, None),
        ("stale", "offered", OFFER, "offered"),
        ("crashed", "failed", CRASHED, "failed"),
    ],
)
@pytest.mark.parametrize("where", ["think", "tool"])
async def test_what_stops_a_turn(kind: str, ending: str, text: str | None, state: str | None, where: str) -> None:
    observed = {"tool#0.0": {"kind": kind}}
    script = Script([{"kind": kind}]) if where == "think" else Script([act("look", "push")], observations=observed)
    found, steps = await play(script)
    assert found.kind == ending and "tool-push" not in steps.ids
    assert [(one["text"], one["state"]) for one in script.finished] == ([(text, state)] if text else [])


# TRAPS, Context: "Text and no tool calls both empty: 20 paid calls -> one nudge, then a plain message".
async def test_one_empty_answer_is_nudged_two_end_the_turn() -> None:
    script = Script([{"kind": "empty"}, say()])
    ending, _ = await play(script)
    assert ending.kind == "answered" and [r["nudge"] for r in script.requests] == [False, True]
    script = Script([{"kind": "empty"}])
    _, steps = await play(script)
    assert steps.ids == ["think", "think", "finish"]
    assert (script.finished[0]["text"], script.finished[0]["state"]) == (TWICE_EMPTY, "failed")


async def test_an_empty_answer_costs_no_iteration_and_is_forgiven_after_a_round() -> None:
    script = Script([{"kind": "empty"}, act("look", number=1), {"kind": "empty"}, say()])
    ending, _ = await play(script)
    assert ending.kind == "answered"
    assert [(r["iteration"], r["nudge"]) for r in script.requests] == [(0, False), (0, True), (1, False), (1, True)]


async def test_an_overloaded_model_is_waited_for() -> None:
    script = Script([failed("overloaded"), failed("overloaded"), say()])
    _, steps = await play(script)
    assert steps.ids == ["think", "wait", "think", "wait", "think", "finish"]
    assert [(r["waits"], r["iteration"]) for r in script.requests] == [(0, 0), (1, 0), (2, 0)]


async def test_patience_ends_with_the_fallback_then_with_an_explanation() -> None:
    script = Script([failed("overloaded")])
    _, steps = await play(script, fallback="other/model")
    assert steps.ids == ["think", "wait"] * 3 + ["think"] + ["think", "wait"] * 3 + ["think", "finish"]
    assert [r["model"] for r in script.requests] == ["test/model"] * 4 + ["other/model"] * 4
    assert script.finished[0]["text"] == EXPLANATIONS[_trouble("overloaded")]


def _trouble(name: str) -> Any:
    return next(trouble for trouble in EXPLANATIONS if trouble == name)


async def test_a_refusal_falls_back_at_once_and_stays_there() -> None:
    script = Script([failed("rejected"), act("look", number=1), say()])
    _, steps = await play(script, fallback="other/model")
    assert steps.ids == ["think", "think", "tool-look", "think", "finish"]
    assert [r["model"] for r in script.requests] == ["test/model", "other/model", "other/model"]


async def test_overflow_is_summarised_then_shrunk_without_a_wait_or_an_iteration_and_stays_shrunk() -> None:
    script = Script([failed("overflow"), {"kind": "compact"}, *[failed("overflow")] * 2, act("look", number=4), say()])
    _, steps = await play(script)
    assert steps.ids == ["think", "think", "compact", *["think"] * 3, "tool-look", "think", "finish"]
    assert [(r["overflow"], r["shrink"], r["iteration"]) for r in script.requests] == [
        (False, 0, 0),
        (True, 0, 0),
        (False, 0, 0),
        (False, 1, 0),
        (False, 2, 0),
        (False, 2, 1),
    ]


async def test_an_overflow_with_nothing_to_summarise_is_shrunk_at_once() -> None:
    script = Script([*[failed("overflow")] * 3, act("look", number=3), say()])
    _, steps = await play(script)
    assert steps.ids == [*["think"] * 4, "tool-look", "think", "finish"]
    assert [(r["overflow"], r["shrink"]) for r in script.requests] == [
        (False, 0),
        (True, 0),
        (False, 2),
        (False, 3),
        (False, 3),
    ]


async def test_a_summary_that_fails_is_tried_again_by_another_model_then_made_without_one() -> None:
    """Compaction frees nothing and fires every turn: tries are capped."""
    tries = [{"kind": "failed", "wait_until": UNTIL}, {"kind": "failed"}, {"kind": "done"}]
    script = Script([{"kind": "compact"}, say()], compactions=tries)
    _, steps = await play(script, fallback="other/model")
    assert steps.ids == ["think", "compact", "wait", "compact", "compact", "think", "finish"]
    assert [(r["key"], r["model"], r["attempt"]) for r in script.summarised] == [
        ("compact#0", "test/model", 0),
        ("compact#1", "other/model", 1),
        ("compact#2", "other/model", 2),
    ]
    assert [(r["compactions"], r["iteration"]) for r in script.requests] == [(0, 0), (1, 0)]


async def test_a_turn_thinks_between_summaries() -> None:
    script = Script([{"kind": "compact"}, act("look", number=1), {"kind": "compact"}, say()])
    await play(script)
    assert [r["compactions"] for r in script.requests] == [0, 1, 0, 1]
    assert [r["key"] for r in script.summarised] == ["compact#0", "compact#1"]


async def test_a_budget_that_is_used_up_is_a_normal_end() -> None:
    script = Script([{"kind": "spent", "message": "No more today."}])
    ending, steps = await play(script)
    assert (ending.kind, steps.ids) == ("answered", ["think", "finish"])
    assert script.finished == [{"key": "finish#1", "head": None, "text": "No more today.", "state": "finished"}]


@pytest.mark.parametrize(
    ("kind", "ending"), [("superseded", "superseded"), ("stopped", "stopped"), ("stale", "offered")]
)
async def test_what_stops_a_turn_while_it_summarises(kind: str, ending: str) -> None:
    found, _ = await play(Script([{"kind": "compact"}], compactions=[{"kind": kind}]))
    assert found.kind == ending


async def test_what_cannot_be_mended_is_explained() -> None:
    script = Script([failed("quota") | {"advice": "The account has no credit left."}])
    _, steps = await play(script)
    assert steps.ids == ["think", "finish"]
    assert (script.finished[0]["text"], script.finished[0]["state"]) == ("The account has no credit left.", "failed")


async def test_a_newer_message_at_the_end_makes_it_think_on() -> None:
    script = Script([say(1), say(2)], endings=[{"kind": "more"}, ANSWERED])
    ending, steps = await play(script)
    assert ending.kind == "answered" and steps.ids == ["think", "finish", "think", "finish"]
    assert [one["key"] for one in script.finished] == ["finish#1", "finish#2"]


async def test_messages_without_end_use_the_budget_up() -> None:
    script = Script([say()], endings=[{"kind": "more"}])
    _, steps = await play(script, limit=3)
    assert steps.ids == ["think", "finish"] * 3 + ["finish"]
    assert script.finished[-1]["state"] == "failed" and "3 steps" in script.finished[-1]["text"]


async def test_the_limit_of_iterations() -> None:
    script = Script([act("look")])
    _, steps = await play(script, limit=20)
    assert steps.ids.count("think") == 20 and steps.ids[-1] == "finish"
    assert [r["iteration"] for r in script.requests] == list(range(20))
    assert "20 steps" in script.finished[0]["text"]


@pytest.mark.parametrize("kind", ["superseded", "stopped", "crashed", "failed", "offered"])
async def test_the_ending_is_what_finish_says(kind: str) -> None:
    ending, _ = await play(Script([say()], endings=[{"kind": kind, "text": "t"}]))
    assert (ending.kind, ending.text) == (kind, "t")


SCENARIOS = [
    Script([act("look", "!delegate_task"), failed("overloaded"), {"kind": "empty"}, act("push", number=3), say()]),
    Script([failed("rejected"), failed("overflow"), act("look", number=2), say(), say()], [{"kind": "more"}, ANSWERED]),
    Script([act("look")]),
    Script([{"kind": "empty"}]),
    Script([{"kind": "compact"}, failed("overflow"), {"kind": "compact"}, say()], compactions=[{"kind": "failed"}]),
    Script([act("look", "push", number=0)], observations={"tool#0.1": {"kind": "stale"}}),
]


@pytest.mark.parametrize("script", SCENARIOS)
async def test_a_replay_from_any_cut_takes_the_same_steps(script: Script) -> None:
    await _assert_replays(script, fallback="other/model")


THOUGHTS = st.sampled_from(
    [
        act("look"),
        act("look", "push"),
        act("!delegate_task"),
        say(),
        {"kind": "empty"},
        *map(failed, ["overloaded", "unavailable", "rejected", "quota", "overflow", "invalid"]),
        {"kind": "compact"},
        {"kind": "spent", "message": "No more."},
        {"kind": "superseded"},
        {"kind": "stopped"},
        {"kind": "stale"},
        {"kind": "crashed"},
    ]
)
ENDINGS = st.sampled_from([ANSWERED, {"kind": "more"}, {"kind": "superseded"}])


@settings(max_examples=100, deadline=None)
@given(st.lists(THOUGHTS, min_size=1, max_size=8), st.lists(ENDINGS, min_size=1, max_size=3), st.booleans())
async def test_any_turn_replays_to_the_same_steps(
    thoughts: list[dict[str, Any]], endings: list[dict[str, Any]], has_fallback: bool
) -> None:
    await _assert_replays(Script(thoughts, endings), "other/model" if has_fallback else "")


async def _assert_replays(script: Script, fallback: str) -> None:
    """Cut behind every step: what is remembered is not run again, and the rest comes in the same order."""
    conditions = flow("S", max_iterations=6, fallback=fallback)
    whole = FakeSteps()
    ending = await run_turn(whole, _fresh(script), conditions)
    for cut in range(len(whole.order) + 1):
        again = FakeSteps(memos={key: whole.memos[key] for key in whole.order[:cut]})
        bodies = _fresh(script, done=[whole.memos[key] for key in whole.order[:cut] if _said(whole.memos[key], key)])
        assert await run_turn(again, bodies, conditions) == ending
        assert again.order == whole.order
    assert await _as_an_engine(script, conditions) == (ending, whole.order)


def _said(memo: Any, key: str) -> bool:
    return key.startswith("finish/") and memo["kind"] not in ("failed", "offered")


def _fresh(script: Script, done: Any = ()) -> Bodies:
    endings = script.endings[len(done) :] or script.endings[-1:]
    return Script(script.thoughts, endings, script.observations).bodies


async def _as_an_engine(script: Script, conditions: Any) -> tuple[Ending, list[str]]:
    """One new step a request, as the SDK does it: everything before it comes from memory."""
    bodies, memos = _fresh(script), dict[str, Any]()
    for _ in range(200):
        steps = FakeSteps(memos=memos, one_at_a_time=True)
        try:
            ending = await run_turn(steps, bodies, conditions)
        except Interrupted:
            continue
        return ending, steps.order
    raise AssertionError("the turn does not end")
