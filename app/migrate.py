"""Brings the app database to the newest schema; each migration runs once."""

import asyncio
from pathlib import Path
from typing import Any

from app.db import Database

SCRIPTS = Path(__file__).parent / "migrations"


async def migrate(database: Database) -> None:
    """Upgrade to the newest revision; a database that is there already costs one query."""
    await database.write(_upgrade)


def _upgrade(connection: Any) -> None:
    # Alembic costs 100 ms to import; only a start needs it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def run(url: str) -> None:
    """Migrate the database at `url` and leave (for operators and tests)."""

    async def _run() -> None:
        database = Database(url)
        try:
            await migrate(database)
        finally:
            await database.close()

    asyncio.run(_run())
