"""The house holds: which room may know which, and what may stand where. Each rule is shown to be able to fail."""

import pytest

from tests.unit.core import rules
from tests.unit.core.rules import File, Rule

SOURCES = rules.sources()


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_whole_house_keeps_the_rule(rule: Rule) -> None:
    assert [fault for file in SOURCES for fault in rule(file)] == []


def test_the_walk_sees_the_house() -> None:
    modules = {file.module for file in SOURCES}
    assert {"agent.loop", "functions.handle_message", "tools.web", "webhooks.http", "engine.engine", "main"} <= modules
    assert {file.room for file in SOURCES} - {"", "engine"} <= set(rules.LEVEL)


def test_no_exception_is_listed_that_nobody_needs() -> None:
    late = {(file.module, name) for file in SOURCES for _, name, inside in rules.imports(file) if inside}
    unused = [
        (module, prefix)
        for module, prefix in rules.LATE
        if not any((m + ".").startswith(module + ".") and (name + ".").startswith(prefix + ".") for m, name in late)
    ]
    assert unused == []
    known = {file.module for file in SOURCES} | {file.room for file in SOURCES}
    assert set(rules.ONLY) | rules.ENGINE_USERS | set(rules.SAME_LEVEL) <= known


def test_the_tests_shadow_nothing() -> None:
    tests = rules.ROOT / "tests"
    assert list(tests.rglob("__init__.py")) == []
    assert [name for name in rules.OURS if (tests / name).exists()] == []


def test_the_tests_are_files_one_can_read() -> None:
    long = [
        path.name
        for path in (rules.ROOT / "tests").rglob("*.py")
        if path.read_text().count("\n") > rules.MAX_TEST_LINES
    ]
    assert long == []


def test_every_room_says_what_it_is_for() -> None:
    silent = [file.path for file in SOURCES if file.text.strip() and '"""' not in file.text[:3]]
    assert [path for path in silent if not path.startswith("app/migrations/")] == []


BROKEN = [
    (rules.arrows, "app/db.py", "from app.sessions import calls"),
    (rules.arrows, "app/clock.py", "import app.ids"),
    (rules.arrows, "app/memory/distil.py", "from app.sessions.calls import find"),
    (rules.arrows, "app/sessions/calls.py", "from app import agent"),
    (rules.arrows, "app/agent/act.py", "from tools.shell import bash_tool"),
    (rules.arrows, "app/agent/act.py", "from functions import all_functions"),
    (rules.arrows, "app/agent/act.py", "from app.web.feed import feed"),
    (rules.arrows, "app/agent/loop.py", "from app.agent.act import act"),
    (rules.arrows, "app/agent/loop.py", "from app.agent.harness import Harness"),
    (rules.arrows, "app/agent/context/build.py", "from app.db import Tx"),
    (rules.arrows, "tools/shell.py", "from app.agent.harness import Harness"),
    (rules.arrows, "tools/shell.py", "from app.db import Database"),
    (rules.arrows, "webhooks/http.py", "from app.sessions import deposit"),
    (rules.arrows, "app/web/api.py", "from webhooks.http import parse"),
    (rules.arrows, "functions/heartbeat.py", "from functions.sub_agent import sub_agent"),
    (rules.arrows, "functions/heartbeat.py", "from app.main import running"),
    (rules.arrows, "app/engine/engine.py", "from app.clock import Clock"),
    (rules.arrows, "app/engine/engine.py", "import app.agent.loop"),
    (rules.arrows, "app/agent/act.py", "from app.engine.engine import Engine"),
    (rules.arrows, "app/main.py", "from app.engine.engine import Engine"),
    (rules.arrows, "app/chat.py", "from app.local_model import LocalModel"),
    (rules.arrows, "app/engines.py", "from app.main import running"),
    (rules.arrows, "app/agent/act.py", "from .think import think"),
    (rules.arrows, "app/agent/act.py", "from app.attic import old"),
    (rules.kept_libraries, "app/agent/think.py", "import litellm"),
    (rules.kept_libraries, "app/engine/engine.py", "from inngest import Event"),
    (rules.kept_libraries, "app/agent/loop.py", "import inngest"),
    (rules.kept_libraries, "app/main.py", "import alembic.command"),
    (rules.late_imports, "app/agent/act.py", "def f():\n    from app.agent.think import think"),
    (rules.late_imports, "app/sessions/calls.py", "async def f():\n    import app.sessions.session"),
    (rules.late_imports, "app/web/api.py", "class A:\n    def f(self):\n        import alembic"),
    (rules.environment, "app/main.py", "import os\nx = os.environ['A']"),
    (rules.environment, "app/main.py", "import os\nx = os.getenv('A')"),
    (rules.environment, "tools/shell.py", "from os import environ"),
    (rules.environment, "app/cli/moab.py", "from dotenv import load_dotenv"),
    (rules.clocks, "app/main.py", "from datetime import datetime\nx = datetime.now()"),
    (rules.clocks, "app/main.py", "import datetime\nx = datetime.datetime.now()"),
    (rules.clocks, "app/main.py", "import datetime\nx = datetime.date.today()"),
    (rules.clocks, "app/engine/clock.py", "from datetime import datetime\nx = datetime.utcnow()"),
    (rules.clocks, "app/main.py", "import time\nx = time.time()"),
    (rules.clocks, "app/main.py", "import time\nx = [time.monotonic]"),
    (rules.clocks, "app/main.py", "from time import monotonic"),
    (rules.silent_handlers, "app/main.py", "try:\n    f()\nexcept:\n    raise"),
    (rules.silent_handlers, "app/main.py", "try:\n    f()\nexcept ValueError:\n    pass"),
    (rules.silent_handlers, "app/main.py", "try:\n    f()\nexcept ValueError:\n    ..."),
    (rules.private_sdk, "app/engines.py", "from inngest._internal import errors"),
    (rules.private_sdk, "app/engines.py", "import inngest\nx = inngest._internal.server_lib"),
    (rules.pure_between_steps, "app/agent/loop.py", "import asyncio\nasync def f(): await asyncio.gather(a, b)"),
    (rules.pure_between_steps, "functions/heartbeat.py", "x = asyncio.TaskGroup()"),
    (rules.pure_between_steps, "functions/heartbeat.py", "async def f(): await asyncio.wait_for(a, 1)"),
    (rules.pure_between_steps, "functions/heartbeat.py", "x = asyncio.create_task(a)"),
    (rules.pure_between_steps, "functions/heartbeat.py", "try:\n    f()\nfinally:\n    g()"),
    (rules.pure_between_steps, "app/agent/loop.py", "async def f():\n    async with lock:\n        pass"),
    (rules.pure_between_steps, "functions/heartbeat.py", "import random"),
    (rules.pure_between_steps, "functions/heartbeat.py", "def f(harness): return harness.clock.now()"),
    (rules.printing, "app/main.py", "print('x')"),
    (rules.function_ids, "functions/sub_agent.py", "create_function(fn_id='sub_agent')"),
    (rules.function_ids, "functions/sub_agent.py", "create_function(fn_id='agent-sub')"),
    (rules.function_ids, "functions/sub_agent.py", "x = 1"),
    (rules.sizes, "functions/heartbeat.py", "\n" * 61),
    (rules.sizes, "app/main.py", "\n" * 401),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_the_rule_can_fail(rule: Rule, path: str, text: str) -> None:
    assert list(rule(File(path, text)))


FINE = [
    (rules.arrows, "app/db.py", "from app.errors import ConfigError"),
    (rules.arrows, "app/agent/act.py", "from app.sessions import calls\nfrom app import failpoints"),
    (rules.arrows, "app/engine/engine.py", "from app.engine.clock import Clock\nimport httpx"),
    (rules.arrows, "app/web/runs.py", "from app.engine.engine import Engine"),
    (rules.arrows, "functions/__init__.py", "from functions.heartbeat import heartbeat"),
    (rules.arrows, "app/main.py", "from app.engines import link_engine\nfrom app.local_model import LocalModel"),
    (rules.kept_libraries, "functions/heartbeat.py", "import inngest"),
    (rules.late_imports, "app/migrate.py", "def f():\n    from alembic import command"),
    (rules.late_imports, "app/cli/moab.py", "def f():\n    from app.main import serve"),
    (rules.environment, "app/config.py", "import os\nx = os.environ"),
    (rules.clocks, "app/clock.py", "x = datetime.now(UTC)"),
    (rules.clocks, "app/main.py", "x = clock.now()\ny = datetime.fromisoformat(z)"),
    (rules.silent_handlers, "app/main.py", "try:\n    f()\nexcept ValueError:\n    return None"),
    (rules.pure_between_steps, "app/agent/act.py", "import asyncio\nx = asyncio.gather()"),
    (rules.pure_between_steps, "app/agent/loop.py", "async def f(steps): await steps.run('a', b)"),
    (rules.function_ids, "functions/sub_agent.py", "create_function(fn_id='sub-agent')"),
    (rules.sizes, "functions/heartbeat.py", "\n" * 60),
]


@pytest.mark.parametrize(("rule", "path", "text"), FINE)
def test_the_rule_lets_the_right_thing_be(rule: Rule, path: str, text: str) -> None:
    assert list(rule(File(path, text))) == []
