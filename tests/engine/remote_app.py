"""An app in a process of its own, for the tests: serves the SDK on a port until it is killed.

Arguments: port, the engine's address, `production` or `dev`, and a file for what its steps did.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import fastapi  # noqa: E402
import inngest  # noqa: E402
import inngest.fast_api  # noqa: E402
import uvicorn  # noqa: E402

SIGNING_KEY = "signkey-test-" + "ab" * 32


def main() -> None:
    port, engine, mode, log = int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    client = inngest.Inngest(
        app_id="remote",
        is_production=mode == "production",
        api_base_url=engine,
        event_api_base_url=engine,
        event_key="event-key",
        signing_key=SIGNING_KEY if mode == "production" else None,
    )

    @client.create_function(fn_id="work", trigger=inngest.TriggerEvent(event="remote/work"), retries=3)
    async def work(ctx: inngest.Context) -> Any:
        async def big() -> str:
            with log.open("a") as file:  # noqa: ASYNC230  one short line
                file.write(f"big {ctx.attempt}\n")
            return "x" * int(ctx.event.data.get("size", 10))  # type: ignore[arg-type]

        sizes = [len(await ctx.step.run("big", big)) for _ in range(2)]
        return {"sizes": sizes, "é": 1.5e-7}

    app = fastapi.FastAPI()
    inngest.fast_api.serve(app, client, [work])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
