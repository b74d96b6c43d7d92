"""Skills: what the head of a SKILL.md says, in every form it is found in."""

from pathlib import Path

import pytest

from app.memory.skills import HEAD_BYTES, MAX_SKILLS, Skill, read_skills, skill_files


def skills(folder: Path) -> tuple[Skill, ...]:
    return read_skills(skill_files(folder))


def put(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "skills"


@pytest.mark.parametrize(
    ("text", "name", "description"),
    [
        ("---\nname: report\ndescription: How it is made.\n---\n\n# Steps", "report", "How it is made."),
        ("---\nname: \"report\"\ndescription: 'When: asked for it.'\n---\n", "report", "When: asked for it."),
        ("---\nname: report\ndescription: >\n  When it is\n  asked for.\n---\n", "report", "When it is asked for."),
        ("---\nname: report\ndescription: |-\n  One.\n\n  Two.\nlicense: none\n---\n", "report", "One. Two."),
        ("---\r\nname: report\r\ndescription: On Windows.\r\n---\r\n", "report", "On Windows."),
        ("\ufeff---\nname: report\ndescription: With a mark.\n---\n", "report", "With a mark."),
        ("---\nname: report\n---", "report", ""),
        ("---\nname: report\ndescription: a: b: c\n---\n", "report", "a: b: c"),
        ("---\nname:\ndescription: no name\n---\n", "folder-name", "no name"),
        ("# No head at all\nname: not this", "folder-name", ""),
        ("---\nname: never closed\ndescription: x\n", "folder-name", ""),
        ("text\n---\nname: too late\n---\n", "folder-name", ""),
        ("", "folder-name", ""),
        (b"---\nname: r\xffport\n---\n", "r\ufffdport", ""),
        ("---\n- a list\nand words\n---\n", "folder-name", ""),
        ("---\n  : odd\n---\n", "folder-name", ""),
    ],
)
def test_the_head(folder: Path, text: str | bytes, name: str, description: str) -> None:
    put(folder, "folder-name", text)
    assert skills(folder) == (Skill(name, description, "skills/folder-name/SKILL.md"),)


def test_they_come_by_the_name_of_their_folder_and_not_without_end(folder: Path) -> None:
    for number in range(MAX_SKILLS + 3):
        put(folder, f"s{number:03}", "")
    found = skills(folder)
    assert len(found) == MAX_SKILLS and [s.name for s in found] == [f"s{n:03}" for n in range(MAX_SKILLS)]


def test_what_is_no_skill_is_left_out(folder: Path) -> None:
    put(folder, "good", "")
    (folder / "empty").mkdir()
    (folder / "loose.md").write_text("x")
    (folder / "odd" / "SKILL.md").mkdir(parents=True)
    (folder / "broken").mkdir()
    (folder / "broken" / "SKILL.md").symlink_to(folder / "nowhere")
    assert [s.name for s in skills(folder)] == ["good"]
    assert skills(folder / "nowhere") == ()


def test_one_that_vanished_or_cannot_be_read_takes_no_other_with_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, "good", "")
    gone = put(folder, "gone", "")
    files = skill_files(folder)
    gone.unlink()
    assert [s.name for s in read_skills(files)] == ["good"] and "cannot be read" in caplog.text


def test_a_long_description_is_cut_and_a_huge_file_is_not_read_whole(folder: Path) -> None:
    put(folder, "long", f"---\nname: long\ndescription: {'x' * 900}\n---\n" + "y" * 3 * HEAD_BYTES)
    put(folder, "wide", "---\n" + "z: z\n" * HEAD_BYTES + "name: too far down\n---\n")
    long, wide = skills(folder)
    assert len(long.description) == 500 and wide.name == "wide"
