"""The bench command prints the figures it promises, and a sentence where DBOS is not installed."""

from typing import Any

import pytest

from app.cli import bench_engine
from app.errors import MoabError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Measurements that take no time."""
    asked: list[tuple[str, ...]] = []

    def measured(*arguments: str) -> dict[str, Any]:
        asked.append(arguments)
        if arguments[0].endswith("dbos"):
            return {"dbos_step_ms": 4.0, "dbos_burst_steps_per_s": 100 * len(asked)}
        if arguments[1] == "long":
            return {"engine_share_ms_1": 0.3}
        return {"step_ms": 4.0 / len(asked), "start_ms": 1.0, "burst_steps_per_s": 100}

    monkeypatch.setattr(bench_engine, "_measured", measured)
    return asked


def test_both_sides_are_measured_in_turns_and_the_better_figure_counts(
    asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_engine.importlib.util, "find_spec", lambda name: object())
    figures = bench_engine.bench_engine()

    kinds = [arguments[0].rpartition(".")[2] for arguments in asked]
    assert kinds == ["benchmark", "benchmark_dbos", "benchmark", "benchmark_dbos", "benchmark"]
    assert (figures["step_ms"], figures["dbos_burst_steps_per_s"]) == (4.0 / 3, 400)
    assert figures["step_ratio"] == 0.33
    assert {"start_ms", "burst_steps_per_s", "engine_share_ms_1"} <= figures.keys()


def test_without_dbos_a_sentence_says_so(asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_engine.importlib.util, "find_spec", lambda name: None)
    figures = bench_engine.bench_engine()

    assert "DBOS is not installed" in figures["dbos"]
    assert "step_ms" in figures


def test_a_measurement_that_fails_is_named() -> None:
    with pytest.raises(MoabError, match=r"tests\.engine\.nothing failed"):
        bench_engine._measured("tests.engine.nothing")
