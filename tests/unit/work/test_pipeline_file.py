"""Pipeline files: what is accepted, and that every refusal names file, step and field."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput, NotFound
from app.work.library import Library
from app.work.pipeline import Action, Pipeline, behind, find_circle, parse

WRITE = {"action": "write", "output": "a.md", "content": "text"}


def text_of(*steps: dict[str, Any], **more: Any) -> str:
    return yaml.safe_dump({"steps": list(steps)} | more, sort_keys=False)


def fault(*steps: dict[str, Any], **more: Any) -> str:
    with pytest.raises(BadInput) as refused:
        parse("demo", text_of(*steps, **more))
    return str(refused.value)


def test_a_whole_pipeline_is_read() -> None:
    pipeline = parse(
        "demo",
        """
description: Notes from a recording.
accepts: [mp3, wav]
steps:
  - id: transcribe
    action: transcribe
    tool: faster-whisper
    input: "{source}"
    timeout: 2h
    max_retries: 1
  - id: summary
    action: llm
    prompt: prompts/summary.md
    input: "{transcribe}"
    needs: transcribe
""",
    )
    transcribe, summary = pipeline.steps
    assert pipeline.accepts == ("mp3", "wav") and pipeline.name == "demo"
    assert (transcribe.action, transcribe.timeout, transcribe.max_retries) == (Action.TRANSCRIBE, 7200, 1)
    assert (summary.needs, summary.input, summary.timeout) == (("transcribe",), ("{transcribe}",), 600)


@pytest.mark.parametrize(
    ("step", "field", "says"),
    [
        ({"action": "compress"}, "action", "there is no action 'compress'; accepted: transcribe, llm"),
        ({"action": None}, "action", "there is no action None"),
        ({"action": "write", "content": "x"}, "output", "is missing; write needs content, output"),
        (WRITE | {"prompt": "x"}, "prompt", "write does not take it"),
        (WRITE | {"colour": "red"}, "colour", "write does not take it"),
        (WRITE | {"needs": ["b"]}, "needs", "there is no step 'b'; accepted: a"),
        (WRITE | {"needs": ["a"]}, "needs", "a step cannot wait for itself"),
        (WRITE | {"max_retries": 9}, "max_retries", "less than or equal to 3"),
        (WRITE | {"max_retries": "many"}, "max_retries", "valid integer"),
        (WRITE | {"timeout": "soon"}, "timeout", "accepted: seconds, or a time such as 90s, 10m or 2h, up to 24h"),
        (WRITE | {"timeout": "25h"}, "timeout", "is no length of time"),
        (WRITE | {"timeout": True}, "timeout", "is no length of time"),
        (WRITE | {"tool": "bash"}, "tool", "'bash' cannot do write; accepted: write"),
        (WRITE | {"output": "{nowhere}.md"}, "output", "{nowhere} stands for nothing here; accepted: date, file, goal"),
        (WRITE | {"content": "{text.other}"}, "content", "{text.other} stands for nothing here"),
        (WRITE | {"place": "moon"}, "place", "'workspace' or 'delivery'"),
        ({"action": "llm", "prompt": "../../etc/passwd", "input": "x"}, "prompt", "leads away"),
        ({"action": "llm", "prompt": "/etc/passwd", "input": "x"}, "prompt", "leads away"),
        ({"action": "check", "input": "x", "criteria": "good", "redo": "b"}, "redo", "cannot be done again"),
        ({"action": "edit", "output": "x", "content": "y", "each": "b"}, "each", "gives no topics"),
    ],
)
def test_faults_name_file_step_and_field(step: dict[str, Any], field: str, says: str) -> None:
    said = fault({"id": "a"} | step)
    assert said.startswith(f"pipelines/demo.yaml: step a: {field}: ")
    assert says in said


@pytest.mark.parametrize("name", ["Upper", "with space", "", 7, None, "source", "date", "text", "entry", "x" * 41])
def test_a_step_needs_a_name_of_its_own(name: Any) -> None:
    assert "step 1: id: " in fault({"id": name} | WRITE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "accepted is a mapping"),
        ("- a\n- b", "accepted is a mapping"),
        ("steps: []", "steps: accepted is a list of steps"),
        ("steps: [1]", "step 1: accepted is a mapping"),
        ("steps: {a: b}", "steps: accepted is a list"),
        ("steps: [", "this is not YAML"),
        ("a: &x [1]\nsteps: *x", "aliases (*name) are not accepted"),
        ("steps:\n  - {id: a, action: write, action: exec}", "the key action stands twice, line 2"),
        ("x: " + "y" * 70_000, "too large; accepted: up to 64 KB"),
        ("!!python/object/apply:os.system ['true']", "this is not YAML"),
        ("[" * 60_000, "nested too deep; accepted: up to 20 lists"),
        ("steps: " + "{a: " * 30, "nested too deep"),
    ],
)
def test_what_is_no_pipeline_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=r"^pipelines/demo\.yaml: ") as refused:
        parse("demo", text)
    assert says in str(refused.value)


def test_two_faults_are_told_together() -> None:
    said = fault({"id": "a", "action": "fly"}, {"id": "b"} | WRITE | {"colour": "red"}, {"id": "b"} | WRITE)
    assert [line.split(": ")[1] for line in said.splitlines()] == ["step a", "step b", "step b"]
    assert "two steps have this name" in said


def test_unknown_fields_of_the_file_are_refused() -> None:
    assert "pipelines/demo.yaml: colour: there is no such field" in fault({"id": "a"} | WRITE, colour="red")


def test_a_circle_is_named() -> None:
    said = fault(
        {"id": "a", "needs": ["c"]} | WRITE, {"id": "b", "needs": ["a"]} | WRITE, {"id": "c", "needs": ["b"]} | WRITE
    )
    circle = said.partition("in a circle: ")[2].split(" -> ")
    assert said.startswith("pipelines/demo.yaml: step ") and ": needs: " in said
    assert circle[0] == circle[-1] and set(circle) == {"a", "b", "c"}


def test_what_cannot_be_undone_is_not_done_twice() -> None:
    said = fault(
        {"id": "a", "action": "llm", "prompt": "p.md", "input": "x"},
        {"id": "b", "action": "notify", "content": "done", "needs": ["a"]},
        {"id": "c", "action": "check", "input": "{a}", "criteria": "good", "redo": "a", "needs": ["b"]},
    )
    assert "step c: redo: step b (notify) would be done twice; let it need this check" in said


def test_placeholders_reach_through_needs_only() -> None:
    steps = [{"id": "a"} | WRITE, {"id": "b"} | WRITE | {"needs": ["a"], "content": "{a} {{literal}} {text.a}"}]
    assert behind(parse("demo", text_of(*steps)), "b") == {"a"}
    assert "{b} stands for nothing here" in fault(*steps, {"id": "c"} | WRITE | {"needs": ["a"], "content": "{b}"})


names = st.lists(st.sampled_from([f"s{i}" for i in range(12)]), min_size=1, max_size=12, unique=True)


@given(names, st.randoms(use_true_random=False))
def test_needs_that_point_back_are_no_circle_and_one_more_is(steps: list[str], dice: random.Random) -> None:
    needs = {name: dice.sample(steps[:place], dice.randint(0, place)) for place, name in enumerate(steps)}
    assert find_circle(needs) == []
    reaches = {name: set(needs[name]) for name in steps}
    for name in steps:
        reaches[name] |= {far for near in needs[name] for far in reaches[near]}
    for late in steps:
        for early in reaches[late]:
            circle = find_circle(needs | {early: [*needs[early], late]})
            assert circle and circle[0] == circle[-1]
            assert all(b in (*needs[a], *([late] if a == early else [])) for a, b in itertools.pairwise(circle))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        assert isinstance(parse("demo", text), Pipeline)
    except BadInput as refused:
        assert str(refused).startswith("pipelines/demo.yaml: ")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.text(max_size=8),
    st.sampled_from([str(action) for action in Action]),
)
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=4), scalars, max_size=2))
fields = st.sampled_from(["id", "action", "needs", "input", "output", "content", "timeout", "prompt", "redo", "each"])


@given(st.lists(st.dictionaries(fields, values, max_size=8), max_size=4))
def test_any_steps_are_read_or_refused_with_a_sentence(steps: list[dict[str, Any]]) -> None:
    text = yaml.safe_dump({"steps": steps})
    try:
        parse("demo", text)
    except BadInput as refused:
        assert all(line.startswith("pipelines/demo.yaml: ") for line in str(refused).splitlines())


def test_the_library_reads_again_what_changed(tmp_path: Path) -> None:
    library = Library(tmp_path)
    assert dict(library.look().pipelines) == {}
    file = tmp_path / "pipelines" / "demo.yaml"
    file.parent.mkdir()
    file.write_text(text_of({"id": "a"} | WRITE))
    first = library.find("demo")
    assert library.find("demo") is first, "a file that did not change is not read again"

    file.write_text(text_of({"id": "a"} | WRITE, {"id": "b"} | WRITE))
    assert [step.id for step in library.find("demo").steps] == ["a", "b"]

    file.write_text("steps: nonsense")
    with pytest.raises(BadInput, match=r"pipelines/demo\.yaml: steps: "):
        library.find("demo")
    assert "demo" in library.look().faults

    file.unlink()
    with pytest.raises(NotFound, match="There is no pipeline 'demo'; there are: none"):
        library.find("demo")
