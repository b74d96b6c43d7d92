"""The recorded functions as an app in a process of its own. Argument: the port; the server is in `INNGEST_DEV`.

`GET /calls` tells what the SDK was asked and answered.
"""

import dataclasses
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

import fastapi  # noqa: E402
import inngest  # noqa: E402
import inngest.fast_api  # noqa: E402
import uvicorn  # noqa: E402

from tests.engine.recorder import Recorder  # noqa: E402
from tests.engine.sample_functions import APP_ID, build  # noqa: E402

#: As in the recording: how long a step holds its slot.
SLOW_S = 0.5


def main() -> None:
    client = inngest.Inngest(app_id=APP_ID)
    app = fastapi.FastAPI()
    inngest.fast_api.serve(app, client, build(client, slow_s=SLOW_S))
    recorder = Recorder(app)

    @app.get("/calls")
    async def calls() -> list[dict[str, Any]]:
        return [dataclasses.asdict(call) for call in recorder.calls]

    uvicorn.run(recorder, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off")


if __name__ == "__main__":
    main()
