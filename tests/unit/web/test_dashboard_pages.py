"""The pages over a real service: hostile text stays text, secrets stay hidden, filters and paging find what they do."""

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest
import pytest_asyncio
from pydantic import SecretStr

from app.web import dashboard
from tests.browser.served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = "<script>alert('x')</script>"
SECRET = "4711:a-telegram-webhook-secret"
SCRIPT = [
    {
        "when": {"last_user": "evil"},
        "times": 1,
        "text": f"thinking {EVIL}",
        "tool_calls": [{"name": "write", "arguments": {"path": "a.md", "content": f"file {EVIL} {SECRET}"}}],
    },
    {
        "when": {"last_user": "evil"},
        "times": 1,
        "text": "",
        "tool_calls": [{"name": "read", "arguments": {"path": "a.md"}}],
    },
    {"when": {"last_user": "evil"}, "times": None, "text": f"answer {EVIL}"},
]  # fmt: skip
KEY = "http:evil"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A service in which hostile things were said, sent and done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-a-model-key")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        home = tmp_path_factory.mktemp("pages") / "home"
        secret = SecretStr(SECRET)
        async with serving(home, *SCRIPT, telegram_webhook_secret=secret, agent_name=f"Mo{EVIL}") as served:
            await served.say(f"evil {EVIL} {SECRET}", KEY)
            desk = served.service.engine.desk
            assert desk is not None
            await desk.send(f"evil/{EVIL}", {EVIL: EVIL, "secret": SECRET})
            await served.say("harmless", f"{KEY}-not")
            yield served


async def page(served: Served, path: str, **query: str) -> str:
    answer = await served.http.get(path, params=query or None)
    assert answer.status_code == 200, path
    return answer.text


async def turn(served: Served) -> str:
    runs = (await served.http.get("/api/runs", params={"limit": 100, "function": "moab-handle-message"})).json()["runs"]
    return str(runs[-1]["id"])


async def hostile_pages(served: Served) -> dict[str, str]:
    """Every page on which hostile text is shown."""
    run = f"/runs/{await turn(served)}"
    events = await page(served, "/events")
    event = re.search(r'href="(/events/[^"]+)" id="[^"]+">evil/', events)
    assert event is not None
    step = re.search(rf'href="({run}/steps/[^"]+)">tool-read', await page(served, run))
    assert step is not None
    paths = ("/", run, step[1], "/events", event[1], "/sessions", f"/sessions/{KEY}", "/functions")
    return {path: await page(served, path) for path in paths}


async def test_hostile_text_is_shown_as_text(served: Served) -> None:
    pages = await hostile_pages(served)
    for path, text in pages.items():
        assert "<script>" not in text, path
        assert text.count("<script") == 1, path
        assert EVIL in unescape(text), path
    run = unescape(pages[f"/runs/{await turn(served)}"])
    for said in (f"evil {EVIL}", f"thinking {EVIL}", f"file {EVIL}", f"answer {EVIL}"):
        assert said in run
        assert said in unescape(pages[f"/sessions/{KEY}"])


async def test_no_secret_is_shown(served: Served) -> None:
    pages = await hostile_pages(served)
    for path, text in pages.items():
        assert SECRET not in unescape(text), path
    assert "***" in pages[f"/sessions/{KEY}"]


async def test_a_think_step_shows_words_wishes_and_tokens_and_a_tool_step_its_call(served: Served) -> None:
    text = await page(served, f"/runs/{await turn(served)}")
    steps = re.split(r'<li id="step-[^"]+" class="step ', text)[1:]
    assert [step.partition('"')[0] for step in steps] == ["step", "think", "tool", "think", "tool", "think", "step"]
    assert "asks for <b>write</b>" in steps[1] and "tokens in" in steps[1]
    assert "Arguments" in steps[2] and "a.md" in steps[2]
    assert "asks for <b>read</b>" in steps[3] and "thinking" not in steps[3]
    assert "file" in steps[4] and "Result" in steps[4]
    assert re.search(r"<dt>Tokens</dt><dd>[\d,]+ in, [\d,]+ out", text)


async def test_runs_are_found_by_session_function_and_status(served: Served) -> None:
    of_session = await page(served, "/", session=KEY)
    assert f'href="/sessions/{KEY.replace(":", "%3A")}"' in of_session
    rows = of_session.partition("<tbody>")[2]
    assert f"{KEY}-not" not in rows
    assert set(re.findall(r'id="run-[^"]+">([\w-]+)</a>', rows)) == {
        "handle-message", "acknowledge", "send-reply", "heartbeat",
    }  # fmt: skip
    both = await page(served, "/", session=KEY, function="moab-handle-message", status="Completed")
    assert re.findall(r'id="run-[^"]+">([\w-]+)</a>', both) == ["handle-message"]
    assert "No runs." in await page(served, "/", session=KEY, status="Failed")
    assert "No runs." in await page(served, "/", session="http:ev")


async def test_paging_shows_every_run_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "ROWS", 3)
    path, seen = "/", list[str]()
    while path and len(seen) < 200:
        text = await page(served, path)
        seen += re.findall(r'id="run-([^"]+)"', text)
        following = re.search(r'rel="next" href="([^"]+)"', text)
        path = unescape(following[1]) if following else ""
    listed = [run["id"] for run in (await served.http.get("/api/runs", params={"limit": 100})).json()["runs"]]
    assert seen == listed and len(seen) > 6
    first = await page(served, "/sessions")
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is None


async def test_sessions_are_found_by_a_part_of_their_key_and_paged(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await page(served, "/sessions", key="evil-n")
    assert f"{KEY}-not" in found and f">{KEY}</a>" not in found
    assert "No sessions." in await page(served, "/sessions", key="%")
    monkeypatch.setattr(dashboard, "ROWS", 1)
    first = await page(served, "/sessions")
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = await page(served, unescape(following[1]))
    assert f">{KEY}-not</a>" in first and f">{KEY}</a>" in second


async def test_an_event_shows_its_payload_and_its_runs(served: Served) -> None:
    events = await page(served, "/events", name="agent.message.received")
    assert "evil/" not in events.partition("<tbody>")[2]
    newest = re.search(r'href="(/events/[^"]+)" id="event-', events)
    assert newest is not None
    shown = await page(served, newest[1])
    assert "&#34;message&#34;: &#34;harmless&#34;" in shown
    assert set(re.findall(r'id="run-[^"]+">([\w-]+)</a>', shown)) == {"acknowledge", "handle-message"}


async def test_a_closed_session_stays_readable_beside_the_open_one(served: Served) -> None:
    key = "http:twice"
    await served.say("the first talk", key)
    await served.say("/new", key)
    await served.say("the second talk", key)
    now = await page(served, f"/sessions/{key}")
    assert "the second talk" in now and "the first talk" not in now
    other = re.search(r'href="(/sessions/http%3Atwice\?id=[^"]+)"', now)
    assert other is not None
    before = await page(served, unescape(other[1]))
    assert "the first talk" in before and "Closed" in before


async def test_functions_show_triggers_and_policies_but_no_addresses(served: Served) -> None:
    text = unescape(await page(served, "/functions"))
    assert "agent.turn.ended" in text and "*/30 * * * *" in text
    assert '"singleton"' in text and '"attempts"' in text
    assert "runtime" not in text and "/api/inngest" not in text
