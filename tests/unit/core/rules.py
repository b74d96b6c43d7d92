"""The rules of the house as functions of a parsed file: each gives one sentence for every place that breaks it."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[3]
OURS = ("app", "functions", "tools", "webhooks")

BASE = {"errors", "config", "events", "log", "clock", "ids", "files", "notify", "sentences", "failpoints", "child"}
STORE = {"db", "tables", "goal_tables", "open_rows", "migrate", "migrations"}
KNOWING = {"sessions", "memory", "work", "channels", "speech", "recording", "aloud"}
EDGE = {"functions", "webhooks", "web"}
OUTER = {"engines", "main", "cli", "local_model", "platforms", "transforms"}

LEVEL = (
    dict.fromkeys(BASE, 0)
    | dict.fromkeys(STORE, 1)
    | dict.fromkeys(KNOWING, 2)
    | {"agent": 3, "tools": 4}
    | dict.fromkeys(EDGE, 5)
    | dict.fromkeys(OUTER, 6)
)
"""A room imports from rooms of lower levels; rooms of one level are strangers, unless SAME_LEVEL says so."""

SAME_LEVEL = {
    "config": {"errors"},
    "events": {"errors"},
    "ids": {"clock"},
    "tables": {"db"},
    "goal_tables": {"tables"},
    "open_rows": {"tables"},
    "migrate": {"db", "migrations"},
    "migrations": {"tables", "goal_tables"},
    "speech": {"recording"},
    "aloud": {"recording"},
    "main": {"engines", "local_model", "platforms"},
    "transforms": {"platforms"},
    "cli": OUTER - {"cli"},
}

ONLY = {
    "tools": {*BASE, "agent.tool", "agent.output"},
    "webhooks": BASE,
    "local_model": {"child", "errors"},
    "speech": {"child", "config", "errors", "recording"},
    "recording": {"errors"},
    "aloud": {"errors", "recording", "sentences"},
    "cli.client": {"errors", "events"},
    "agent.loop": {"agent.flow", "agent.models.llm", "agent.recovery", "agent.repetition", "sentences"},
    "agent.approvals.policy": {"errors"},
    "agent.context.build": {
        "agent.context.coverage",
        "agent.context.pictures",
        "agent.models.provider",
        "agent.context.pruning",
        "agent.context.summary",
        "events",
        "sessions.calls",
        "sessions.transcript",
    },
    "agent.context.pictures": {"agent.context.pruning", "events", "sessions.calls", "sessions.transcript"},
    "agent.context.coverage": {"sessions.transcript"},
    "agent.context.summary": {"agent.context.coverage", "events", "sessions.transcript"},
    "agent.context.pruning": set[str](),
    "agent.recovery": {"agent.models.llm", "sentences"},
    "agent.models.llm": {"agent.models.access", "agent.models.line", "agent.models.provider"},
    "agent.models.access": {"sentences"},
    "agent.models.line": set[str](),
    "agent.models.provider": set[str](),
}
"""Rooms and modules that may know nothing but this of ours (and of their own room, if they are rooms)."""

ENGINE_USERS = {"cli.moab", "engines", "web.runs"}
"""Who may know the embedded engine."""

KEPT = {
    "litellm": {"agent.models.llm"},
    "faster_whisper": {"speech"},
    "av": {"recording"},
    "numpy": {"recording"},
    "alembic": {"migrate", "migrations"},
    "xllamacpp": {"local_model"},
    "inngest": {"functions", "agent.steps", "engines"},
    "aiosqlite": set[str](),
    "websockets": {"channels.slack_socket"},
    "PIL": {"agent.context.picture_file"},
}
"""Libraries that are met in one place."""

LATE = {
    ("migrate", "alembic"): "costs 100 ms, only a start needs it",
    ("agent.models.llm", "litellm"): "costs two seconds, is loaded in a thread at the first call",
    ("agent.context.picture_file", "PIL"): "only a picture needs it",
    ("local_model", "xllamacpp"): "an optional extra",
    ("speech", "faster_whisper"): "an optional extra, only the worker loads it",
    ("recording", "av"): "an optional extra, only the worker loads it",
    ("recording", "numpy"): "an optional extra, only the worker loads it",
    ("cli", "app"): "`moab --help` answers at once",
}
"""Imports inside functions: (module, prefix of what it imports) and the reason."""

CLOCKS = {
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "time": {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "localtime",
        "gmtime",
        "ctime",
        "strftime",
    },
}
TASKS = {"gather", "TaskGroup", "wait_for", "wait", "create_task", "ensure_future", "shield", "timeout", "run"}
IMPURE = {"asyncio", "random", "secrets", "uuid", "os", "pathlib", "time", "httpx", "sqlalchemy", "socket", "tempfile"}
MAX_LINES = 400
MAX_FUNCTION_FILE_LINES = 60
MAX_TEST_LINES = 500
"""A file of tests is a list of cases, read one by one."""


@dataclass(frozen=True)
class File:
    """One source file: its place in the repository and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def module(self) -> str:
        """The dotted name without the leading `app`: `agent.loop`, `functions.heartbeat`, `engine`."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        parts = parts[1:] if parts[0] == "app" else parts
        return ".".join(parts[:-1] if parts and parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        return self.module.partition(".")[0]

    @property
    def is_function(self) -> bool:
        return self.room == "functions" and "." in self.module

    @property
    def is_outside_steps(self) -> bool:
        """Whether its code runs between the steps of a run and so must be pure."""
        return self.is_function or self.module in ("agent.heartbeat.beat", "agent.loop")


Rule = Callable[[File], Iterator[str]]


def sources() -> list[File]:
    """Every source file of the service."""
    paths = [path for folder in OURS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [File(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def imports(file: File) -> Iterator[tuple[ast.stmt, str, bool]]:
    """(statement, dotted name, whether it stands inside a function) of everything a file imports."""
    inner = {
        id(node)
        for scope in ast.walk(file.tree)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(scope)
    }
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, id(node) in inner
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, f"{'.' * node.level}{node.module or ''}.{alias.name}", id(node) in inner


def _of_ours(name: str) -> str | None:
    """The module or room behind an imported name of ours: `app.sessions.calls.find` is `sessions.calls.find`."""
    top, _, rest = name.partition(".")
    if top == "app":
        return rest
    return name if top in OURS else None


def _within(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(one + ".") for one in allowed)


def arrows(file: File) -> Iterator[str]:
    """Imports point one way."""
    for node, name, _ in imports(file):
        target = _of_ours(name)
        if name.startswith("."):
            yield f"{file.path}:{node.lineno} imports relatively; name the module in full"
        elif target is not None and (fault := _arrow(file, target)):
            yield f"{file.path}:{node.lineno} imports {name}: {fault}"


def _arrow(file: File, target: str) -> str | None:
    room = target.partition(".")[0]
    if file.is_function and target.startswith("functions."):
        return "functions call one another by id"
    if "engine" in (file.room, room) and file.room != room:
        fine = room == "engine" and file.module in ENGINE_USERS
        return None if fine else "the engine stands alone"
    for owner in (file.module, file.room):
        if owner in ONLY and room != owner and not _within(target, ONLY[owner]):
            return f"{owner} may know only {', '.join(sorted(ONLY[owner])) or 'nothing of ours'}"
    if file.room == room:
        return None
    if file.room not in LEVEL or room not in LEVEL:
        return "a room without a place; add it to the levels"
    if LEVEL[room] < LEVEL[file.room] or room in SAME_LEVEL.get(file.room, ()):
        return None
    return f"{file.room} is below or beside {room}"


def kept_libraries(file: File) -> Iterator[str]:
    """Some libraries are met in one place; inside the engine nothing of the SDK."""
    for node, name, _ in imports(file):
        owners = KEPT.get(name.partition(".")[0])
        if owners is not None and not _within(file.module, owners):
            yield f"{file.path}:{node.lineno} imports {name}, which belongs to {', '.join(sorted(owners)) or 'nobody'}"


def late_imports(file: File) -> Iterator[str]:
    """An import inside a function has a reason on the list; breaking a cycle is none."""
    for node, name, inside in imports(file):
        if inside and not any(_within(file.module, {module}) and _within(name, {prefix}) for module, prefix in LATE):
            yield f"{file.path}:{node.lineno} imports {name} inside a function"


def environment(file: File) -> Iterator[str]:
    """Only the configuration reads the environment."""
    if file.module == "config":
        return
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv", "load_dotenv"}
    for node in ast.walk(file.tree):
        by_attribute = isinstance(node, ast.Attribute) and node.attr in names and _root(node) == "os"
        by_import = isinstance(node, ast.ImportFrom) and any(alias.name in names for alias in node.names)
        if by_attribute or by_import:
            yield f"{file.path}:{node.lineno} reads the environment"


def clocks(file: File) -> Iterator[str]:
    """Only the clock tells the time."""
    if file.module == "clock":
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield f"{file.path}:{node.lineno} imports from time"
        elif isinstance(node, ast.Attribute) and node.attr in CLOCKS.get(_last(node.value), ()):
            yield f"{file.path}:{node.lineno} reads the clock"


def _last(node: ast.expr) -> str:
    """`datetime` of both `datetime` and `datetime.datetime`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def silent_handlers(file: File) -> Iterator[str]:
    """No error is swallowed without a word; `contextlib.suppress` names what it expects."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield f"{file.path}:{node.lineno} catches everything"
        elif all(isinstance(s, ast.Pass) or _is_dots(s) for s in node.body):
            yield f"{file.path}:{node.lineno} swallows an error"


def _is_dots(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def private_sdk(file: File) -> Iterator[str]:
    """The SDK is used through its public names."""
    for node, name, _ in imports(file):
        if name.startswith("inngest._"):
            yield f"{file.path}:{node.lineno} imports {name}"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and _root(node) == "inngest":
            yield f"{file.path}:{node.lineno} uses inngest.{node.attr}"


def pure_between_steps(file: File) -> Iterator[str]:
    """Between steps: no tasks of our own, no finally, no context manager, nothing that touches the world."""
    if not file.is_outside_steps:
        return
    for node, name, _ in imports(file):
        if name.partition(".")[0] in IMPURE:
            yield f"{file.path}:{node.lineno} imports {name} outside steps"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.With | ast.AsyncWith):
            yield f"{file.path}:{node.lineno} opens a context manager outside steps"
        elif isinstance(node, ast.Try | ast.TryStar) and node.finalbody:
            yield f"{file.path}:{node.lineno} has a finally outside steps"
        elif isinstance(node, ast.Attribute) and node.attr in TASKS and _root(node) in ("asyncio", "group"):
            yield f"{file.path}:{node.lineno} uses {node.attr} outside steps"
        elif isinstance(node, ast.Call) and _root(node.func) == "harness":
            yield f"{file.path}:{node.lineno} calls into the harness outside steps"


def printing(file: File) -> Iterator[str]:
    """The service logs; what the command line prints goes through its own printer."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{file.path}:{node.lineno} prints"


def function_ids(file: File) -> Iterator[str]:
    """A function's id is the name of its file with dashes."""
    if not file.is_function:
        return
    ids = [
        keyword.value.value
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "fn_id" and isinstance(keyword.value, ast.Constant)
    ]
    wanted = file.module.partition(".")[2].replace("_", "-")
    if ids != [wanted]:
        yield f"{file.path} has the ids {ids} instead of {wanted!r}"


def sizes(file: File) -> Iterator[str]:
    """Files stay small enough to be read at once."""
    limit = MAX_FUNCTION_FILE_LINES if file.is_function else MAX_LINES
    lines = file.text.count("\n")
    if lines > limit:
        yield f"{file.path} has {lines} lines, more than {limit}: look for the second thing it does"


RULES: tuple[Rule, ...] = (
    arrows,
    kept_libraries,
    late_imports,
    environment,
    clocks,
    silent_handlers,
    private_sdk,
    pure_between_steps,
    printing,
    function_ids,
    sizes,
)
