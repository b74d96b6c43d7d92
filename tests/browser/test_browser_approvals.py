"""Requests in a real browser: shown as they come in, decided with a button, and gone; also by keyboard."""

from typing import Any

import pytest

from tests.browser.served import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIDY = "http:tidier"


async def waiting(served: Served) -> list[dict[str, Any]]:
    return list((await served.http.get("/api/approvals")).json()["approvals"])


async def turn_of(served: Served, session: str) -> str:
    """The id of the newest turn of a session, once it has ended."""
    runs = await served.ended(1, function="moab-handle-message", session=session)
    return str(runs[0]["id"])


async def test_a_command_is_shown_as_it_is_and_approved(served: Served, page: Any) -> None:
    await page.goto(f"{served.url}/approvals")
    assert await page.locator(".empty").inner_text() == "Nothing waits for a person."
    await page.locator("#pulse", has_text="live").wait_for()
    await page.evaluate("window.loadedOnce = true")
    await served.say("tidy up", TIDY, wait=0)
    shown = page.locator("article pre")
    await shown.wait_for()
    assert "echo '<b>tidy</b>' > tidy.txt" in await shown.inner_text()
    assert await page.evaluate("window.loadedOnce"), "it came in without a load"
    (row,) = await waiting(served)
    await page.get_by_label(f"Approve {row['id']}").focus()
    await page.keyboard.press("Enter")
    await page.locator(".empty").wait_for()
    run = await served.http.get(f"/api/runs/{await turn_of(served, TIDY)}")
    assert "tool-bash" in run.text
    assert (served.service.harness.workspace.root / "tidy.txt").read_text() == "<b>tidy</b>\n"


async def test_a_denial_has_a_reason_that_outlives_a_refresh(served: Served, page: Any) -> None:
    served.model.script(
        {
            "when": {"last_user": "wipe"},
            "times": 1,
            "tool_calls": [{"name": "bash", "arguments": {"command": "echo wiped > wiped.txt"}}],
        },
        {"when": {"last_user": "wipe"}, "times": None, "text": "Then not."},
    )
    await served.say("wipe it", "http:wiper", wait=0)
    await page.goto(f"{served.url}/approvals")
    await page.locator("[name=words]").fill("not on a Friday")
    await served.say("hello", "http:other")  # something changes, and the page is made anew
    await page.evaluate("refresh()")
    assert await page.locator("[name=words]").input_value() == "not on a Friday"
    await page.get_by_text("Deny", exact=True).click()
    await page.locator(".empty").wait_for()
    await turn_of(served, "http:wiper")
    asked = [str(call.params["messages"]) for call in served.model.calls("chat")]
    assert any("not on a Friday" in one for one in asked)
    assert not (served.service.harness.workspace.root / "wiped.txt").exists()


async def test_a_question_is_answered_with_a_choice(served: Served, page: Any) -> None:
    await served.say("which colour", "http:painter", wait=0)
    await page.goto(f"{served.url}/approvals")
    assert await page.locator("article .words").inner_text() == "Which one?"
    await page.get_by_role("button", name="blue").click()
    await page.locator(".empty").wait_for()
    await turn_of(served, "http:painter")
    results = [m["content"] for m in served.model.requests()[-1]["messages"] if m["role"] == "tool"]
    assert "blue" in results[-1]


async def test_what_somebody_else_decided_is_said(served: Served, page: Any) -> None:
    served.model.script(
        {
            "when": {"last_user": "twice"},
            "times": 1,
            "tool_calls": [{"name": "bash", "arguments": {"command": "true"}}],
        },
        {"when": {"last_user": "twice"}, "times": None, "text": "Done."},
    )
    await served.say("twice", "http:twice", wait=0)
    await page.goto(f"{served.url}/approvals")
    await page.locator("article").wait_for()
    (row,) = await waiting(served)
    await page.evaluate("rest(); soon = replace = () => undefined;")  # as if it had not heard yet
    await served.http.post(f"/api/approvals/{row['id']}", json={"decision": "deny"})
    await page.get_by_label(f"Approve {row['id']}").click()
    assert "was denied by the operator" in await page.locator("[role=alert]").inner_text()
    await turn_of(served, "http:twice")
