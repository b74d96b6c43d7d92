"""The policy of tools: what is allowed, asked or denied to whom, and that a broken one allows nothing."""

from pathlib import Path

import pytest

from app.agent.approvals.policy import FILE, Policy, cautious_policy, make_policy, origin_of
from app.agent.receive import policy_now
from app.config import load_settings
from app.errors import BadInput, ConfigError
from tests.unit.house import House, begin


@pytest.mark.parametrize(
    ("origin", "harmless", "decision"),
    [
        ("terminal", False, "allow"),
        ("telegram", False, "ask"),
        ("http", False, "ask"),
        ("task", False, "ask"),
        ("machine", False, "ask"),
        ("telegram", True, "allow"),
        ("machine", True, "allow"),
    ],
)
def test_the_default(origin: str, harmless: bool, decision: str) -> None:
    assert make_policy((), None, origin).decide("bash", harmless=harmless) == decision


def test_a_flow_of_an_older_version_has_the_strictest_default() -> None:
    assert Policy().decide("bash", harmless=False) == "ask"


TEXT = """
approvers = ["admins"]
[tools]
write = "ask"
[telegram]
bash = "deny"
"*" = "allow"
"""


@pytest.mark.parametrize(
    ("origin", "tool", "decision"),
    [
        ("telegram", "bash", "deny"),
        ("telegram", "write", "ask"),
        ("telegram", "send_file", "allow"),
        ("telegram", "web_fetch", "deny"),
        ("http", "bash", "allow"),
        ("http", "write", "ask"),
    ],
)
def test_a_name_goes_before_the_star_and_the_origin_before_the_rest(origin: str, tool: str, decision: str) -> None:
    policy = make_policy((("bash", "allow"), ("web_fetch", "deny")), TEXT, origin, ("telegram", "slack"))
    assert policy.decide(tool, harmless=False) == decision
    assert policy.approvers == ("admins",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[tools]\nbash = "maybe"', "bash = 'maybe'"),
        ("[tools]\nbash = true", "bash = True"),
        ('[tools]\nbash = ["allow"]', "bash"),
        ('[telegramm]\nbash = "deny"', "[telegramm]"),
        ('bash = "allow"', "bash"),
        ('tools = "allow"', "tools"),
        ('approvers = ["everybody"]', "everybody"),
        ("approvers = []", "approvers"),
        ("[tools", "TOML"),
    ],
)
def test_a_broken_file_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(BadInput) as found:
        make_policy((), text, "telegram")
    assert named in str(found.value) and "Accepted:" in str(found.value)


async def test_a_broken_file_allows_nothing_and_the_log_says_why(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    (house.harness.workspace.root / FILE).write_text('[tools]\nbash = "alow"\n')
    policy = await policy_now(house.harness, "terminal")
    assert policy.cautious and policy.decide("bash", harmless=False) == "ask"
    assert "bash = 'alow'" in caplog.text and "Accepted" in caplog.text


def test_what_the_environment_denies_stays_denied_with_a_broken_file() -> None:
    policy = cautious_policy((("bash", "deny"), ("push", "allow"), ("write", "allow")), "terminal")
    decisions = {tool: policy.decide(tool, harmless=tool == "write") for tool in ("bash", "push", "write", "other")}
    assert decisions == {"bash": "deny", "push": "ask", "write": "allow", "other": "ask"}


async def test_a_turn_keeps_the_policy_it_began_with(house: House) -> None:
    """It travels in what `receive` returned: a changed file takes no other branch over old memos."""
    file = house.harness.workspace.root / FILE
    file.write_text('[tools]\nlook = "deny"\n')
    flow = await begin(house)
    file.write_text('[tools]\nlook = "allow"\n')
    assert flow.policy.decide("look", harmless=True) == "deny" and flow.policy.origin == "test"


def test_origins() -> None:
    assert [origin_of("telegram", o) for o in ("person", "task", "watcher")] == ["telegram", "task", "machine"]


@pytest.mark.parametrize("value", ["bash", "bash=perhaps", "=allow", "bash=allow;write=ask", "ba sh=allow"])
def test_the_setting_is_refused_at_the_start_with_the_entry(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean_environment: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOAB_HOME", str(tmp_path))
    monkeypatch.setenv("TOOL_POLICY", value)
    with pytest.raises(ConfigError, match=r"TOOL_POLICY: .*is not understood; accepted: tool=decision, such as"):
        load_settings()


def test_the_settings_of_approvals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean_environment: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOAB_HOME", str(tmp_path))
    monkeypatch.setenv("TOOL_POLICY", "bash=allow, *=deny")
    monkeypatch.setenv("APPROVAL_ADMINS", "telegram:7,slack:U1")
    monkeypatch.setenv("APPROVAL_EXPIRES", "30m")
    settings = load_settings()
    assert settings.tool_policy == (("bash", "allow"), ("*", "deny"))
    assert settings.approval_admins == ("telegram:7", "slack:U1")
    assert settings.approval_lifetime.total_seconds() == 1800
    for name, value in (("APPROVAL_ADMINS", "4711"), ("APPROVAL_EXPIRES", "3 days"), ("APPROVAL_EXPIRES", "25h")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(ConfigError, match=name):
                load_settings()
