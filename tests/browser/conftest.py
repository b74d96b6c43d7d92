"""One service, one Chromium for all tests here; both in the loop of the module. Without Chromium they are skipped."""

import os
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.served import MODEL_KEY, Served, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()
NEEDED = "BROWSER_TESTS"
"""Set to `required` where the browser has to be there, as in CI: then its lack is a failure."""

PLAN = [
    {
        "when": {"last_user": "plan"},
        "times": 1,
        "text": "First I look <script>window.hacked = 1</script> around.",
        "tool_calls": [
            {"name": "write", "arguments": {"path": "plan.md", "content": "<img src=x onerror='window.hacked = 1'>"}},
            {"name": "read", "arguments": {"path": "plan.md"}},
        ],
    },
    {"when": {"last_user": "plan"}, "times": None, "text": "The plan is made."},
    {
        "when": {"last_user": "tidy"},
        "times": 1,
        "tool_calls": [{"name": "bash", "arguments": {"command": "echo '<b>tidy</b>' > tidy.txt"}}],
    },
    {"when": {"last_user": "tidy"}, "times": None, "text": "Tidied, or not."},
    {
        "when": {"last_user": "colour"},
        "times": 1,
        "tool_calls": [{"name": "ask_user", "arguments": {"question": "Which one?", "choices": ["red", "blue"]}}],
    },
    {"when": {"last_user": "colour"}, "times": None, "text": "As you like."},
    {"when": {"last_user": "slowly"}, "times": None, "text": "Slow and steady.", "delay_s": 1.0},
]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where Chromium is."""
    try:
        import playwright.async_api  # noqa: F401
    except ImportError:
        return _lacking("Playwright for Python is not installed (see .ci/browser)")
    return CHROMIUM or _lacking("there is no Chromium (see .ci/browser)")


def _lacking(what: str) -> str:
    if os.environ.get(NEEDED) == "required":
        pytest.fail(f"{NEEDED}=required, but {what}.")
    pytest.skip(f"The browser tests need more than is here: {what}.")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A service in which one plan was made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", MODEL_KEY)
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        async with serving(tmp_path_factory.mktemp("service") / "home", *PLAN) as served:
            await served.say("make a plan", "http:planner")
            yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Any]:
    """Chromium with a fresh profile."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        await opened.close()


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Any) -> AsyncIterator[Any]:
    """A window of its own, with no cookies."""
    opened = await browser.new_context(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(30_000)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(context: Any) -> AsyncIterator[Any]:
    """A page on which no script fails and no policy is broken."""
    faults: list[str] = []
    expected = "Failed to load resource: the server responded with a status of 40"
    opened = await context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(line.text) if line.type in ("error", "warning") else None)
    yield opened
    await opened.close()
    assert [fault for fault in faults if not fault.startswith(expected)] == []
