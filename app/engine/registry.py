"""The apps and functions that the engine knows, and how each app is reached."""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.engine.change import Change
from app.engine.errors import BadFunction, UnknownFunction
from app.engine.functions import Function, config_text, parse_function
from app.engine.transport import Transport
from app.engine.triggers import Triggers

log = logging.getLogger("moab.engine")


@dataclass(slots=True)
class App:
    """One app. `transport` is None until an app of this process is attached again after a restart."""

    name: str
    url: str
    sdk: str
    checksum: str
    transport: Transport | None


class Registry:
    """Functions by slug; archived ones are kept, so that their ended runs can be explained."""

    def __init__(self) -> None:
        self.apps: dict[str, App] = {}
        self._functions: dict[str, Function] = {}
        self._archived: set[str] = set()
        self._paused: set[str] = set()
        self.triggers = Triggers(())

    def load(self, apps: Iterable[App], functions: Iterable[tuple[Function, bool]], paused: Iterable[str]) -> None:
        """What an earlier process stored."""
        self.apps = {app.name: app for app in apps}
        self._paused = set(paused)
        for function, archived in functions:
            self._functions[function.slug] = function
            if archived:
                self._archived.add(function.slug)
        self._index()

    def register(
        self, change: Change, name: str, url: str, sdk: str, configs: Sequence[Mapping[str, Any]], transport: Transport
    ) -> tuple[bool, list[Function]]:
        """Replace an app's functions; returns whether anything changed, and the functions that are gone.

        Raises BadFunction and its like.
        """
        functions = [parse_function(name, config) for config in configs]
        self._refuse_foreign(name, functions)
        checksum = hashlib.sha256("\n".join(config_text(function) for function in functions).encode()).hexdigest()
        known = self.apps.get(name)
        modified = known is None or known.checksum != checksum or known.url != url
        self.apps[name] = App(name, url, sdk, checksum, transport)
        here = {function.slug for function in self.of_app(name)}
        if not modified and known is not None and known.sdk == sdk and here == {one.slug for one in functions}:
            return False, []  # apps in development are looked at every few seconds
        change.add(
            "INSERT OR REPLACE INTO apps (name, url, sdk, checksum, synced_at) VALUES (?,?,?,?,?)",
            name, url, sdk, checksum, change.now_ms,
        )  # fmt: skip
        gone = [function for function in self.of_app(name) if function.slug not in {f.slug for f in functions}]
        for function, archived in [(f, 0) for f in functions] + [(f, 1) for f in gone]:
            self._functions[function.slug] = function
            (self._archived.add if archived else self._archived.discard)(function.slug)
            change.add(
                "INSERT OR REPLACE INTO functions (slug, app, config, archived, paused) VALUES (?,?,?,?,?)",
                function.slug, name, config_text(function), archived, int(function.slug in self._paused),
            )  # fmt: skip
        self._index()
        return modified, gone

    def function(self, slug: str) -> Function | None:
        """A function that exists or existed."""
        return self._functions.get(slug)

    def require(self, slug: str) -> None:
        """Raise UnknownFunction, with the full id that may have been meant, unless a function exists or existed."""
        if slug in self._functions:
            return
        meant = next((full for full, function in self._functions.items() if full == f"{function.app}-{slug}"), None)
        hint = f"Did you mean '{meant}'?" if meant else "A full id is needed: the app's, a hyphen, the function's."
        raise UnknownFunction(f"There is no function '{slug}'. {hint}")

    def startable(self, slug: str) -> Function | None:
        """A function that may start a new run."""
        return None if slug in self._archived else self._functions.get(slug)

    def is_paused(self, slug: str) -> bool:
        """Whether nothing of this function may start."""
        return slug in self._paused

    def set_paused(self, change: Change, slug: str, paused: bool) -> bool:
        """Pause or resume a function; returns whether that changed anything. Raises UnknownFunction."""
        if self.startable(slug) is None:
            raise UnknownFunction(f"There is no function '{slug}'.")
        if paused == self.is_paused(slug):
            return False
        (self._paused.add if paused else self._paused.discard)(slug)
        change.add("UPDATE functions SET paused = ? WHERE slug = ?", int(paused), slug)
        return True

    def active(self) -> list[Function]:
        return [function for slug, function in self._functions.items() if slug not in self._archived]

    def of_app(self, name: str) -> list[Function]:
        return [function for function in self.active() if function.app == name]

    def transport(self, slug: str) -> Transport | None:
        """How to reach the function's app; None while the app is not attached."""
        function = self._functions.get(slug)
        app = self.apps.get(function.app) if function else None
        return app.transport if app else None

    def _refuse_foreign(self, name: str, functions: list[Function]) -> None:
        if not functions:
            raise BadFunction(f"App '{name}' registers no functions.")
        for function in functions:
            known = self._functions.get(function.slug)
            if known is not None and known.app != name:
                raise BadFunction(f"Function '{function.slug}' of app '{name}' already belongs to app '{known.app}'.")

    def _index(self) -> None:
        self.triggers = Triggers(self.active())
