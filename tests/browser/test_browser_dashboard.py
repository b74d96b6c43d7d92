"""The dashboard in a real browser: look at a run, replay it, see what happens as it happens; by keyboard too."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = ("/", "/events", "/sessions", "/sessions/http%3Aplanner", "/approvals", "/functions")


async def newest_turn(served: Served, session: str = "http:planner") -> str:
    runs = await served.http.get("/api/runs", params={"limit": 200, "function": "moab-handle-message"})
    return str(next(run["id"] for run in runs.json()["runs"] if run["sessionKey"] == session))


async def test_a_finished_run_shows_its_steps_and_what_was_said_and_done(served: Served, page: Any) -> None:
    run_id = await newest_turn(served)
    await page.goto(served.url)
    await page.click(f"#run-{run_id}")
    await page.wait_for_url(f"**/runs/{run_id}")
    names = await page.locator(".step .name").all_inner_texts()
    assert names == ["receive", "think", "tool-write", "tool-read", "think", "finish"]
    said = await page.locator(".step.think .words").all_inner_texts()
    assert said == ["First I look <script>window.hacked = 1</script> around.", "The plan is made."]
    read = page.locator(".step.tool").nth(1)
    assert not await read.locator("pre").first.is_visible()
    await read.locator("summary").first.focus()
    await page.keyboard.press("Enter")
    shown = await read.locator("pre").all_inner_texts()
    assert '"path": "plan.md"' in shown[0]
    assert "<img src=x onerror='window.hacked = 1'>" in shown[1]
    assert await page.locator(".bars rect.completed").count() == 6
    assert await page.evaluate("window.hacked") is None


async def test_a_replay_from_a_step_by_keyboard_appears_live_on_another_page(
    served: Served, context: Any, page: Any
) -> None:
    run_id = await newest_turn(served)
    watching = await context.new_page()
    await watching.goto(served.url)
    await watching.evaluate("window.loadedOnce = true")
    rows = await watching.locator("tbody tr").count()

    await page.bring_to_front()
    await page.goto(f"{served.url}/runs/{run_id}")
    await page.locator(".step.think button").nth(1).focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(lambda url: run_id not in url)
    new_id = page.url.rpartition("/")[2]
    assert await page.locator("dd a", has_text=run_id).is_visible()

    await watching.bring_to_front()
    row = watching.locator("tr", has=watching.locator(f"#run-{new_id}"))
    await row.locator(".status.completed").wait_for()
    assert "replay" in await row.inner_text()
    assert await watching.locator("tbody tr").count() > rows
    assert await watching.evaluate("window.loadedOnce")
    await watching.close()


async def test_a_running_turn_grows_on_its_page_and_keeps_what_was_opened(served: Served, page: Any) -> None:
    await served.say("go slowly", "http:slow", wait=0)
    await page.goto(f"{served.url}/?session=http:slow&function=moab-handle-message")
    await page.locator(".status.running").wait_for()
    await page.locator("tbody a").first.click()
    await page.locator("#event summary").click()
    await page.locator("h1 .status.completed").wait_for()
    assert await page.locator(".step.think .words").inner_text() == "Slow and steady."
    assert await page.locator("#event pre").is_visible()


async def test_an_answer_appears_in_the_conversation(served: Served, page: Any) -> None:
    await page.goto(f"{served.url}/sessions/http%3Aplanner")
    before = await page.locator("article").count()
    await page.locator("#pulse", has_text="live").wait_for()
    await served.say("is it done?", "http:planner")
    await page.locator("article.assistant .words", has_text="You said: is it done?").wait_for()
    assert await page.locator("article").count() == before + 2


async def test_every_button_and_link_of_a_run_is_reached_by_the_tab_key(served: Served, page: Any) -> None:
    await page.goto(f"{served.url}/runs/{await newest_turn(served)}")
    wanted = await page.locator("button:visible, summary:visible, a[href]:visible, pre:visible").count()
    reached = 0
    await page.keyboard.press("Tab")
    while await page.evaluate("document.activeElement !== document.body") and reached <= wanted:
        outlined = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outlined == "solid"
        reached += 1
        await page.keyboard.press("Tab")
    assert reached == wanted


async def test_an_event_is_sent_and_its_run_seen(served: Served, page: Any) -> None:
    await page.goto(f"{served.url}/events")
    await page.click("#send summary")
    await page.fill("[name=name]", "agent.wake.due")
    await page.fill("[name=data]", "{oops")
    await page.click("#send button")
    assert "The data is not JSON" in await page.locator("[role=alert]").inner_text()
    await page.fill("[name=data]", '{"sessionKey": "http:planner", "wakeId": "<b>1</b>"}')
    await page.click("#send button")
    await page.wait_for_url("**/events/*")
    assert "<b>1</b>" in await page.locator("pre").inner_text()
    await page.locator("tbody .status.completed").wait_for()


async def test_a_function_is_paused_and_resumed(served: Served, page: Any) -> None:
    await page.goto(f"{served.url}/functions")
    await page.get_by_label("Pause heartbeat").click()
    await page.locator(".status.paused").wait_for()
    await page.get_by_label("Resume heartbeat").click()
    await page.get_by_label("Pause heartbeat").wait_for()
    assert await page.locator(".status.paused").count() == 0


async def test_on_a_phone_nothing_is_wider_than_the_screen(served: Served, page: Any) -> None:
    await page.set_viewport_size({"width": 400, "height": 800})
    for path in (*PATHS, f"/runs/{await newest_turn(served)}"):
        await page.goto(served.url + path)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400, path


async def test_it_is_light_or_dark_as_the_reader_wants(served: Served, page: Any) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        await page.goto(served.url)
        shades[scheme] = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shades["light"] != shades["dark"]


async def test_without_scripts_everything_but_live_updates_works(served: Served, browser: Any) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{served.url}/?session=http:planner")
    await page.select_option("[name=function]", "moab-handle-message")
    await page.click(".filters button")
    await page.locator("tbody a[href^='/runs/']").last.click()
    summary = page.locator(".step.tool summary").first
    await summary.click()
    assert await page.locator(".step.tool pre").first.is_visible()
    run_id = page.url.rpartition("/")[2]
    await page.locator(".buttons button").first.click()
    await page.wait_for_url(lambda url: url.partition("/runs/")[2] not in ("", run_id))
    await context.close()


async def test_with_a_token_one_logs_in_and_out(
    chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Any
) -> None:
    token = "a-token-for-people"
    async with serving(tmp_path / "home", api_token=token) as served:
        await page.goto(f"{served.url}/functions")
        await page.fill("[name=token]", "wrong")
        await page.keyboard.press("Enter")
        await page.locator("[role=alert]").wait_for()
        await page.fill("[name=token]", token)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/functions")
        await page.get_by_label("Pause heartbeat").click()
        await page.locator(".status.paused").wait_for()
        await page.goto(served.url)
        await page.locator("#pulse", has_text="live").wait_for()
        assert token not in str(await page.context.cookies())
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url("**/login*")
        await page.goto(served.url)
        await page.wait_for_url("**/login?next=*")
