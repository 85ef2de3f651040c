"""Links: the streams of a connection, and the way to end them.

An endpoint opens links: `Command` (see `child`) starts a child process, `Address` connects to a socket.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

from .errors import StartError

__all__ = ["GRACE", "Address", "Endpoint", "Link", "StreamLink"]

GRACE = 2.5
"""Default time of each step of ending a link, in seconds."""


class Link(Protocol):
    """An open pair of streams."""

    @property
    def reader(self) -> asyncio.StreamReader:
        """The bytes of the remote."""
        ...

    @property
    def writer(self) -> asyncio.StreamWriter:
        """The bytes to the remote."""
        ...

    @property
    def exit_status(self) -> int | None:
        """The exit status of a child process; the negative signal number if a signal ended it."""
        ...

    async def end(self, reading: asyncio.Task[None]) -> str:
        """Close the stream to the remote, wait for the end of `reading`, or force it.

        Returns what happened.
        """
        ...

    def kill(self) -> None:
        """Force the end immediately. Does nothing after `end`."""
        ...


class Endpoint(Protocol):
    """A server that can be started or reached, any number of times."""

    async def open(self, grace: float) -> Link:
        """Open a link. `grace` is the time of each step of its end, in seconds."""
        ...


class StreamLink:
    """A pair of asyncio streams, as `asyncio.open_connection` returns them."""

    exit_status = None

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, grace: float = GRACE) -> None:
        self.reader = reader
        self.writer = writer
        self._grace = grace

    async def end(self, reading: asyncio.Task[None]) -> str:
        """Close the sending half, and give the remote time to answer and to close its half."""
        if reading.done():
            end = "the remote closed the connection"
        else:
            end = "the connection was closed"
            try:
                if self.writer.can_write_eof():
                    self.writer.write_eof()
                    await asyncio.wait([reading], timeout=self._grace)
            except OSError:
                end = "the remote closed the connection"
        self.writer.close()
        return end

    def kill(self) -> None:
        """Close the socket without waiting."""
        self.writer.transport.abort()


@dataclass(frozen=True)
class Address:
    """The address of a listening server: `tcp://HOST:PORT` or `unix:///PATH`."""

    url: str

    def __post_init__(self) -> None:
        self._parts()

    async def open(self, grace: float) -> StreamLink:
        """Connect to the server."""
        host, port, path = self._parts()
        try:
            if path is not None:
                streams = await asyncio.open_unix_connection(path)
            else:
                streams = await asyncio.open_connection(host, port)
        except OSError as error:
            raise StartError(f"cannot connect to {self.url}: {error}") from error
        return StreamLink(*streams, grace)

    def _parts(self) -> tuple[str | None, int | None, str | None]:
        url = urlsplit(self.url)
        if url.scheme == "tcp" and url.hostname and url.port and url.path in {"", "/"}:
            return url.hostname, url.port, None
        if url.scheme == "unix" and not url.netloc and url.path:
            return None, None, unquote(url.path)
        raise ValueError(f"{self.url!r} is neither tcp://HOST:PORT nor unix:///PATH")
