"""The image's recipe, as far as it can be tried without building it: what it copies is there, and what it reads."""

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RECIPE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
GIVEN = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
SNIPPETS = re.findall(r"python -c '(import tomllib.*?)'", RECIPE)


def test_what_it_copies_is_there_and_goes_to_the_builder() -> None:
    lines = [line.split()[1:-1] for line in RECIPE.splitlines() if line.startswith("COPY ") and "--from" not in line]
    sources = [source for line in lines for source in line]
    assert "pyproject.toml" in sources and "." in sources
    assert all((ROOT / source).exists() for source in (*sources, *GIVEN))
    assert all(source == "." or any(fnmatch(source, given) for given in GIVEN) for source in sources)


def test_the_package_and_its_readme_go_to_the_builder() -> None:
    """What the build of the wheel needs, by pyproject.toml."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*packages, project["project"]["readme"]} <= set(GIVEN)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["always", "LOCAL_MODEL", "VOICE"])
def test_what_is_to_be_installed_is_read_from_the_project(snippet: str) -> None:
    done = subprocess.run([sys.executable, "-c", snippet], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(re.match(r"[a-zA-Z0-9_.-]+(\[[a-z]+\])?[<>=~!]", line) for line in done.stdout.splitlines())
    assert done.stdout.strip()


def test_every_argument_of_the_build_is_used_and_explained() -> None:
    arguments = set(re.findall(r"^ARG (\w+)=", RECIPE, re.MULTILINE))
    assert arguments == {"LOCAL_MODEL", "VOICE"}
    for name in arguments:
        assert f'"${name}" = 1' in RECIPE and f"--build-arg {name}=1" in RECIPE
