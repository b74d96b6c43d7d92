"""What the start of a service sees to before anything else."""

import stat
from pathlib import Path

import httpx
import pytest

from app.config import Settings
from app.main import running


def settings_of(home: Path, model: str = "openai/fake") -> Settings:
    return Settings(_env_file=None, moab_home=home, agent_model=model)


async def start(settings: Settings) -> None:
    async with running(settings, port=0) as service, httpx.AsyncClient() as client:
        assert (await client.get(f"{service.url}/health")).status_code == 200


async def test_other_users_cannot_look_into_the_home(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    await start(settings_of(home))
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert "Other users" not in capfd.readouterr().err, "a new one was never open"

    home.chmod(0o755)
    await start(settings_of(home))
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert f"Other users of this machine could read {home}" in capfd.readouterr().err
