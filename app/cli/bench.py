"""`moab bench`: measure this installation."""

import asyncio
import json

import typer

from app.cli.service import AsJson

bench = typer.Typer(help="Measure this installation.", no_args_is_help=True)


@bench.command(name="engine")
def bench_engine(as_json: AsJson = False) -> None:
    """Time the engine's steps, starts and bursts, with DBOS beside it if that is installed."""
    from app.cli.bench_engine import bench_engine as measure

    figures = measure()
    typer.echo(json.dumps(figures) if as_json else "\n".join(f"{name:<24}{value}" for name, value in figures.items()))


@bench.command()
def turn(as_json: AsJson = False) -> None:
    """Time a turn over the Telegram path with an instant model."""
    from app.cli.bench_turn import bench_turn

    figures = asyncio.run(bench_turn())
    typer.echo(json.dumps(figures) if as_json else "\n".join(f"{name:<16}{value}" for name, value in figures.items()))
