"""The workspace: seeded once, read as it is, and never a reason for a turn to fail."""

from pathlib import Path

import pytest

from app.memory.workspace import MAX_FILE_CHARS, Workspace

SEEDED = [
    "HEARTBEAT.md",
    "MEMORY.md",
    "SOUL.md",
    "USER.md",
    "pipelines/podcast_from_audio.yaml",
    "pipelines/podcast_from_transcript.yaml",
    "pipelines/prompts/podcast_summary.md",
    "pipelines/prompts/podcast_topics.md",
    "skills/orchestrator/SKILL.md",
    "skills/writing-skills/SKILL.md",
    "watch.yaml",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


def files(workspace: Workspace) -> list[str]:
    return sorted(path.relative_to(workspace.root).as_posix() for path in workspace.root.rglob("*.*") if path.is_file())


def test_the_first_start_puts_the_files_in(workspace: Workspace) -> None:
    assert workspace.seed() is True
    assert files(workspace) == SEEDED
    assert workspace.seed() is False


def test_what_was_deleted_stays_deleted_and_what_was_edited_stays_edited(workspace: Workspace) -> None:
    workspace.seed()
    (workspace.root / "SOUL.md").unlink()
    (workspace.root / "USER.md").write_text("mine")
    workspace.seed()
    assert "SOUL.md" not in files(workspace)
    assert (workspace.root / "USER.md").read_text() == "mine"


def test_a_folder_with_files_of_its_own_keeps_them(workspace: Workspace) -> None:
    workspace.root.mkdir()
    (workspace.root / "SOUL.md").write_text("I am a pirate.")
    assert workspace.seed() is True
    assert files(workspace) == SEEDED and (workspace.root / "SOUL.md").read_text() == "I am a pirate."


def test_a_start_that_was_killed_on_the_way_is_finished_by_the_next(workspace: Workspace) -> None:
    workspace.root.mkdir()
    (workspace.root / "MEMORY.md").write_text("half")
    workspace.seed()
    assert files(workspace) == SEEDED


def test_reading_what_is_there(workspace: Workspace) -> None:
    workspace.seed()
    (workspace.root / "USER.md").write_text("  Ann, from Paris.\n\n")
    workspace.logs.mkdir()
    (workspace.logs / "2026-01-05.md").write_text("- 12:00 tea")
    (workspace.logs / "2026-01-04.md").write_text("- 12:00 coffee")
    known = workspace.read("2026-01-05")
    assert (known.user, known.today) == ("Ann, from Paris.", "- 12:00 tea")
    assert known.soul.startswith("# Who you are") and [s.name for s in known.skills] == [
        "orchestrator",
        "writing-skills",
    ]


def test_reading_nothing(workspace: Workspace) -> None:
    known = workspace.read("2026-01-05")
    assert (known.soul, known.user, known.memory, known.today, known.skills) == ("", "", "", "", ())


def test_what_changed_is_seen_at_once(workspace: Workspace) -> None:
    workspace.seed()
    workspace.read("2026-01-05")
    (workspace.root / "MEMORY.md").write_text("Likes tea.")
    assert workspace.read("2026-01-05").memory == "Likes tea."
    (workspace.root / "MEMORY.md").unlink()
    assert workspace.read("2026-01-05").memory == ""
    skill = workspace.root / "skills" / "new"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: new\n---\n")
    assert "new" in [s.name for s in workspace.read("2026-01-05").skills]
    assert workspace.read("2026-01-06").today == ""


def test_a_huge_file_says_that_it_goes_on(workspace: Workspace) -> None:
    workspace.root.mkdir()
    (workspace.root / "MEMORY.md").write_text("x" * (MAX_FILE_CHARS + 1))
    memory = workspace.read("2026-01-05").memory
    assert memory == "x" * MAX_FILE_CHARS + "\n[MEMORY.md goes on; read the file for the rest]"


def test_bytes_that_are_no_text_are_shown_as_what_they_are(workspace: Workspace) -> None:
    workspace.root.mkdir()
    (workspace.root / "SOUL.md").write_bytes(b"a\xff\xfeb")
    (workspace.root / "USER.md").mkdir()
    known = workspace.read("2026-01-05")
    assert known.soul == "a\ufffd\ufffdb" and known.user == ""


def test_a_file_that_cannot_be_read_is_no_reason_to_fail(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workspace.seed()
    real = Path.read_text

    def refuse(path: Path, *args: str, **options: str) -> str:
        if path.name == "USER.md":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    known = workspace.read("2026-01-05")
    assert known.user == "" and known.soul and "USER.md cannot be read (Permission denied)" in caplog.text


def test_its_folders(workspace: Workspace) -> None:
    assert workspace.artifacts == workspace.root / ".moab" / "artifacts"
    assert workspace.logs == workspace.root / "memory"
