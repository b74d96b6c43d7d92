"""A WebSocket as Slack's Socket Mode needs it: texts in, texts out, and every way of ending as one error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_connection
from websockets.exceptions import ConnectionClosedError, WebSocketException

from app.events import safe_text

OPEN_WITHIN_S, PING_EVERY_S = 10.0, 20.0
MAX_BYTES = 2**21


class Socket:
    """An open connection. Raises ConnectionError when it breaks; ends when Slack closes it."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        try:
            async for message in self._connection:
                yield message
        except ConnectionClosedError as error:
            raise ConnectionError(str(error)) from error

    async def send(self, message: str) -> None:
        try:
            await self._connection.send(safe_text(message))
        except WebSocketException as error:
            raise ConnectionError(str(error)) from error


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Socket]:
    """A connection to `url`. It is asked every 20 seconds whether it still lives; raises ConnectionError."""
    try:
        connection = await open_connection(
            url, open_timeout=OPEN_WITHIN_S, ping_interval=PING_EVERY_S, ping_timeout=PING_EVERY_S, max_size=MAX_BYTES
        )
    except (OSError, WebSocketException, ValueError) as error:  # a URL in an error might be shown: it is a secret
        raise ConnectionError(f"No socket could be opened ({type(error).__name__}).") from None
    try:
        yield Socket(connection)
    finally:
        await connection.close()
