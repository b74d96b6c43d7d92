"""The command line: `moab` and what its verbs start."""

from app.cli.moab import app, main

__all__ = ["app", "main"]
