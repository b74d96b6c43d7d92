"""Which tool may run for whom, and who is asked: decided from values alone."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from app.errors import BadInput

Decision = Literal["allow", "ask", "deny"]
Approver = Literal["requester", "admins"]

FILE = "policy.toml"
"""The workspace's policy, for people to edit: no tool may write it."""

MACHINE, TASK = "machine", "task"
ORIGINS = ("terminal", "http", TASK, MACHINE)
"""Where a message may come from, besides the platforms."""
EVERY_TOOL = "*"
AT_HOME = frozenset({"edit", "send_file", "bash_kill", "cancel_task"})
"""Tools that are unsafe to repeat and yet touch only the workspace, the user's chat and the agent's own work."""

FORM = (
    f'Accepted: approvers = ["requester", "admins"] and tables [tools], [{"], [".join(ORIGINS)}] or of a platform, '
    'with lines such as bash = "ask" (allow, ask or deny; "*" is every other tool).'
)


class Policy(BaseModel):
    """The rules of one turn; `rules` are layers of tool to decision, the first one that names a tool decides.

    A `cautious` policy comes from a file that could not be understood: nothing that would be asked by default is
    allowed by it.
    """

    model_config = ConfigDict(frozen=True)

    origin: str = "machine"
    rules: tuple[dict[str, Decision], ...] = ()
    approvers: tuple[Approver, ...] = get_args(Approver)
    cautious: bool = False

    @property
    def is_of_person(self) -> bool:
        """Whether a person began the turn, and waits for what comes of it."""
        return self.origin not in (TASK, MACHINE)

    def decide(self, tool: str, *, harmless: bool) -> Decision:
        """`harmless` is a tool that only reads or stays in the workspace: without a rule it may run.

        Any other one asks, except at the terminal, whose user sits at the machine.
        """
        found = self._ruled(tool)
        if found is not None:
            return "ask" if found == "allow" and self.cautious and not harmless else found
        return "allow" if harmless or (self.origin == "terminal" and not self.cautious) else "ask"

    def _ruled(self, tool: str) -> Decision | None:
        """A tool's own name in any layer goes before `*` in any layer."""
        named = (rules[name] for name in (tool, EVERY_TOOL) for rules in self.rules if name in rules)
        return next(named, None)


def origin_of(channel: str, origin: str) -> str:
    """What a policy calls the origin of a message: the channel of a person, `task` of a sub-agent, else `machine`."""
    if origin == "person":
        return channel
    return TASK if origin == TASK else MACHINE


def make_policy(
    general: Sequence[tuple[str, str]], text: str | None, origin: str, platforms: Collection[str] = ()
) -> Policy:
    """The policy for turns of `origin`, of TOOL_POLICY (`general`) and the text of the workspace's file, if any.

    `platforms` are those whose names the file may use, with settings or without.
    Raises BadInput with the entry that is wrong and the accepted form; `cautious_policy` is for that case.
    """
    environment = _decisions("TOOL_POLICY", dict(general))
    if text is None:
        return Policy(origin=origin, rules=(environment,))
    tables = _parsed(text)
    approvers = tables.pop("approvers", list(get_args(Approver)))
    if not isinstance(approvers, list) or not approvers or not set(map(str, approvers)) <= set(get_args(Approver)):
        raise BadInput(f"approvers: {approvers!r} is not understood. {FORM}")
    known = {"tools", *ORIGINS, *platforms, origin}
    rules = {name: _table(name, table, known) for name, table in tables.items()}
    layers = (rules.get(origin, {}), rules.get("tools", {}), environment)
    return Policy(origin=origin, rules=layers, approvers=tuple(approvers))


def cautious_policy(general: Sequence[tuple[str, str]], origin: str) -> Policy:
    """What holds while the workspace's file cannot be understood."""
    return make_policy(general, None, origin).model_copy(update={"cautious": True})


def unknown_tools(general: Sequence[tuple[str, str]], tools: Collection[str]) -> list[str]:
    """Names in TOOL_POLICY that no tool has: probably slips, and so rules that do not hold."""
    return [tool for tool, _ in general if tool != EVERY_TOOL and tool not in tools]


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"It is not TOML: {error}. {FORM}") from error


def _table(name: str, table: Any, known: Collection[str]) -> dict[str, Decision]:
    if name not in known:
        raise BadInput(f"[{name}] is no origin. {FORM}")
    if not isinstance(table, Mapping):
        raise BadInput(f"{name} = {table!r} is no table. {FORM}")
    return _decisions(f"[{name}]", table)


def _decisions(where: str, entries: Mapping[str, Any]) -> dict[str, Decision]:
    wrong = [f"{tool} = {given!r}" for tool, given in entries.items() if given not in get_args(Decision)]
    if wrong:
        raise BadInput(f"{where} {', '.join(wrong)} is no decision. {FORM}")
    return dict(entries)
