"""Actions of steps beside the podcast: commands under the policy, sub-agents, edits, and the fences around them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.agent.act import act
from app.agent.goals import step as goal_step
from app.agent.goals.own_goals import MACHINE, OwnGoals
from app.agent.goals.run import run_try
from app.agent.think import think
from app.agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from app.errors import BadInput, NotFound, OutsideWorkspace
from app.events import Sender
from app.goal_tables import goals, tries
from app.sessions import person_records
from app.tables import approvals, calls, deliveries, messages, observations, sessions, usage
from app.work.life import Priority
from tests.unit.house import DirectSteps, House, ScriptedModel, ask, begin, flow, run_id, wishes
from tests.unit.work.goal_house import Engine, Judge, make, put_pipeline, told, view, workspace_file
from tools.files import write

COMMAND = """
steps:
  - id: run
    action: exec
    command: "echo {title}"
    max_retries: 1
  - id: keep
    action: write
    output: out.txt
    content: "{text.run}"
    needs: [run]
"""


def with_shell(house: House, *codes: int) -> House:
    """A house whose bash notes its commands and ends with these codes, then with 0."""
    left = list(codes)

    @tool(Effect.UNSAFE)
    async def bash(context: ToolContext, command: str, timeout_s: float = 1.0) -> ToolResult:
        """Run."""
        house.log.append(command)
        code = left.pop(0) if left else 0
        return ToolResult(f"printed\n[exit code {code}]", ok=code == 0)

    return replace(house, harness=replace(house.harness, toolbox=Toolbox.of(bash, write)))


def asking(house: House) -> House:
    """A house whose policy asks before a command."""
    settings = house.harness.settings.model_copy(update={"tool_policy": (("bash", "ask"),)})
    return replace(house, harness=replace(house.harness, settings=settings))


async def test_a_command_runs_with_quoted_values_and_its_output_is_the_product(goal_house: House) -> None:
    house = with_shell(goal_house)
    put_pipeline(house, "demo", COMMAND)
    made = await make(house, "demo", title="a; rm -rf $HOME")
    await Engine(house).run()
    assert house.log == ["echo 'a; rm -rf $HOME'"]
    assert workspace_file(house, "out.txt") == "printed"
    assert (await view(house, made.goal.id))["life"] == "COMPLETED"


async def test_a_command_that_fails_is_tried_again(goal_house: House) -> None:
    house = with_shell(goal_house, 1, 2)
    put_pipeline(house, "demo", COMMAND)
    made = await make(house, "demo")
    await Engine(house).run()
    shown = await view(house, made.goal.id)
    assert len(house.log) == 2 and shown["life"] == "FAILED_PERMANENT"
    assert "[exit code 2]" in shown["reason"] and len(told(house)) == 1


async def test_a_command_that_nobody_allows_is_not_run(goal_house: House) -> None:
    """The policy's origin is `machine`; where nobody ever spoke nobody can be asked, and asking again is no use."""
    house = asking(with_shell(goal_house))
    put_pipeline(house, "demo", COMMAND)
    made = await make(house, "demo")
    engine = Engine(house)
    await engine.run()
    assert house.log == [] and engine.steps == ["run"]
    assert "nobody can be asked here" in (await view(house, made.goal.id))["reason"]


async def test_a_person_is_asked_before_a_command(goal_house: House) -> None:
    house = asking(with_shell(goal_house))
    conversation = await begin(house, "do it")
    put_pipeline(house, "demo", COMMAND)
    made = await make(house, "demo", session_id=conversation.session_id)
    await Engine(house).run()  # nobody decides: the request expires
    (request,) = house.rows(select(approvals))
    assert request.tool == "bash" and request.state == "expired" and house.log == []
    assert "May I run **bash**?" in told(house)[0]
    assert (await view(house, made.goal.id))["life"] == "FAILED_PERMANENT"


@pytest.mark.parametrize(("expires", "hours"), [("12h", (6, 7)), ("6h", (23, 24))])
async def test_at_night_a_goal_asks_in_the_morning_if_there_is_time_enough_then(
    goal_house: House, expires: str, hours: tuple[int, int]
) -> None:
    house = asking(with_shell(goal_house))
    settings = house.harness.settings.model_copy(update={"approval_expires": expires})
    house = replace(house, harness=replace(house.harness, settings=settings))
    conversation = await begin(house, "do it")
    put_pipeline(house, "demo", COMMAND)
    house.clock.advance(11.5 * 3600)  # 23:30
    await make(house, "demo", session_id=conversation.session_id)
    await Engine(house).run()
    (prompt,) = [row for row in house.rows(select(deliveries)) if row.kind == "prompt"]
    assert hours[0] <= prompt.created_at.hour < hours[1]


async def test_a_command_that_may_have_run_is_not_run_again(goal_house: House) -> None:
    house = with_shell(goal_house)
    put_pipeline(house, "demo", COMMAND)
    made = await make(house, "demo")
    engine = Engine(house)

    class Dead(BaseException):
        pass

    @tool(Effect.UNSAFE)
    async def bash(context: ToolContext, command: str, timeout_s: float = 1.0) -> ToolResult:
        """Run and die."""
        raise Dead

    dying = replace(house, harness=replace(house.harness, toolbox=Toolbox.of(bash)))
    spawn = engine.waiting()[0][2]
    with pytest.raises(Dead):
        await run_try(DirectSteps(dying), dying.harness, run_id(900), spawn)
    assert house.rows(select(calls.c.state)) == [("started",)]
    await run_try(DirectSteps(house), house.rebooted().harness, run_id(900), spawn)
    await engine.run()
    assert house.log == []
    shown = await view(house, made.goal.id)
    assert shown["life"] == "FAILED_PERMANENT" and "may or may not have happened" in shown["reason"]


async def test_a_sub_agent_does_a_step(goal_house: House) -> None:
    put_pipeline(
        goal_house,
        "demo",
        "steps:\n  - {id: look, action: agent, content: 'Look into {title}.', output: found.md}\n",
    )
    model = ScriptedModel(wishes(("look", {"at": "it"})), "It is there.")
    house = replace(goal_house, harness=replace(goal_house.harness, llm=model), model=model)
    made = await make(house, "demo", title="the box")
    await Engine(house).run()
    assert (await view(house, made.goal.id))["life"] == "COMPLETED"
    assert workspace_file(house, "found.md") == "It is there.\n" and house.log == ["look it"]
    assert model.requests[0][1][1]["content"].startswith("Look into the box.")


async def test_an_agent_that_does_not_get_on_ends_with_its_step(goal_house: House) -> None:
    """The model hangs in its second thought; the first, and its call, are progress."""
    put_pipeline(goal_house, "demo", "steps:\n  - {id: look, action: agent, content: 'Look.', timeout: 1}\n")

    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(wishes(("look", {"at": "it"})), hang)
    house = replace(goal_house, harness=replace(goal_house.harness, llm=model), model=model)
    made = await make(house, "demo")
    await Engine(house).run()
    shown = await view(house, made.goal.id)
    assert shown["life"] == "FAILED_PERMANENT" and "did not get on within 1 seconds" in shown["reason"]
    assert len(model.requests) == 2 and len(told(house)) == 1
    seen = [row.summary for row in house.rows(select(observations)) if row.kind == "STEP_PROGRESS"]
    assert "the agent has thought" in seen
    assert {row.state for row in house.rows(select(usage))} == {"settled"}


async def test_a_passage_is_replaced_once(goal_house: House) -> None:
    text = "steps:\n  - {id: a, action: edit, output: list.md, old: one, content: two, max_retries: 0}\n"
    put_pipeline(goal_house, "demo", text)
    (goal_house.harness.workspace.root / "list.md").write_text("one and more")
    for identity, life in (("a", "COMPLETED"), ("b", "COMPLETED")):  # the second finds it done
        made = await make(goal_house, "demo", identity=identity)
        await Engine(goal_house).run()
        assert (await view(goal_house, made.goal.id))["life"] == life
    assert workspace_file(goal_house, "list.md") == "two and more"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("action: write, output: ../out.md, content: x", "../out.md leads outside the workspace"),
        ("action: write, output: policy.toml, content: x", "no pipeline may write this file"),
        ("action: write, output: notes/../Policy.TOML, content: x", "no pipeline may write this file"),
        ("action: write, output: .moab/goals/other/x, content: x", "no pipeline may write this file"),
        ("action: write, output: out/x.md, content: x", "leads outside the workspace"),
        ("action: llm, prompt: p.md, input: /etc/passwd", "/etc/passwd leads outside the workspace"),
        ("action: llm, prompt: p.md, input: gone.md", "gone.md: it cannot be read"),
        ("action: llm, prompt: none.md, input: MEMORY.md", "pipelines/none.md: it cannot be read"),
        ("action: edit, output: MEMORY.md, old: not there, content: x", "stands there 0 times"),
    ],
)
async def test_what_leads_away_fails_at_once(goal_house: House, tmp_path: Path, step: str, says: str) -> None:
    put_pipeline(goal_house, "demo", "steps:\n  - {id: a, " + step + "}\n")
    root = goal_house.harness.workspace.root
    (root / "pipelines" / "p.md").write_text("Say something.")
    (root / "out").symlink_to(tmp_path)
    made = await make(goal_house, "demo")
    engine = Engine(goal_house)
    await engine.run()
    assert says in (await view(goal_house, made.goal.id))["reason"]
    assert engine.steps == ["a"], "no other try would be better"


async def test_a_policy_may_forbid_writing(goal_house: House) -> None:
    (goal_house.harness.workspace.root / "policy.toml").write_text('[machine]\nwrite = "deny"\n')
    put_pipeline(goal_house, "demo", "steps:\n  - {id: a, action: write, output: x.md, content: x}\n")
    made = await make(goal_house, "demo")
    await Engine(goal_house).run()
    assert "the policy does not allow write" in (await view(goal_house, made.goal.id))["reason"]
    assert workspace_file(goal_house, "x.md") == ""


async def test_no_more_than_four_steps_run_at_a_time_and_people_go_first(goal_house: House) -> None:
    put_pipeline(goal_house, "demo", "steps:\n  - {id: a, action: write, output: '{goal}.md', content: x}\n")
    for number, priority in enumerate([*[Priority.BATCH] * 5, Priority.FILE, Priority.PERSON]):
        await make(goal_house, "demo", identity=f"{number}", priority=priority, title=f"{number} {priority}")
    engine = Engine(goal_house)
    assert len(engine.waiting()) == 4, "the room there is"
    order: list[str] = []
    while engine.waiting():
        goal_id = engine.waiting()[0][2].task_id.partition("/")[0]
        order.append((await view(goal_house, goal_id))["title"])
        count = len(engine.steps)
        await engine.run(until=lambda count=count: len(engine.steps) > count)  # type: ignore[misc]
    assert order[4:] == ["6 person", "5 file", "4 batch"]


async def test_a_second_run_of_a_try_finds_it_taken(goal_house: House, recording: Path) -> None:
    """Rows 13 and 21: the start came twice."""
    await make(goal_house, "podcast_from_audio", recording)
    engine = Engine(goal_house)
    (_, _, spawn) = engine.waiting()[0]
    first = await goal_step.begin(goal_house.harness, "01RUN-A", spawn)
    again = await goal_step.begin(goal_house.harness, "01RUN-A", spawn)
    other = await goal_step.begin(goal_house.harness, "01RUN-B", spawn)
    assert (first["gone"], again["gone"], other["gone"]) == (False, False, True)


async def own(house: House, **changes: Any) -> OwnGoals:
    conversation = await begin(house, "please")
    return OwnGoals(house.harness, flow(conversation.session_id, **changes))


async def test_the_agent_makes_goals_and_looks_at_them(goal_house: House) -> None:
    (goal_house.harness.workspace.root / "talk.txt").write_text("words that were said")
    mine = await own(goal_house)
    said = await mine.make("tool#0.0", "podcast_from_transcript", "talk.txt", "A talk")
    assert said.startswith("Goal g") and "goes on by itself" in said
    goal_id = said.split()[1]
    assert await mine.listed() == [f"{goal_id} CREATED podcast_from_transcript (0 of 9 steps): A talk"]
    assert "- summary (llm) starting" in await mine.shown(goal_id)
    assert "is a goal already" in await mine.make("tool#0.1", "podcast_from_transcript", "talk.txt", "")
    with pytest.raises(NotFound):
        await mine.shown("gnone")
    with pytest.raises(OutsideWorkspace, match="neither in the workspace nor in one of DEVICE_FOLDERS"):
        await mine.make("tool#0.2", "podcast_from_transcript", "/etc/hostname", "")


async def test_who_asks_once_more_for_what_failed_has_it_tried_again(goal_house: House) -> None:
    """A person in a chat has no other way: only the command line can order a retry."""
    (goal_house.harness.workspace.root / "talk.txt").write_text("words that were said")
    judge: Judge = goal_house.model  # type: ignore[assignment]
    judge.verdicts = ['{"verdict": "stop", "reason": "it makes no sense"}', '{"verdict": "pass"}']
    mine = await own(goal_house)
    goal_id = (await mine.make("tool#0.0", "podcast_from_transcript", "talk.txt", "")).split()[1]
    engine = Engine(goal_house)
    await engine.run()
    assert (await view(goal_house, goal_id))["life"] == "FAILED_PERMANENT"
    said = await mine.make("tool#0.1", "podcast_from_transcript", "talk.txt", "")
    assert f"had failed, {goal_id}; what is left of it is tried again" in said
    assert "is a goal already" in await mine.make("tool#0.1", "podcast_from_transcript", "talk.txt", ""), "once"
    await engine.run()
    assert (await view(goal_house, goal_id))["life"] == "COMPLETED" and engine.steps.count("summary") == 1


async def test_a_machine_makes_no_goals(goal_house: House) -> None:
    conversation = await begin(goal_house, "a report", origin="a background task")
    mine = OwnGoals(goal_house.harness, flow(conversation.session_id))
    with pytest.raises(BadInput, match=MACHINE[:40]):
        await mine.make("tool#0.0", "podcast_from_transcript", "", "")


@pytest.mark.parametrize(
    ("path", "content", "says", "ok"),
    [
        ("pipelines/new.yaml", "steps: [{id: a, action: notify, content: hi}]", "It is a valid pipeline: a.", True),
        ("pipelines/new.yaml", "steps: [{id: a, action: fly}]", "step a: action: there is no action 'fly'", False),
        ("./pipelines/../pipelines/new.yaml", "nonsense", "pipelines/new.yaml: accepted is a mapping", False),
        ("pipelines/new.yml", "steps: []", "ends with .yaml", False),
        ("watch.yaml", "folders: [{path: /etc, pattern: '*', pipeline: x}]", "DEVICE_FOLDERS", False),
        ("watch.yaml", "settle: 5s", "It is valid: 0 folders are watched.", True),
        ("notes.yaml", "nonsense", "Created notes.yaml", True),
    ],
)
async def test_what_the_model_writes_is_validated_on_the_spot(
    goal_house: House, path: str, content: str, says: str, ok: bool
) -> None:
    model = ScriptedModel(wishes(("write", {"path": path, "content": content})))
    house = replace(goal_house, harness=replace(goal_house.harness, llm=model, toolbox=Toolbox.of(write)), model=model)
    conditions = await begin(house, "write it")
    await think(house.harness, conditions, ask(0))
    await act(house.harness, conditions, {"key": "tool#0.0", "name": "write"})
    (row,) = house.rows(select(calls.c.result, calls.c.ok))
    assert says in row.result and row.ok is ok
    assert workspace_file(house, path) == content, "the file is there, to be put right"


async def test_who_is_forgotten_has_no_goals_left(goal_house: House, engine: Engine, recording: Path) -> None:
    conversation = await begin(goal_house, "do it", sender=Sender(id="7"))
    mine = await make(goal_house, "podcast_from_audio", recording, session_id=conversation.session_id)
    await engine.run(until=lambda: "check" in engine.steps)
    found = await goal_house.db.read(person_records.export, "test:7")
    assert [one["id"] for one in found["goals"]] == [mine.goal.id]
    assert any("sky is blue" in one["text"] for one in found["messages"]), "what its steps' models wrote is told too"

    await goal_house.db.write(person_records.forget, "test:7", goal_house.clock.now())
    for table in (goals, tries, observations, messages, sessions):
        assert goal_house.rows(select(table)) == []
    await engine.run()  # runs on their way find nothing to do
