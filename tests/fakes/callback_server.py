"""A fake program at the callback address: checks the signature, drops what it has already, fails as scripted.

The kinds of script entries: `status` with `status` and `retry_after`, `drop_before`, and `drop_after` (it was taken).
"""

import hashlib
import hmac
import json
from typing import Any

from tests.fakes.fake_server import FakeServer, Reply, Request

SECRET = "generic-secret-of-the-tests"


class CallbackServer(FakeServer):
    """Fake program at the callback address."""

    def received(self) -> list[dict[str, Any]]:
        """What was taken, in order, each id once."""
        taken: dict[str, dict[str, Any]] = {}
        for call in self.calls("callback"):
            if call.outcome in ("ok", "drop_after"):
                taken.setdefault(call.params["id"], call.params)
        return list(taken.values())

    def control(self, path: str, params: dict[str, Any]) -> Any:
        return {"received": self.received()} if path == "/__received" else None

    def answer(self, request: Request) -> Reply:
        stated = request.headers.get("x-moab-timestamp", "")
        signed = hmac.new(SECRET.encode(), f"v1:{stated}:".encode() + request.body, hashlib.sha256).hexdigest()
        posted = json.loads(request.body)
        if request.headers.get("x-moab-signature") != f"v1={signed}":
            self.record("callback", posted, "not signed")
            return Reply(401, {"error": "not signed"})
        entry = self.take({}) or {"kind": "ok"}
        self.record("callback", posted, entry["kind"])
        if entry["kind"] == "status":
            headers = {"retry-after": str(entry["retry_after"])} if "retry_after" in entry else {}
            return Reply(entry["status"], {}, headers=headers)
        return Reply(204, b"", drop=entry["kind"] != "ok")


if __name__ == "__main__":
    from tests.fakes.process import serve

    serve(CallbackServer)
