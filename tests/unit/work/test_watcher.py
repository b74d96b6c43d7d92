"""Watched folders: what is new, what waits, what does nothing, and how long a look takes."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput
from app.work import watcher
from app.work.life import Priority
from app.work.watcher import Entry, digest_of, look_into, scan, take, unseen
from app.work.watching import Watch, _real, parse

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9
S = 10**9


def entry(name: str = "a.mp3", size: int = 5, mtime_s: float = -60, ctime_s: float | None = None) -> Entry:
    """A file; its times are in seconds from NOW."""
    ctime_s = mtime_s if ctime_s is None else ctime_s
    return Entry(f"/in/{name}", size, NOW_NS + int(mtime_s * S), NOW_NS + int(ctime_s * S))


def watch(path: Path, *patterns: str) -> Watch:
    return Watch(path, patterns or ("*.mp3",), "demo", Priority.FILE)


def test_new_and_changed_files_are_unseen() -> None:
    old, new, changed = entry("old.mp3"), entry("new.mp3", mtime_s=-90), entry("changed.mp3")
    seen = {old.path: old.stamp, changed.path: (4, changed.mtime_ns), "/in/gone.mp3": (1, 1)}
    assert unseen([old, new, changed], seen, NOW, 10) == [new, changed], "the oldest first"


@pytest.mark.parametrize(
    ("mtime_s", "ctime_s", "is_new"),
    [
        (-11, -11, True),
        (-9, -9, False),  # still written to
        (-86_400, -2, False),  # a copy that has just set its modification time back
        (-2, -86_400, False),
        (0, 0, False),
        (86_400, -60, True),  # a device whose clock is wrong must not wait for ever
        (86_400, -2, False),
        (86_400, 86_400, True),
        (20, -60, False),  # within what clocks differ by
    ],
)
def test_a_file_that_is_still_being_written_waits(mtime_s: float, ctime_s: float, is_new: bool) -> None:
    assert bool(unseen([entry(mtime_s=mtime_s, ctime_s=ctime_s)], {}, NOW, 10)) is is_new


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.integers(-100, -1)), max_size=12))
def test_after_a_look_nothing_is_new_and_nothing_is_lost(files: list[tuple[str, int, int]]) -> None:
    entries = list({name: entry(name, size, at) for name, size, at in files}.values())
    first = unseen(entries, {}, NOW, 10)
    seen = {one.path: one.stamp for one in first}
    assert unseen(entries, seen, NOW, 10) == []
    later = unseen(entries, seen, NOW + timedelta(seconds=10), 10)
    assert sorted(one.path for one in first + later) == sorted(one.path for one in entries)


def test_a_folder_is_read_by_its_patterns(tmp_path: Path) -> None:
    for name in ("b.mp3", "a.MP3", "c.txt", ".hidden.mp3", "d.mp3.part"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder.mp3").mkdir()
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "old.mp3").write_text("old")
    (tmp_path / "link.mp3").symlink_to(tmp_path / "c.txt")
    os.mkfifo(tmp_path / "pipe.mp3")
    assert [Path(one.path).name for one in scan(watch(tmp_path))] == ["a.MP3", "b.mp3"]
    assert [Path(one.path).name for one in scan(watch(tmp_path, "*.txt", "b*"))] == ["b.mp3", "c.txt"]
    assert scan(watch(tmp_path / "nowhere")) == []
    assert scan(watch(tmp_path / "c.txt")) == []


def test_renamed_and_copied_files_have_the_digest_they_had(tmp_path: Path) -> None:
    (tmp_path / "a.mp3").write_bytes(b"sound")
    first = take(scan(watch(tmp_path)))
    (tmp_path / "a.mp3").rename(tmp_path / "b.mp3")
    (tmp_path / "c.mp3").write_bytes(b"sound")
    (tmp_path / "d.mp3").write_bytes(b"other")
    found = {Path(one.entry.path).name: one.digest for one in take(scan(watch(tmp_path)))}
    assert found["b.mp3"] == found["c.mp3"] == first[0].digest == digest_of(tmp_path / "b.mp3")
    assert found["d.mp3"] != found["b.mp3"]


def test_what_is_empty_or_unreadable_says_so_and_has_an_identity_of_its_own(tmp_path: Path) -> None:
    for name in ("a.mp3", "b.mp3"):
        (tmp_path / name).touch()
    a, b = take(scan(watch(tmp_path)))
    assert a.fault == b.fault == "the file is empty"
    assert a.digest != b.digest, "the second empty file is told of too"
    gone = look_into(Entry(str(tmp_path / "gone.mp3"), 3, 1, 1))
    assert gone.fault == "the file cannot be read (No such file or directory)"
    assert gone.digest == look_into(Entry(str(tmp_path / "gone.mp3"), 3, 1, 1)).digest
    assert gone.digest != look_into(Entry(str(tmp_path / "gone.mp3"), 3, 2, 1)).digest, "tried again once it changed"


def test_one_look_takes_on_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.mp3").write_bytes(b"x" * 10)
    entries = scan(watch(tmp_path))
    monkeypatch.setattr(watcher, "MAX_NEW", 3)
    assert len(take(entries)) == 3
    monkeypatch.setattr(watcher, "MAX_BYTES", 15)
    assert len(take(entries)) == 1
    monkeypatch.setattr(watcher, "MAX_BYTES", 5)
    assert len(take(entries)) == 1, "a file larger than a look's measure is taken alone"


def test_ten_thousand_files_take_less_than_a_second(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"{number:05d}.mp3").touch()
    begun = time.perf_counter()
    entries = scan(watch(tmp_path))
    fresh = unseen(entries, {one.path: one.stamp for one in entries[1:]}, datetime.now(UTC) + timedelta(hours=1), 10)
    took_s = time.perf_counter() - begun
    assert len(entries) == 10_000 and fresh == entries[:1]
    assert took_s < 1.0


YAML = """
settle: 30s
folders:
  - path: inbox/podcasts
    pattern: ["*.mp3", "*.wav"]
    pipeline: demo
  - path: {device}
    pattern: "*.txt"
    pipeline: demo
    priority: batch
"""


def test_watch_yaml_is_read(tmp_path: Path) -> None:
    workspace, device = tmp_path / "w", tmp_path / "device"
    watching = parse(YAML.format(device=device), workspace, [device], ["demo"])
    assert watching.settle_s == 30
    assert watching.folders == (
        Watch(workspace / "inbox" / "podcasts", ("*.mp3", "*.wav"), "demo", Priority.FILE),
        Watch(device, ("*.txt",), "demo", Priority.BATCH),
    )
    assert parse("", workspace, [], []).folders == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("folders: 1", "watch.yaml: accepted is folders"),
        ("colour: red", "watch.yaml: accepted is folders"),
        ("[1", "watch.yaml: this is not YAML"),
        ("[" * 60_000, "watch.yaml: nested too deep"),
        ("folders: [&a {path: x}, *a]", "watch.yaml: aliases"),
        ("settle: 1s\nsettle: 2s", "watch.yaml: this is not YAML: the key settle stands twice"),
        ("settle: soon", "watch.yaml: settle: 'soon' is no length of time"),
        ("folders: [{pattern: x, pipeline: demo}]", "watch.yaml: folder 1: path: is missing"),
        ("folders: [{path: a, pipeline: demo}]", "folder 1: pattern: accepted"),
        ("folders: [{path: a, pattern: x/y, pipeline: demo}]", "folder 1: pattern: accepted"),
        ("folders: [{path: a, pattern: x, pipeline: none}]", "folder 1: pipeline: there is no 'none'; accepted: demo"),
        ("folders: [{path: a, pattern: x, pipeline: demo, priority: person}]", "priority: 'person'; accepted: file"),
        ("folders: [{path: /etc, pattern: x, pipeline: demo}]", "/etc is outside the workspace; DEVICE_FOLDERS"),
        ("folders: [{path: ../x, pattern: x, pipeline: demo}]", "../x is outside the workspace"),
        ("folders: [{path: out, pattern: x, pipeline: demo}]", "out is outside the workspace"),
        ("folders: [{path: a, pattern: x, pipeline: demo, every: 1}]", "folder 1: accepted is a mapping of path"),
    ],
)
def test_faults_of_watch_yaml_are_named(tmp_path: Path, text: str, says: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "out").symlink_to(tmp_path)
    with pytest.raises(BadInput) as refused:
        parse(text, workspace, [], ["demo"])
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "named",
    ["inbox", "inbox/", "./inbox", "inbox/..", "inbox/../in", "in", "in/deep", "out", "out/x", "none/at/all", "."],
)
def test_a_folder_is_where_all_links_lead(tmp_path: Path, named: str) -> None:
    for folder in ("ws/inbox/deep", "away"):
        (tmp_path / folder).mkdir(parents=True)
    workspace = tmp_path / "ws"
    (workspace / "in").symlink_to(workspace / "inbox")
    (workspace / "out").symlink_to(tmp_path / "away")
    root = os.path.realpath(workspace)
    for path in (named, str(workspace / named)):
        assert _real({"path": path}, root) == os.path.realpath(workspace / named)
