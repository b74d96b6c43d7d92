"""What the steps work with: the parts that the composition root wires together."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from app.agent.models.llm import LLM
from app.agent.tool import Commands, NoCommands, Toolbox
from app.channels.channel import Channel
from app.clock import Clock
from app.config import Settings
from app.db import Database
from app.events import EventSender
from app.memory.daily_log import DailyLog
from app.memory.workspace import Workspace
from app.notify import Notifier
from app.speech import Speech
from app.work.library import Library

APP_ID = "moab"


@dataclass(frozen=True)
class Harness:
    """One object handed to every step body; holds collaborators, never state of a session."""

    settings: Settings
    clock: Clock
    db: Database
    sender: EventSender
    channels: Mapping[str, Channel]
    llm: LLM
    toolbox: Toolbox
    workspace: Workspace
    daily_log: DailyLog
    library: Library
    boot_id: str
    code_version: str
    platforms: tuple[str, ...] = ()
    """The names of every platform there is, with settings or without."""
    notifier: Notifier = field(default_factory=Notifier)

    @property
    def home(self) -> str:
        """Names the folder that this process is the only one of; what runs in the background runs there."""
        return self.boot_id.partition(":")[0]

    def at(self, principal: str, zone: str = "") -> "Harness":
        """The same with the workspace and the notes of one person or group ("": the operator), who is in `zone`."""
        log_zone = ZoneInfo(zone) if zone else self.daily_log.zone
        if not principal and log_zone == self.daily_log.zone:
            return self
        workspace = self.workspace.of(principal) if principal else self.workspace
        prefix = f"{principal}/" if principal else ""
        return replace(self, workspace=workspace, daily_log=self.daily_log.of(workspace.logs, log_zone, prefix))

    commands: Commands = field(default_factory=NoCommands)
    speech: Speech = field(default_factory=Speech)
