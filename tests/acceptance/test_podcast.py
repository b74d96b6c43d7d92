"""The podcast for real: a file becomes a page, once, whatever dies on the way; killed with `kill -9` at every step."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.files import DRAFTS
from app.speech import bundled_model, installed
from tests.acceptance.conftest import MakeService
from tests.acceptance.nursery import ROOT, Nursery
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Stage

AUDIO = ROOT / "tests" / "fixtures" / "audio" / "jfk.ogg"
SUMMARY = "A call to ask what one can do for one's country, instead of what the country can do."
TOPICS = {"topics": [{"page": "politics", "title": "Politics", "entry": "A call to serve one's country."}]}
WORDS = "And so my fellow citizens, ask not what your country can do for you."
STEPS = ("summary", "page", "topics", "topic_pages", "index", "check", "cleanup", "deliver", "notify")
"""Of the podcast from a transcript, each a run of its own."""

PLACES = ("goal.begun", "goal.made", "goal.worked", "goal.ended", "goal.announced")
"""Where each run is killed: taken, the work done, before and after it is written down, the next steps announced."""


STORIES = ["goal.created", *(f"{place}:{number}" for number in range(1, len(STEPS) + 1) for place in PLACES)]
AT_ONCE = 4
WITHIN_S = 60.0

Story = Callable[[str], None]

hears = pytest.mark.skipif(
    not installed() or bundled_model() is None, reason="no speech model is installed: moab setup voice"
)


@pytest.fixture(autouse=True, scope="module")
def model_by_script(stage: Stage) -> None:
    """What the model answers is told by what it is asked."""
    stage.model.script(
        {"text": json.dumps(TOPICS), "when": {"system": "You file a summary"}, "times": None},
        {"text": '{"verdict": "pass"}', "when": {"system": "You judge whether"}, "times": None},
        {"text": SUMMARY, "when": {"system": "You summarise the transcript"}, "times": None},
    )


def life(service: Service) -> list[str]:
    return [goal["life"] for goal in service.get("/api/goals").json()["goals"]]


def finished(service: Service) -> None:
    until(lambda: life(service) == ["COMPLETED"], "the end of the goal", WITHIN_S)
    service.settle(WITHIN_S)


def files(folder: Path) -> list[str]:
    """Whole files; what a dead process was writing may lie there for a day."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.match(DRAFTS))
    return sorted(path.relative_to(folder).as_posix() for path in found)


def check_products(service: Service, name: str, source: Path) -> None:
    """One page, in one topic and in the index, delivered; one notification; nothing done twice.

    A source of a watched folder is in done/, one that was named elsewhere is where it was.
    """
    (goal,) = service.get("/api/goals").json()["goals"]
    assert goal["life"] == goal["truth"] == "COMPLETED" and {step["state"] for step in goal["steps"]} == {"done"}
    wiki = service.home / "workspace" / "wiki"
    (page,) = files(wiki / "raw")
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d-{name}\.md", page)
    assert files(wiki) == ["index.md", f"raw/{page}", "topics/politics.md"]
    text = (wiki / "raw" / page).read_text()
    assert text.startswith(f'---\ntitle: "{source.stem}"\ndate: {page[:10]}\n') and SUMMARY in text
    assert (wiki / "topics" / "politics.md").read_text().count("A call to serve one's country.") == 1
    assert (wiki / "index.md").read_text() == (
        f"# Index\n\n## raw\n\n- [{source.stem}](raw/{page})\n\n## topics\n\n- [Politics](topics/politics.md)\n"
    )
    is_dropped = source.is_relative_to(service.home / "workspace")
    assert source.exists() != is_dropped and files(source.parent / "done") == ([source.name] if is_dropped else [])
    assert files(service.home.parent / "phone") == [page]
    told = service.rows("SELECT text, state FROM deliveries")
    assert told == [{"text": f'"{source.stem}" is in the wiki: wiki/raw/{page}\n\n{SUMMARY}', "state": "sent"}]
    assert service.workspace(f"memory/{page[:10]}.md").count("Done by itself") == 1
    observed = service.rows("SELECT step, count(*) AS n FROM observations WHERE kind = 'STEP_COMPLETED' GROUP BY step")
    assert all(row["n"] == 1 for row in observed) and len(observed) == len(goal["steps"])
    check_transcripts(service)


def put(service: Service, name: str, content: bytes, folder: str = "transcripts") -> Path:
    path = service.home / "workspace" / "inbox" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def where_it_is(source: Path) -> Path:
    return source if source.exists() else source.parent / "done" / source.name


def settings(service: Service) -> None:
    service.settings = {"DELIVERY_FOLDER": str(service.home.parent / "phone")}


def begin(service: Service, pipeline: str, source: Path) -> None:
    """Ask for the goal; whoever asks may see the service die, and asks again."""
    body = {"pipeline": pipeline, "source": str(source), "key": "asked"}
    try:
        service.post("/api/goals", body)
    except Exception as error:
        assert "disconnected" in str(error) or "refused" in str(error) or "reset" in str(error), error


@pytest.fixture(scope="module")
def stories(nursery: Nursery, stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """All stories, told a few at a time: most of their time is waiting for disks and processes."""

    def told(failpoint: str, folder: Path) -> None:
        service = Service(nursery, stage, folder / "home")
        settings(service)
        try:
            service.start(failpoint)
            source = put(service, "Evening talk.txt", WORDS.encode())
            begin(service, "podcast_from_transcript", source)
            assert service.ended() == -9
            service.start()
            begin(
                service, "podcast_from_transcript", source if source.exists() else source.parent / "done" / source.name
            )
            finished(service)
            check_products(service, "evening-talk", source)
        except BaseException as error:
            error.add_note(service.errors.read_text() if service.errors.exists() else "There is no log.")
            raise
        finally:
            service.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The folders are made here, by one thread: pytest makes the one that holds them when it is first asked.
        begun = {failpoint: pool.submit(told, failpoint, tmp_path_factory.mktemp("podcast")) for failpoint in STORIES}
        yield lambda failpoint: begun[failpoint].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("failpoint", STORIES)
def test_one_page_and_one_notification(stories: Story, failpoint: str) -> None:
    stories(failpoint)


@hears
def test_a_recording_by_the_command_line(make_service: MakeService) -> None:
    """The golden test: a real recording through the packaged speech model, asked for and waited for at a terminal."""
    service = make_service()
    settings(service)
    service.start()
    source = service.home.parent / "Inaugural address.ogg"
    shutil.copyfile(AUDIO, source)
    run = service.run("pipeline", "run", "podcast_from_audio", str(source), "--wait")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "life       COMPLETED" in run.stdout and "wiki/raw/" in run.stdout
    service.settle(WITHIN_S)
    check_products(service, "inaugural-address", source)
    (page,) = (service.home / "workspace" / "wiki" / "raw").iterdir()
    assert "ask not what your country can do for you" in page.read_text().lower()

    listed = service.run("goals")
    assert "COMPLETED  10/10  podcast_from_audio  Inaugural address" in listed.stdout


@hears
@pytest.mark.parametrize("failpoint", ["goal.begun:1", "goal.made:1", "goal.worked:1"])
def test_killed_around_the_transcription(make_service: MakeService, failpoint: str) -> None:
    service = make_service()
    settings(service)
    service.start(failpoint)
    source = put(service, "Inaugural address.ogg", AUDIO.read_bytes(), "podcasts")
    begin(service, "podcast_from_audio", source)
    assert service.ended() == -9
    service.start()
    finished(service)
    check_products(service, "inaugural-address", source)


def test_a_file_that_is_dropped(make_service: MakeService) -> None:
    """It is found by a beat once nobody writes to it any more; copies, new names and empty files come to nothing."""
    service = make_service()
    settings(service)
    service.start()
    watched = service.home / "workspace" / "watch.yaml"
    watched.write_text(watched.read_text().replace("settle: 10s", "settle: 1s"))
    source = put(service, "Evening talk.txt", WORDS.encode())
    until(lambda: beat(service) and life(service), "the file to be found", WITHIN_S)
    finished(service)
    check_products(service, "evening-talk", source)

    put(service, "The same again.txt", WORDS.encode())
    put(service, "empty.txt", b"")
    until(lambda: beat(service) and len(life(service)) == 2, "the empty file to be found", WITHIN_S)
    service.settle(WITHIN_S)
    assert sorted(life(service)) == ["COMPLETED", "FAILED_PERMANENT"]
    texts = [row["text"] for row in service.rows("SELECT text FROM deliveries ORDER BY id")]
    assert len(texts) == 2 and "the file is empty" in texts[1]
    for _ in range(2):
        beat(service)
    service.settle(WITHIN_S)
    assert len(life(service)) == 2 and len(service.rows("SELECT id FROM deliveries")) == 2


def beat(service: Service) -> bool:
    """Let the heart beat, and wait for it."""
    return service.run("heartbeat", "--now").returncode == 0
