"""Pictures for models that see: of tools and of people, small, few, and never what a session dies of."""

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from app.agent.context.build import build_context
from app.agent.context.picture_file import LONGEST_SIDE_PIXELS, MAX_BYTES, data_urls, small_picture
from app.agent.context.pictures import MAX_SHOWN, has_pictures, wanted
from app.agent.loop import run_turn
from app.agent.models.llm import Facts, ModelFailure, Trouble
from app.agent.models.provider import may_think
from app.agent.tool import Toolbox
from app.agent.turn import bodies_of
from app.events import Attachment
from app.tables import calls as call_rows
from app.tables import turns
from tests.unit.agent.transcripts import DATA_URL, answered, call, said
from tests.unit.house import DirectSteps, House, begin, run_id, whole_turn, wishes
from tests.unit.tools import papers
from tools.read import read

SEES = Facts(sees=True)


def picture(width: int = 60, height: int = 40, colour: Any = "red", kind: str = "PNG", **how: Any) -> bytes:
    out = io.BytesIO()
    Image.new("RGBA" if kind == "PNG" else "RGB", (width, height), colour).save(out, kind, **how)
    return out.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.fixture
def reader(house: House) -> House:
    """A house whose model sees and has the tool that reads."""
    house.model.known = SEES
    return replace(house, harness=replace(house.harness, toolbox=Toolbox.of(read)))


def put(house: House, name: str, data: bytes) -> str:
    (house.harness.workspace.root / name).write_bytes(data)
    return name


def shown(house: House, request: int = -1) -> list[Image.Image]:
    """The pictures in a request to the model."""
    contents: Sequence[Any] = [m["content"] for m in house.model.requests[request][1] if isinstance(m["content"], list)]
    urls = [part["image_url"]["url"] for parts in contents for part in parts if part["type"] == "image_url"]
    return [opened(base64.b64decode(url.partition(",")[2])) for url in urls]


# What a picture becomes


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_becomes_small_and_of_a_form_that_everybody_takes(kind: str) -> None:
    small = small_picture(picture(4_000, 1_000, kind=kind))
    assert small is not None and len(small.data) <= MAX_BYTES
    found = opened(small.data)
    assert found.size == (LONGEST_SIDE_PIXELS, LONGEST_SIDE_PIXELS // 4) and found.mode == "RGB"
    assert (found.format, small.suffix) in [("PNG", ".png"), ("JPEG", ".jpg")]
    red, green, blue = found.getpixel((9, 9))  # type: ignore[misc]  # a pixel of RGB
    assert red > 200 and green < 60 and blue < 60


def test_what_is_transparent_stands_on_white_and_what_lies_on_its_side_is_set_up() -> None:
    clear = small_picture(picture(colour=(0, 0, 0, 0)))
    assert clear is not None and opened(clear.data).getpixel((0, 0)) == (255, 255, 255)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    turned = small_picture(picture(60, 40, kind="JPEG", exif=exif))
    assert turned is not None and opened(turned.data).size == (40, 60)


def test_noise_that_does_not_get_small_as_a_drawing_becomes_a_photo() -> None:
    noise = io.BytesIO()
    Image.effect_noise((1_500, 1_500), 90).save(noise, "PNG")
    small = small_picture(noise.getvalue())
    assert noise.tell() > MAX_BYTES and small is not None
    assert small.suffix == ".jpg" and len(small.data) <= MAX_BYTES


@pytest.mark.parametrize(
    "data", [b"", b"text", papers.png(9, 9)[:40], papers.jpeg(40, 30), papers.gif(4, 4), papers.pdf("no picture")]
)
def test_what_is_no_whole_picture_is_none(data: bytes) -> None:
    assert small_picture(data) is None


def test_a_bomb_is_not_unpacked() -> None:
    bomb = papers.png(9, 9).replace((9).to_bytes(4), (50_000).to_bytes(4))
    assert small_picture(bomb) is None


@given(st.sampled_from([picture(), picture(kind="JPEG"), picture(kind="GIF")]), st.integers(0, 400), st.binary())
def test_damage_raises_nothing(data: bytes, place: int, damage: bytes) -> None:
    small_picture(data[:place] + damage + data[place + len(damage) :])


def test_only_files_of_the_workspace_that_are_no_links_are_shown(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    (root / "in").mkdir(parents=True)
    (root / "in" / "a.png").write_bytes(picture())
    (tmp_path / "secret.png").write_bytes(picture())
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "folder.png").symlink_to(tmp_path)
    paths = [
        "in/a.png",
        "link.png",
        "../secret.png",
        str(tmp_path / "secret.png"),
        "folder.png/secret.png",
        "in",
        "x\0",
    ]
    assert list(data_urls(root, paths)) == ["in/a.png"]


# Where they stand in messages


def test_a_picture_of_a_tool_stands_behind_all_results_of_its_round() -> None:
    round_ = answered("", call(1, artifact="a.png"), call(2), call(3, artifact="b.jpg"))
    messages = build_context([said("look"), round_], "s", pictures={"a.png": DATA_URL, "b.jpg": DATA_URL})
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "tool", "tool", "user"]
    assert [part["type"] for part in messages[-1]["content"]] == ["text", "image_url"] * 2
    assert "a.png" in messages[-1]["content"][0]["text"]
    noted = build_context([said("look"), round_], "s", pictures={"a.png": DATA_URL}, notes=["hurry"])
    assert noted[-1]["content"][0]["text"] == "[System note: hurry]" and has_pictures(noted)
    assert "The picture b.jpg is not shown here" in noted[-2]["content"]


def test_a_model_that_does_not_see_is_told_so_once() -> None:
    both = {"attachments": [{"kind": "photo", "path": "a.png"}, {"mime": "image/png", "path": "b.png"}]}
    messages = build_context([said("look", data=both), answered("", call(1, artifact="a.png"))], "s")
    assert not has_pictures(messages)
    assert [m["content"].count("You cannot see pictures") for m in messages if m["content"]] == [0, 1, 1]


def test_only_the_newest_pictures_are_wanted() -> None:
    entries = [said("", n, data={"attachments": [{"kind": "photo", "path": f"{n}.png"}]}) for n in range(20)]
    again = answered("", call(1, artifact="3.png"))
    assert wanted([*entries, again]) == [*(f"{n}.png" for n in range(21 - MAX_SHOWN, 20)), "3.png"]


def test_what_was_refused_is_not_wanted_again() -> None:
    old, new = (said("", n, data={"attachments": [{"kind": "photo", "path": f"{n}.png"}]}) for n in (1, 2))
    assert wanted([old, answered("blind", blind=True), new]) == ["2.png"]


def test_cleared_results_and_a_full_window_leave_pictures_out() -> None:
    rounds = [answered("", call(n, artifact=f"{n}.png", result="r" * 20_000), number=n + 1) for n in range(1, 6)]
    loaded = {f"{n}.png": DATA_URL for n in range(1, 6)}
    messages = build_context([said("look"), *rounds], "s", pictures=loaded)
    assert str(messages).count(DATA_URL) == 3, "pictures go with the results that are cleared"
    assert not has_pictures(build_context([said("look"), *rounds], "s", pictures=loaded, shrink_level=2))


def test_a_picture_behind_a_call_is_no_word_of_a_person() -> None:
    """Claude refuses to begin to think between a call and its answer."""
    seen = build_context([said("look"), answered("", call(1, artifact="a.png"))], "s", pictures={"a.png": DATA_URL})
    assert not may_think("anthropic/claude-sonnet-4-6", seen)
    asked = build_context([said("look", data={"attachments": [{"kind": "photo", "path": "a.png"}]})], "s")
    assert may_think("anthropic/claude-sonnet-4-6", asked)


# At work


async def test_what_is_read_is_seen_and_stays_as_it_was(reader: House) -> None:
    put(reader, "a.png", picture(300, 200, "red"))
    reader.model.answers = [wishes(("read", {"path": "a.png"})), "It is red."]
    await whole_turn(reader)
    (seen,) = shown(reader)
    assert seen.size == (300, 200) and seen.getpixel((5, 5)) == (255, 0, 0)
    (row,) = reader.rows(call_rows.select())
    assert row.artifact.endswith(".png") and "300 x 200 pixels" in row.result

    put(reader, "a.png", picture(10, 10, "blue"))
    reader.model.answers = ["Still red."]
    await whole_turn(reader, "and now?", "test:2", run_id(2))
    assert shown(reader)[0].getpixel((5, 5)) == (255, 0, 0)


async def test_the_same_for_a_model_that_does_not_see(reader: House) -> None:
    put(reader, "a.png", picture())
    reader.model.known = Facts()
    reader.model.answers = [wishes(("read", {"path": "a.png"})), "I cannot see it."]
    await whole_turn(reader)
    assert shown(reader) == [] and "You cannot see pictures" in str(reader.model.requests[-1][1])


async def test_a_damaged_picture_is_told(reader: House) -> None:
    put(reader, "a.png", papers.png(9, 9)[:45])
    reader.model.answers = [wishes(("read", {"path": "a.png"})), "Broken."]
    await whole_turn(reader)
    assert shown(reader) == [] and "damaged and cannot be shown" in str(reader.model.requests[-1][1])


async def test_what_a_person_attached_is_seen(reader: House) -> None:
    put(reader, "photo.jpg", picture(5_000, 50, "red", "JPEG"))
    photo = Attachment(kind="photo", mime="image/jpeg", path="photo.jpg", size=1)
    flow = await begin(reader, "what is it?", attachments=(photo,))
    await run_turn(DirectSteps(reader), bodies_of(reader.harness, flow), flow)
    (seen,) = shown(reader)
    assert seen.size[0] == LONGEST_SIDE_PIXELS


# TRAPS, Context: "One oversized image poisons the session for ever -> shrunk on entry; on a 400 the item is dropped
# and the turn goes on."
async def test_a_picture_that_the_provider_refuses_is_dropped_and_the_turn_goes_on(reader: House) -> None:
    put(reader, "a.png", picture())
    refused = ModelFailure(Trouble.INVALID, "image not accepted")
    reader.model.answers = [wishes(("read", {"path": "a.png"})), refused, "I go on without it."]
    ending = await whole_turn(reader)
    assert ending.kind == "answered" and len(reader.model.requests) == 3
    assert [len(shown(reader, n)) for n in range(3)] == [0, 1, 0]

    reader.model.answers = ["Hello again."]
    await whole_turn(reader, "and now?", "test:2", run_id(2))
    assert shown(reader) == [], "and it is not tried with every turn"
    put(reader, "b.png", picture())
    reader.model.answers = [wishes(("read", {"path": "b.png"})), "That one I see."]
    await whole_turn(reader, "another", "test:3", run_id(3))
    assert len(shown(reader)) == 1


async def test_a_refusal_that_has_nothing_to_do_with_pictures_ends_the_turn(reader: House) -> None:
    put(reader, "a.png", picture())
    refused = ModelFailure(Trouble.INVALID, "no")
    reader.model.answers = [wishes(("read", {"path": "a.png"})), refused]
    ending = await whole_turn(reader)
    assert ending.kind == "failed" and len(reader.model.requests) == 3
    assert {row.state for row in reader.rows(turns.select())} == {"failed"}
