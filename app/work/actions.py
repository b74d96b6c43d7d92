"""The actions that only touch files: write, edit, index, cleanup. They block; done twice they leave the same."""

import json
from collections.abc import Callable, Mapping

from app.errors import BadInput, NotFound
from app.work.answers import Topics
from app.work.desk import Desk
from app.work.pipeline import Action, Step
from app.work.standing import Product
from app.work.wiki import index_of, is_empty, title_of, with_line, without_line


def write(desk: Desk, step: Step) -> Product:
    """A whole file, in the workspace or in the folder of finished pages."""
    path, text = desk.filled(step.output), desk.filled(step.content)
    if step.place == "workspace":
        return _made(desk.put(path, text))
    delivered = desk.deliver(path, text)
    return Product(delivered, f"delivered as {delivered}" if delivered else "not delivered: DELIVERY_FOLDER is not set")


def edit(desk: Desk, step: Step) -> Product:
    """A passage replaced by another, or this goal's line: in one page, or in a page for each topic."""
    with desk.alone():
        if step.old:
            return _made(_replace(desk, desk.filled(step.output), desk.filled(step.old), desk.filled(step.content)))
        if not step.each:
            path = desk.filled(step.output)
            return _made(_put_line(desk, path, desk.goal.title, desk.filled(step.content)))
        return _lines_by_topic(desk, step)


def _lines_by_topic(desk: Desk, step: Step) -> Product:
    found = Topics.model_validate(json.loads(desk.text_of(desk.products[step.each].path)))
    lines = {
        desk.filled(step.output, topic=topic.page): (
            topic.title,
            desk.filled(step.content, topic=topic.page, entry=topic.entry),
        )
        for topic in found.topics
    }
    for path in _pages_with_a_line(desk, next(iter(lines)).rpartition("/")[0] or "."):
        if path not in lines:  # an earlier try chose other topics
            _take_line(desk, path)
    for path, (title, line) in lines.items():
        _put_line(desk, path, title, line)
    return Product(next(iter(lines)), f"lines in {', '.join(lines)}")


def _put_line(desk: Desk, path: str, title: str, line: str) -> str:
    page = desk.text_of(path) if desk.exists(path) else ""
    return desk.put(path, with_line(page, title, line, desk.goal.id))


def _take_line(desk: Desk, path: str) -> None:
    page = without_line(desk.text_of(path), desk.goal.id)
    if is_empty(page):
        desk.readable(path).unlink()
    else:
        desk.put(path, page)


def _pages_with_a_line(desk: Desk, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name, text in desk.files_in(folder) if without_line(text, desk.goal.id) != text]


def _replace(desk: Desk, path: str, old: str, new: str) -> str:
    page = desk.text_of(path)
    if page.count(old) == 1:
        return desk.put(path, page.replace(old, new))
    if old not in page and new in page:  # done by an earlier try
        return path
    raise BadInput(f"{path}: the passage to replace stands there {page.count(old)} times; accepted: once")


def index(desk: Desk, step: Step) -> Product:
    """The index of all pages below a folder; it lies in that folder."""
    folder, output = desk.filled(step.input[0]), desk.filled(step.output)
    with desk.alone():
        pages = dict(desk.files_in(folder))
        pages.pop(output.removeprefix(f"{folder.rstrip('/')}/"), None)
        titles = {path: title_of(text, path) for path, text in pages.items()}
        return _made(desk.put(output, index_of(titles)), f"{len(titles)} pages")


def cleanup(desk: Desk, step: Step) -> Product:
    """Source files of watched folders into done/, once everything that has to be there first is there."""
    missing = [path for path in map(desk.filled, step.requires) if not desk.exists(path)]
    if missing:
        raise NotFound(f"nothing was cleaned up: {', '.join(missing)} is not there yet")
    paths = [desk.filled(path) for path in step.input]
    if not desk.goal.is_dropped:
        return Product(paths[0], f"left where it was: {', '.join(paths)} is in no watched folder")
    moved = [desk.move_to_done(path) for path in paths]
    return Product(moved[0], f"moved to {', '.join(moved)}")


def _made(path: str, summary: str = "") -> Product:
    return Product(path, summary or f"made {path}")


BY_NAME: Mapping[Action, Callable[[Desk, Step], Product]] = {
    Action.WRITE: write,
    Action.EDIT: edit,
    Action.INDEX: index,
    Action.CLEANUP: cleanup,
}
