"""The fence: what is inside, what is outside, what is not opened."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput, MoabError, NotFound, OutsideWorkspace
from tools.fence import folder, inside, open_regular, shown
from tools.textfile import save


# TRAPS, Tools: "`~` and symlinks escape the workspace -> resolve, then compare".
@pytest.mark.parametrize(
    "path", ["..", "../other", "a/../../other", "~", "~/x", "~root/x", "/etc/passwd", "/", "link/passwd", "dangling"]
)
def test_a_path_that_leads_out_is_refused_by_name(workspace: Path, path: str) -> None:
    (workspace / "link").symlink_to("/etc")
    (workspace / "dangling").symlink_to(workspace.parent / "not yet there")
    with pytest.raises(OutsideWorkspace, match="leads outside the workspace; accepted: a path inside it") as raised:
        inside(workspace, path)
    assert str(raised.value).startswith(path)


def test_a_folder_whose_name_begins_like_the_workspace_is_outside(workspace: Path) -> None:
    (workspace.parent / "workspace-2").mkdir()
    with pytest.raises(OutsideWorkspace):
        inside(workspace, "../workspace-2/x")


def test_absolute_paths_and_links_inside_are_accepted(workspace: Path) -> None:
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    assert inside(workspace, str(workspace / "real" / "a.txt")) == workspace.resolve() / "real" / "a.txt"
    assert shown(workspace, inside(workspace, "link/../link/a.txt")) == "real/a.txt"
    assert shown(workspace, inside(workspace, ".")) == "."


def test_the_home_folder_is_resolved_before_it_is_compared(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    assert inside(workspace, "~/workspace/a.txt") == workspace.resolve() / "a.txt"


def test_a_workspace_behind_a_link_is_compared_by_its_real_place(workspace: Path) -> None:
    alias = workspace.parent / "alias"
    alias.symlink_to(workspace)
    assert shown(alias, inside(alias, "a.txt")) == "a.txt"
    assert inside(alias, str(workspace / "a.txt")) == inside(alias, str(alias / "a.txt"))


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(BadInput, match="is not a path; accepted"):
        inside(workspace, path)


def test_a_loop_of_links_is_not_opened(workspace: Path) -> None:
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    with pytest.raises(MoabError):
        open_regular(inside(workspace, "a/x"), "a/x")


def test_a_fifo_and_a_device_do_not_hold_the_reader(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    with pytest.raises(BadInput, match="special file"):
        open_regular(workspace / "fifo", "fifo")
    with pytest.raises(BadInput, match="special file"):
        open_regular(Path("/dev/zero"), "zero")


def test_a_link_put_in_place_after_the_check_is_not_followed(workspace: Path) -> None:
    real = inside(workspace, "a.txt")
    real.symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match=r"loop of links|special file"):
        open_regular(real, "a.txt")


def test_a_missing_file_names_its_neighbours(workspace: Path) -> None:
    (workspace / "README.md").touch()
    with pytest.raises(NotFound, match=r"there is no such file or folder. Close to it: README\.md"):
        open_regular(inside(workspace, "READM.md"), "READM.md")


def test_a_folder_is_asked_for_where_one_is_needed(workspace: Path) -> None:
    (workspace / "a.txt").touch()
    with pytest.raises(BadInput, match="is a file; accepted: a folder"):
        folder(workspace, "a.txt")
    with pytest.raises(BadInput, match="is a folder; accepted: a file"):
        open_regular(workspace, ".")


@given(st.lists(st.sampled_from(["..", ".", "a", "link", "~", "/", "b.txt", "out"]), max_size=8))
def test_no_path_whatever_comes_out_outside(parts: list[str]) -> None:
    root = Path(os.path.realpath(ROOT))
    try:
        real = inside(root, "/".join(parts))
    except (OutsideWorkspace, BadInput):
        return
    assert real == root or root in real.parents
    assert Path(os.path.realpath(real)) == real


ROOT = ""


@pytest.fixture(autouse=True, scope="module")
def root_with_links(tmp_path_factory: pytest.TempPathFactory) -> None:
    global ROOT
    root = tmp_path_factory.mktemp("fence")
    (root / "a").mkdir()
    (root / "a" / "link").symlink_to("..")
    (root / "link").symlink_to("a")
    (root / "out").symlink_to("/")
    (root / "a" / "out").symlink_to("../..")
    ROOT = str(root)


# TRAPS, Tools: "symlinks escape the workspace": also one that takes a folder's place after the path was resolved.
@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/file.txt"])
def test_a_link_put_in_place_after_the_look_is_not_followed(workspace: Path, swapped: str) -> None:
    outside = workspace.parent / "outside"
    (outside / "b").mkdir(parents=True)
    for place in (outside / "file.txt", outside / "b" / "file.txt"):
        place.write_text("secret")
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "file.txt").write_text("mine")
    real = inside(workspace, "a/b/file.txt")
    (workspace / swapped).rename(workspace / "moved")
    (workspace / swapped).symlink_to(outside / "file.txt" if swapped.endswith("txt") else outside)
    with pytest.raises(MoabError):
        open_regular(real, "a/b/file.txt").close()
    with pytest.raises(MoabError):
        save(real, "a/b/file.txt", "overwritten")
    assert [place.read_text() for place in sorted(outside.rglob("*.txt"))] == ["secret", "secret"]
    assert sorted(path.name for path in outside.rglob("*")) == ["b", "file.txt", "file.txt"]


def test_a_folder_that_may_only_be_passed_through_is_passed_through(workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "file.txt").write_text("mine")
    (workspace / "a").chmod(0o111)
    try:
        with open_regular(inside(workspace, "a/b/file.txt"), "file.txt") as file:
            assert file.read() == b"mine"
    finally:
        (workspace / "a").chmod(0o755)


def test_a_race_of_links_lets_nothing_out(workspace: Path) -> None:
    """Another process swaps a folder for a link and back without a pause; nothing of outside is ever read."""
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text("secret")
    (workspace / "real").mkdir()
    (workspace / "real" / "file.txt").write_text("mine")
    (workspace / "door").symlink_to("real")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (outside, workspace / "real"):
                (workspace / "next").symlink_to(target)
                (workspace / "next").rename(workspace / "door")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    for _ in range(500):
        try:
            with open_regular(inside(workspace, "door/file.txt"), "door/file.txt") as file:
                seen.add(file.read())
        except MoabError:
            seen.add(b"refused")
    over.set()
    swapping.join()
    assert b"secret" not in seen
