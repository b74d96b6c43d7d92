"""The chat for a person at a terminal: a prompt that stays, what the turn does and the answers above it."""

import asyncio
import contextlib
import io
import itertools
import logging
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI, FormattedText, StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import print_formatted_text
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.markdown import Markdown

from app.cli.chat import HELP, Conversation, alongside, printable
from app.cli.client import Activity, FeedItem, Line, ServiceClient
from app.errors import MoabError

PROMPT = "> "
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.12
LEAVE_WITHIN_S = 5.0
LINES_SHOWN_AT_START = 6
CHARS_OF_OLD_LINE = 400
STYLE = Style.from_dict({"you": "bold ansicyan", "dim": "ansibrightblack", "busy": "ansiyellow"})


class StayingRawInput(Vt100Input):
    """Keys stay keys while something is printed: in that moment Ctrl-D would be lost and Ctrl-C become a signal."""

    def cooked_mode(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class TerminalChat:
    """One chat from its first prompt to its last. `owns_service`: the service ends with the chat."""

    def __init__(self, client: ServiceClient, key: str, history_file: Path, *, owns_service: bool) -> None:
        self._owns_service = owns_service
        self._conversation = Conversation(
            client, key, on_item=self._show_item, on_change=self._redraw, on_lost=self._show_error
        )
        self._frames = itertools.cycle(FRAMES)
        self._frame = next(self._frames)
        self._ended = self._warned = False
        self._outgoing = asyncio.Queue[str]()
        self._sending = 0
        self._stopping: asyncio.Task[None] | None = None
        self._prompt: PromptSession[str] = PromptSession(
            self._before_input,
            input=StayingRawInput(sys.stdin),
            history=_private_history(history_file),
            key_bindings=self._keys(),
            style=STYLE,
        )

    async def run(self) -> int:
        """Talk until the person leaves; returns the exit code."""
        await self._conversation.open()
        self._show_history(await self._conversation.client.history(self._conversation.key, LINES_SHOWN_AT_START))
        self._show("/help lists the commands, Ctrl-D leaves.", "class:dim")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end)
        # Raw also between two prompts, for the same reason.
        with patch_stdout(raw=True), _log_above_prompt(), self._prompt.app.input.raw_mode():
            async with alongside(self._conversation.watch()), alongside(self._animate()), alongside(self._send()):
                await self._talk()
                await self._leave()
        return 0

    async def _talk(self) -> None:
        while not self._ended:
            try:
                line = (await self._prompt.prompt_async()).strip()
            except (EOFError, KeyboardInterrupt):
                return
            self._warned = False
            if line == "/quit":
                return
            if line == "/help":
                self._show(HELP)
            if line:
                self._sending += 1
                self._outgoing.put_nowait(line)

    async def _send(self) -> None:
        """Post lines one after the other, so that they arrive as typed while the prompt stays usable."""
        while True:
            line = await self._outgoing.get()
            try:
                await self._conversation.say(line)
            except MoabError as error:
                self._give_back(line, error)
            self._sending -= 1
            self._outgoing.task_done()

    def _give_back(self, line: str, error: MoabError) -> None:
        """Put a line that could not be posted back to the prompt, unless something else was typed there."""
        self._show_error(error)
        if not self._prompt.default_buffer.text:
            self._prompt.default_buffer.insert_text(line)

    async def _leave(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._outgoing.join(), LEAVE_WITHIN_S)
        if self._stopping is not None and not self._stopping.done():
            await self._stopping
        elif self._is_busy and self._owns_service:
            await self._stop()
        elif self._is_busy:
            self._show("The turn goes on in the service; its answer will be here when you come back.", "class:dim")

    @property
    def _is_busy(self) -> bool:
        return self._sending > 0 or self._conversation.state.is_busy

    async def _stop(self) -> None:
        await self._outgoing.join()  # the turn to stop may not have been posted yet
        if not await self._conversation.stop():
            self._show("The service did not confirm that the turn is stopped.", "class:busy")

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Ctrl-C: stop the running turn, leave if it was told so already. Where none runs, the second one leaves."""
        if self._is_busy and (self._stopping is None or self._stopping.done()):
            self._stopping = asyncio.ensure_future(self._stop())
        elif not self._is_busy and not self._warned:
            self._warned = True
            self._prompt.default_buffer.reset()
            self._show("Nothing runs. Ctrl-D leaves, and so does a second Ctrl-C.", "class:dim")
        else:
            event.app.exit(exception=KeyboardInterrupt())

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        return keys

    def _end(self) -> None:
        self._ended = True
        if self._prompt.app.is_running:
            self._prompt.app.exit(exception=EOFError())

    async def _animate(self) -> None:
        while True:
            await asyncio.sleep(FRAME_S)
            if self._is_busy:
                self._frame = next(self._frames)
                self._redraw()

    def _redraw(self) -> None:
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    def _before_input(self) -> StyleAndTextTuples:
        """The prompt, under a line that says what the turn does. (A toolbar would not show on every terminal.)"""
        prompt: StyleAndTextTuples = [("class:you", PROMPT)]
        if not self._is_busy or self._prompt.app.is_done:
            return prompt
        doing = doing_now(self._conversation.state.activity)
        return [("class:busy", f"{self._frame} {doing}"), ("class:dim", "  Ctrl-C stops\n"), *prompt]

    def _show_item(self, item: FeedItem) -> None:
        if item.kind == "reply":
            _print_ansi(rendered(item.text))
        else:
            self._show(item.text, "class:dim")

    def _show_error(self, error: MoabError) -> None:
        self._show(str(error), "class:busy")

    def _show(self, text: str, style: str = "") -> None:
        print_formatted_text(FormattedText([(style, printable(text))]), style=STYLE)

    def _show_history(self, lines: list[Line]) -> None:
        for line in lines:
            text = printable(line.text).strip()
            short = text if len(text) <= CHARS_OF_OLD_LINE else text[:CHARS_OF_OLD_LINE] + " …"
            self._show(PROMPT + short if line.role == "user" else short, "class:dim")


@contextlib.contextmanager
def _log_above_prompt() -> Iterator[None]:
    """The service in this process may log: meanwhile above the prompt, not into it. Use inside patch_stdout."""
    found = [handler for handler in logging.getLogger().handlers if isinstance(handler, logging.StreamHandler)]
    before = [handler.setStream(sys.stderr) for handler in found]
    try:
        yield
    finally:
        for handler, stream in zip(found, before, strict=True):
            if stream is not None:
                handler.setStream(stream)


def doing_now(activity: Activity) -> str:
    """A turn's activity in a few words."""
    if activity.state == "tool" and activity.tool:
        return f"using {printable(activity.tool)}"
    return printable(activity.state) if activity.state.startswith(("waiting", "listening")) else "thinking"


def rendered(markdown: str, width: int | None = None) -> str:
    """Markdown as text with colours for a terminal of `width` columns (default: this one)."""
    sheet = io.StringIO()
    columns = width or min(shutil.get_terminal_size().columns, 100)
    # Links are written out: the terminal's own link codes do not pass the prompt's printer.
    Console(file=sheet, force_terminal=True, width=columns).print(Markdown(printable(markdown), hyperlinks=False))
    return sheet.getvalue().rstrip("\n") + "\n"


def _print_ansi(text: str) -> None:
    print_formatted_text(ANSI(text))


def _private_history(file: Path) -> FileHistory:
    """What was typed, readable by its owner alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    return FileHistory(str(file))
