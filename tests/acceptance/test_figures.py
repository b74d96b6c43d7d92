"""What a service costs at rest, in a real process."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
IDLE_MB = 150
READY_WITHIN_S = 30


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read the Linux way")
def test_an_idle_service_stays_under_150_mb(tmp_path: Path) -> None:
    settings = {"MOAB_HOME": str(tmp_path), "AGENT_MODEL": "openai/any", "OPENAI_API_KEY": "none"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | settings
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve", "--port", "0"], cwd=ROOT, env=environment
    ) as service:
        try:
            assert ready(tmp_path / "service.json", service)
            pages = int(Path(f"/proc/{service.pid}/statm").read_text().split()[1])
            assert pages * os.sysconf("SC_PAGE_SIZE") / 1e6 < IDLE_MB
        finally:
            service.terminate()
            assert service.wait(20) == 0


def ready(note: Path, service: "subprocess.Popen[bytes]") -> bool:
    """Whether the service became healthy in time; polls a real process, so it has to wait in real time."""
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and service.poll() is None:
        if note.exists():
            url = json.loads(note.read_text())["url"]
            return httpx.get(f"{url}/health", trust_env=False).status_code == 200
        time.sleep(0.05)
    return False
