"""The engine stands alone."""

import ast
from pathlib import Path

import app.engine

_FOLDER = Path(app.engine.__file__).parent


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_engine_imports_nothing_of_ours_and_nothing_of_the_sdk() -> None:
    for path in _FOLDER.rglob("*.py"):
        for name in imported(path):
            top = name.split(".")[0]
            assert top != "inngest", f"{path.name} imports {name}"
            assert top != "app" or name.startswith("app.engine"), f"{path.name} imports {name}"


def test_files_and_functions_stay_small() -> None:
    for path in _FOLDER.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 400, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno <= 60, f"{path.name}: {node.name}"
