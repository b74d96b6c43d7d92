"""`printf ... | moab chat`: every line is answered on stdout, by a service of its own or by the one that runs."""

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts


def test_lines_are_answered_in_order(make_service: MakeService) -> None:
    service = make_service()

    alone = service.run("chat", said="one\ntwo\n")

    assert (alone.returncode, alone.stdout) == (0, "You said: one\nYou said: two\n"), alone.stderr
    assert "Traceback" not in alone.stderr
    check_transcripts(service)

    service.start()
    beside = service.run("chat", said="three\n/quit\nnever\n")

    assert (beside.returncode, beside.stdout) == (0, "You said: three\n"), beside.stderr
    asked = service.stage.asked("three")[-1]["messages"]
    assert [m["content"] for m in asked[1:]] == ["one", "You said: one", "two", "You said: two", "three"]
    check_transcripts(service)


def test_what_is_asked_is_answered_by_the_next_line(make_service: MakeService) -> None:
    service = make_service(TOOL_POLICY="bash=ask")
    asking = {"tool_calls": [{"name": "ask_user", "arguments": {"question": "Which colour?"}}]}
    service.stage.model.script(
        {"text": "blue it is", "when": {"last_user": "paint the piped fence", "last_role": "tool"}},
        {**asking, "when": {"last_user": "paint the piped fence"}},
    )

    answered = service.run("chat", said="paint the piped fence\nblue\nthanks\n")

    assert answered.returncode == 0, answered.stderr
    question, _, how, *replies = answered.stdout.splitlines()
    assert question == "Which colour?" and how.startswith("Your next message is the answer. Open until")
    assert replies == ["blue it is", "You said: thanks"]
    check_transcripts(service)


def test_a_question_outlives_an_input_that_ends(make_service: MakeService) -> None:
    service = make_service()
    asking = {"tool_calls": [{"name": "ask_user", "arguments": {"question": "Which colour?"}}]}
    service.stage.model.script(
        {"text": "blue it is", "when": {"last_user": "paint the lone fence", "last_role": "tool"}},
        {**asking, "when": {"last_user": "paint the lone fence"}},
    )

    alone = service.run("chat", said="paint the lone fence\n")

    assert (alone.returncode, "The input ended before the answer" in alone.stderr) == (1, True), alone.stderr
    later = service.run("chat", said="blue\n")
    assert (later.returncode, later.stdout) == (0, "blue it is\n"), later.stderr
    assert service.rows("SELECT state FROM approvals") == [{"state": "answered"}]
    assert service.rows("SELECT text FROM deliveries WHERE kind = 'reply'") == [{"text": "blue it is"}]
