"""What models cost, for reading: by session, by day in the operator's time zone, or by model."""

from collections import defaultdict
from datetime import timedelta
from typing import Any, Literal

from app.agent.harness import Harness
from app.agent.models.budget import limits_of
from app.db import moment
from app.sessions import usage

By = Literal["session", "day", "model"]
COUNTED = ("calls", "input_tokens", "output_tokens", "cost_usd", "unpriced")


async def usage_report(harness: Harness, by: By, days: int) -> dict[str, Any]:
    """Rows of the last `days` days (today is one), dearest first or by day, their sum, and the budgets that are set."""
    today = harness.daily_log.local(harness.clock.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    start = (today - timedelta(days=days - 1)).astimezone(harness.clock.now().tzinfo)
    rows = await harness.db.read(usage.report, by, start)
    if by == "day":
        rows = _by_day(harness, rows)
    else:
        rows.sort(key=lambda row: (-row["cost_usd"], -row["input_tokens"], row["name"]))
    total = {name: sum(row[name] for row in rows) for name in COUNTED}
    budgets = [{"scope": one.scope, "tokens": one.tokens, "usd": one.usd} for one in limits_of(harness.settings)]
    return {"by": by, "days": days, "rows": rows, "total": total, "budgets": budgets}


def _by_day(harness: Harness, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    days: dict[str, dict[str, Any]] = defaultdict(lambda: dict.fromkeys(COUNTED, 0))
    for row in rows:
        day = days[f"{harness.daily_log.local(moment(row['name']) or row['name']):%Y-%m-%d}"]
        for name in COUNTED:
            day[name] += row[name]
    return [{"name": name, **days[name]} for name in sorted(days, reverse=True)]
