"""`printf ... | moab chat`: every line is answered on stdout, by a service of its own or by the one that runs."""

import subprocess
import sys

from tests.acceptance.conftest import MakeService
from tests.acceptance.nursery import ROOT
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service


def chat(service: Service, lines: str) -> "subprocess.CompletedProcess[str]":
    command = service.command([])
    return subprocess.run(
        [sys.executable, "-m", "app.cli", "chat"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=command.folder,
        env=dict(command.environment) | {"PYTHONPATH": str(ROOT)},
    )


def test_lines_are_answered_in_order(make_service: MakeService) -> None:
    service = make_service()

    alone = chat(service, "one\ntwo\n")

    assert (alone.returncode, alone.stdout) == (0, "You said: one\nYou said: two\n"), alone.stderr
    assert "Traceback" not in alone.stderr
    check_transcripts(service)

    service.start()
    beside = chat(service, "three\n/quit\nnever\n")

    assert (beside.returncode, beside.stdout) == (0, "You said: three\n"), beside.stderr
    asked = service.stage.asked("three")[-1]["messages"]
    assert [m["content"] for m in asked[1:]] == ["one", "You said: one", "two", "You said: two", "three"]
    check_transcripts(service)
