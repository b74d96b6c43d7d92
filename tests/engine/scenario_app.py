"""The recorded functions as an app in a process of its own. Argument: the port; the server is in `INNGEST_DEV`."""

import sys
import warnings

warnings.simplefilter("ignore")

import fastapi  # noqa: E402
import inngest  # noqa: E402
import inngest.fast_api  # noqa: E402
import uvicorn  # noqa: E402

from tests.engine.sample_functions import APP_ID, build  # noqa: E402


def main() -> None:
    client = inngest.Inngest(app_id=APP_ID)
    app = fastapi.FastAPI()
    inngest.fast_api.serve(app, client, build(client))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
