"""Clean-up and pages at the desk: a source moves only once its page is there; made twice, pages are the same."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.errors import NotFound
from app.work.actions import cleanup, index
from app.work.desk import Desk
from app.work.goals import Goal
from app.work.pipeline import Action, Pipeline, Step
from app.work.standing import Product
from app.work.watcher import digest_of
from app.work.wiki import index_of, with_line, without_line

CLEANUP = Step(id="tidy", action=Action.CLEANUP, input=("{source}",), requires=("{page}",))
INDEX = Step(id="index", action=Action.INDEX, input=("wiki",), output="wiki/index.md")
PIPELINE = Pipeline(name="demo", steps=(CLEANUP,))

MakeDesk = Callable[[Path], Desk]


@pytest.fixture
def desk_for(tmp_path: Path) -> MakeDesk:
    """A desk whose goal has this source; its page is named and not there yet."""

    def make(source: Path) -> Desk:
        facts = {"goal": "g1", "title": "Talk", "slug": "talk", "date": "2026-01-05", "source": str(source)}
        goal = Goal("g1", PIPELINE, facts, digest_of(source), 0, None, datetime(2026, 1, 5, tzinfo=UTC))
        (tmp_path / "w").mkdir(exist_ok=True)
        return Desk(tmp_path / "w", None, frozenset(), goal, {"page": Product("page.md")})

    return make


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "talk.mp3"
    path.parent.mkdir()
    path.write_bytes(b"sound")
    return path


def below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_nothing_moves_before_the_page_is_there(desk_for: MakeDesk, source: Path) -> None:
    desk = desk_for(source)
    with pytest.raises(NotFound, match=r"nothing was cleaned up: page\.md is not there yet"):
        cleanup(desk, CLEANUP)
    desk.put("page.md", "")
    with pytest.raises(NotFound, match="is not there yet"):  # an empty page is none
        cleanup(desk, CLEANUP)
    assert below(source.parent) == ["talk.mp3"]

    desk.put("page.md", "words")
    first = cleanup(desk, CLEANUP)
    assert below(source.parent) == ["done/talk.mp3"]
    assert cleanup(desk, CLEANUP) == first, "done twice it is the same"


def test_a_file_that_took_the_place_of_the_source_stays(desk_for: MakeDesk, source: Path) -> None:
    desk = desk_for(source)
    desk.put("page.md", "words")
    source.write_bytes(b"another recording of the same name")
    cleanup(desk, CLEANUP)
    assert below(source.parent) == ["talk.mp3"]


def test_another_file_of_its_name_in_done_is_kept(desk_for: MakeDesk, source: Path) -> None:
    desk = desk_for(source)
    desk.put("page.md", "words")
    (source.parent / "done").mkdir()
    (source.parent / "done" / "talk.mp3").write_bytes(b"an earlier one")
    assert cleanup(desk, CLEANUP) == cleanup(desk, CLEANUP)
    assert below(source.parent) == ["done/talk-g1.mp3", "done/talk.mp3"]


def test_a_source_that_is_nowhere_is_said(desk_for: MakeDesk, source: Path) -> None:
    desk = desk_for(source)
    desk.put("page.md", "words")
    source.unlink()
    with pytest.raises(NotFound, match="neither there nor in done/"):
        cleanup(desk, CLEANUP)


def test_the_index_is_the_same_for_the_same_pages(desk_for: MakeDesk, source: Path) -> None:
    desk = desk_for(source)
    for name, text in (
        ("raw/2026-01-04-b.md", '---\ntitle: "B [x]"\n---\n'),
        ("raw/2026-01-05-a.md", "# A\n"),
        ("z.md", "no title"),
    ):
        desk.put(f"wiki/{name}", text)
    index(desk, INDEX)
    first = desk.text_of("wiki/index.md")
    index(desk, INDEX)
    assert (
        desk.text_of("wiki/index.md")
        == first
        == (
            "# Index\n\n## Pages\n\n- [z.md](z.md)\n\n"
            "## raw\n\n- [A](raw/2026-01-05-a.md)\n- [B x](raw/2026-01-04-b.md)\n"
        )
    )
    assert index_of({}) == "# Index\n"


def test_a_goals_line_is_put_once_changed_and_taken_back() -> None:
    page = with_line("", "Physics", "- one", "g1")
    other = with_line(page, "Physics", "- two", "g2")
    assert with_line(other, "Physics", "- one", "g1") == other
    changed = with_line(other, "Physics", "- one\nbetter", "g1")
    assert changed == "# Physics\n\n- one better <!-- g1 -->\n- two <!-- g2 -->\n"
    assert without_line(changed, "g1") == "# Physics\n\n- two <!-- g2 -->\n"
