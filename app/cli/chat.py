"""A conversation with a running service, and the chat without a terminal: each line of stdin is a message."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Iterator, Sequence
from typing import Any, TextIO, TypeVar

from ulid import ULID

from app.cli.attached import File
from app.cli.client import Answer, Feed, FeedItem, ServiceClient
from app.errors import MoabError, ServiceUnavailable

ANSWER_WAIT_S = 60.0
POLL_S = 1.0
"""How long one look at the feed lasts; short, because a service that ends waits for the looks in flight."""
RECONNECT_S = 1.0
RECONNECT_TRIES = 5
STOP_WITHIN_S = 10.0
SETTLE_WITHIN_S = 30.0

Result = TypeVar("Result")

HELP = """\
Every line is a message to the agent. Ctrl-C stops what it is doing; /quit or Ctrl-D leaves.
A line that starts with a slash is a command to the service:"""


def session_key(name: str) -> str:
    """The session of a name in the terminal; a whole key (`telegram:...`) stays as it is."""
    return name if ":" in name else f"terminal:{name}"


def printable(text: str) -> str:
    """`text` without control characters: an answer must not be able to move the cursor or retitle the window."""
    return "".join(c for c in text if c in "\n\t" or not (ord(c) < 32 or 127 <= ord(c) < 160))


class Conversation:
    """One session, spoken to through a client; keeps the last known state of its feed.

    `on_item` is called once for each reply, notice and command answer; `on_change` after each look at the feed;
    `on_lost` once when the service stops answering.
    """

    def __init__(
        self,
        client: ServiceClient,
        key: str,
        *,
        on_item: Callable[[FeedItem], None] = lambda _: None,
        on_change: Callable[[], None] = lambda: None,
        on_lost: Callable[[MoabError], None] = lambda _: None,
    ) -> None:
        self.client = client
        self.key = key
        self.state = Feed(cursor=-1)
        self._on_item = on_item
        self._on_change = on_change
        self._on_lost = on_lost

    async def open(self) -> None:
        """Take the cursor of this moment, so that nothing said from now on is missed."""
        self.state = await self.client.feed(self.key, after=-1)

    async def watch(self) -> None:
        """Follow the feed until cancelled; a service that is gone for a while is waited for."""
        lost = False
        while True:
            try:
                await self._look(POLL_S)
                lost = False
            except MoabError as error:
                if not lost:
                    self._on_lost(error)
                lost = True
                await asyncio.sleep(RECONNECT_S)

    async def say(self, text: str, files: Sequence[File] = ()) -> Answer:
        """Post a line with its `files` and return once the service has it; what comes of it shows in the feed."""
        answer = await self.client.send(text, session_key=self.key, message_key=new_message_key(), attachments=files)
        if not text.startswith("/"):
            self.state = self.state.model_copy(update={"open": self.state.open + 1})
        return answer

    async def ask(
        self, text: str, message_key: str = "", known: Container[str | None] = (), files: Sequence[File] = ()
    ) -> Answer:
        """Post a line and wait, however long it takes, for what became of it; a service that restarts is waited for.

        It is `asked` once for each request that is not `known`; the same line with its key then waits on.
        Raises ServiceUnavailable if the service stays away. Asking again is safe: the message keeps its key.
        """
        message_key, failures = message_key or new_message_key(), 0
        while True:
            try:
                answer = await self.client.send(
                    text, session_key=self.key, message_key=message_key, attachments=files, wait=ANSWER_WAIT_S
                )
                if answer.is_final or (answer.status == "asked" and answer.request_id not in known):
                    return answer
                failures = 0
            except ServiceUnavailable:
                failures += 1
                if failures > RECONNECT_TRIES:
                    raise
            await asyncio.sleep(RECONNECT_S)

    async def stop(self) -> bool:
        """Stop the session's turn. False if the service did not confirm it in time."""
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                said = await self.client.send(
                    "/stop", session_key=self.key, message_key=new_message_key(), wait=STOP_WITHIN_S
                )
                return said.is_final
        except (TimeoutError, MoabError):
            return False

    async def settle(self) -> bool:
        """Wait until no work of the session is left, at most SETTLE_WITHIN_S; False if some still is."""
        wait = 0.0
        with contextlib.suppress(TimeoutError, ServiceUnavailable):
            async with asyncio.timeout(SETTLE_WITHIN_S):
                while not (await self.client.feed(self.key, after=self.state.cursor, wait=wait)).settled:
                    wait = POLL_S
                return True
        return False

    async def _look(self, wait: float) -> None:
        self.state = await self.client.feed(self.key, after=self.state.cursor, wait=wait)
        for item in self.state.items:
            self._on_item(item)
        self._on_change()


def new_message_key() -> str:
    return f"terminal:{ULID()}"


async def chat_in_pipe(client: ServiceClient, key: str, out: TextIO, err: TextIO, fd: int = 0) -> int:
    """Answer each line read from `fd` on `out`; returns the exit code.

    1 if a turn failed; 128 + number after SIGINT or SIGTERM, which stop the turn first.
    """

    def show_notice(item: FeedItem) -> None:
        if item.kind == "notice":
            err.write(printable(item.text) + "\n")

    conversation = Conversation(client, key, on_item=show_notice)
    await conversation.open()
    with caught_signals() as caught:
        async with alongside(conversation.watch()), alongside(caught.get()) as signalled:
            async with alongside(_talk(conversation, read_lines(fd), out, err)) as talking:
                await asyncio.wait({talking, signalled}, return_when=asyncio.FIRST_COMPLETED)
                if talking.done():
                    return talking.result()
            if not await conversation.stop():
                err.write("The service did not confirm that the turn is stopped.\n")
            return 128 + signalled.result()


@contextlib.asynccontextmanager
async def alongside(work: Coroutine[Any, Any, Result]) -> AsyncIterator[asyncio.Task[Result]]:
    """Run `work` as a task that has ended when the block is left."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _talk(conversation: Conversation, lines: AsyncIterator[str], out: TextIO, err: TextIO) -> int:
    code = 0
    async for line in lines:
        text = line.strip()
        if text == "/quit":
            break
        if text == "/help":
            out.write(HELP + "\n")
        if text:
            answer = await _answered(conversation, text, lines, out)
            if answer.status == "asked":
                err.write("The input ended before the answer; the turn waits for it.\n")
                return 1
            failed = answer.status == "failed"
            code = 1 if failed else code
            if answer.reply:
                (err if failed else out).write(printable(answer.reply) + "\n")
        out.flush()
    if not await conversation.settle():
        err.write("Some work after the last turn is not finished; it goes on at the next start.\n")
    return code


async def _answered(conversation: Conversation, text: str, lines: AsyncIterator[str], out: TextIO) -> Answer:
    """What became of a line. Whatever is asked before that is shown, and the next line of the input answers it."""
    key, known = new_message_key(), set[str | None]()
    while (answer := await conversation.ask(text, key, known)).status == "asked":
        known.add(answer.request_id)
        out.write(printable(answer.reply or "") + "\n")
        out.flush()
        reply = await anext(lines, None)
        if reply is None:
            break
        await conversation.say(reply.strip() or "(no answer)")
    return answer


@contextlib.contextmanager
def caught_signals() -> Iterator[asyncio.Queue[int]]:
    """SIGINT and SIGTERM as numbers in a queue instead of an exception or the end."""
    loop, caught = asyncio.get_running_loop(), asyncio.Queue[int]()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, caught.put_nowait, int(number))
    try:
        yield caught
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def read_lines(fd: int) -> AsyncIterator[str]:
    """Lines of a file, pipe or terminal, read in a thread, because a regular file cannot be awaited."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def put(line: bytes | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, None if line is None else line.decode("utf-8", "replace"))

    # A daemon with os.read: it may be blocked when we leave, and sys.stdin's lock would then abort the interpreter.
    threading.Thread(target=_pump, args=(fd, put), daemon=True, name="stdin").start()
    while (line := await lines.get()) is not None:
        yield line


def _pump(fd: int, put: Callable[[bytes | None], None]) -> None:
    rest = b""
    with contextlib.suppress(OSError, RuntimeError):  # the terminal is gone; the loop is closed
        while chunk := os.read(fd, 65536):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                put(line)
    with contextlib.suppress(RuntimeError):
        if rest:
            put(rest)
        put(None)
