"""What the start of a service sees to before anything else."""

import stat
from pathlib import Path

import httpx
import pytest

from app.config import MODEL_FOR_KEY, Settings
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


@pytest.mark.parametrize(
    ("model", "variables", "says"),
    [
        ("anthropic/claude-x", {}, "anthropic/claude-x cannot be asked: ANTHROPIC_API_KEY is not set."),
        ("anthropic/claude-x", {"ANTHROPIC_API_KEY": "k"}, ""),
        ("gemini/x", {"GOOGLE_API_KEY": "k"}, ""),
        ("ollama/llama3.2", {}, ""),
        ("gpt", {}, "gpt names no provider"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_told_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    model: str,
    variables: dict[str, str],
    says: str,
) -> None:
    for key in (*MODEL_FOR_KEY, "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    await start(settings_of(tmp_path / "home", model))
    told = capfd.readouterr().err
    assert says in told and ("cannot be asked" in told or "names no provider" in told) == bool(says)
