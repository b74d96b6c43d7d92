"""The two requests an app makes of an Inngest server, registration and events, answered and recorded."""

from tests.fakes.fake_server import FakeServer, Reply, Request


class InngestServer(FakeServer):
    """Takes `/fn/register` and `/e/<key>`; the test plays the other side and calls the app itself."""

    def answer(self, request: Request) -> Reply:
        params = request.params() if request.body else {}
        if request.path == "/fn/register":
            self.record("register", params, "ok", headers=request.headers)
            return Reply(body={"ok": True, "modified": True})
        if request.path.startswith("/e/"):
            events = params.get("body", params)
            events = events if isinstance(events, list) else [events]
            for event in events:
                self.record("event", event, "ok", key=request.path[3:])
            return Reply(body={"ids": [str(e.get("id", "")) for e in events], "status": 200})
        return Reply(404, {"error": f"no such request: {request.path}"})
