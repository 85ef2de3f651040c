"""One connection: calls and notifications to the remote, and handlers of those from it.

A call ends in exactly one of five ways: a result, a `RemoteError`, its timeout, the cancellation of its task, or the
end of the connection. A timeout and a cancellation also send a cancellation to the remote.

While `max_handlers` handlers run, reading stops, unless a call is pending: its response could be among the unread
bytes. Then requests are answered with `Server busy`, and notifications are dropped and reported.

| phase | begins with | ends with |
|---|---|---|
| open | `start` | the end of the stream, a failed write, or `close` |
| ending | `Link.end`, while reading goes on | the end of the link |
| closed | pending calls fail, running handlers are cancelled | |
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from .errors import (
    ConnectionLostError,
    FrameError,
    InvalidResponseError,
    RemoteError,
    remote_error,
)
from .framing import MAX_MESSAGE_BYTES, Decoder, Framing, encode
from .handlers import Handlers
from .incoming import Incoming, is_id
from .peer import DEFAULT, CancelStyle, Default, Errors, Params, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from .handlers import Handler, Problem
    from .link import Link

__all__ = ["Connection"]

_CHUNK = 64 * 1024
_MAX_ABANDONED = 10_000
# Time to read the rest of a stream whose link has ended.
_SETTLE = 1.0


class Connection:
    """A connection over a link. `Client` makes one for each start of its server.

    >>> async def ping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
    ...     async with Connection(StreamLink(reader, writer), framing="ndjson") as connection:
    ...         return await connection.call("system.ping", timeout=1)
    """

    def __init__(
        self,
        link: Link,
        *,
        framing: Framing,
        timeout: float | None = 30.0,
        cancel: CancelStyle = "lsp",
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_handlers: int = 1_000,
        handlers: Handlers | None = None,
        on_problem: Problem | None = None,
    ) -> None:
        self._link = link
        self._framing: Framing = framing
        self._timeout = timeout
        self._cancel_style: CancelStyle = cancel
        self._limit = max_message_bytes
        self._handlers = Handlers(on_problem) if handlers is None else handlers
        self._incoming = Incoming(self._handlers, max_handlers, self._send)
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._abandoned: OrderedDict[int, None] = OrderedDict()
        self._must_end = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._end: str | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        """Begin to read."""
        if self._life is None:
            self._life = asyncio.create_task(self._live(), name="duet_rpc connection")

    @property
    def exit_status(self) -> int | None:
        """The exit status of the child process, after its end."""
        return self._link.exit_status

    @property
    def end(self) -> str | None:
        """The reason why the connection is closed; `None` while it is open."""
        return self._end

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, for whatever reason."""
        self.start()
        if self._life is not None:
            await asyncio.wait([self._life])

    async def close(self) -> None:
        """End the link. Responses that arrive until its end are received, and other calls fail."""
        self._must_end.set()
        await self.wait_closed()

    def on_request(self, method: str, handler: Handler) -> Callable[[], None]:
        """Serve a method to the remote. Returns a function that removes the handler.

        A `RemoteError` that the handler raises is sent as it is. Any other error is reported, and the remote gets an
        internal error. If the remote cancels the request, the task of an async handler is cancelled.
        """
        return self._handlers.on_request(method, handler)

    def on_notification(self, method: str, handler: Handler) -> Callable[[], None]:
        """Handle notifications of a method. Handlers start in the order of arrival."""
        return self._handlers.on_notification(method, handler)

    async def call(
        self,
        method: str,
        params: Params = None,
        *,
        timeout: float | Default | None = DEFAULT,  # noqa: ASYNC109 - it also sends a cancellation
        errors: Errors | None = None,
    ) -> Any:
        """Call a method, and return its result.

        `errors` has classes for error codes, in addition to those of `CODES`. If the task that awaits the call is
        cancelled, or the time is over, a cancellation is sent.
        """
        seconds = self._timeout if timeout is DEFAULT else timeout
        return await within(seconds, method, self._call(method, params, errors))

    async def notify(self, method: str, params: Params = None) -> None:
        """Send a notification."""
        await self._send({"jsonrpc": "2.0", "method": method, **_member(params)})

    async def _call(self, method: str, params: Params, errors: Errors | None) -> Any:
        number = next(self._ids)
        message = {"jsonrpc": "2.0", "id": number, "method": method, **_member(params)}
        frame = encode(self._framing, message, self._limit)
        future = asyncio.get_running_loop().create_future()
        await self._wait_to_write()
        self._pending[number] = future
        self._incoming.wake()
        self._write(frame)
        try:
            response = await future
        except asyncio.CancelledError:
            if self._pending.pop(number, None) is not None:
                self._abandon(number)
            raise
        return _result(method, response, errors)

    def _abandon(self, number: int) -> None:
        """Cancel a request whose caller is gone. Its response is not wanted any more."""
        self._abandoned[number] = None
        if len(self._abandoned) > _MAX_ABANDONED:
            self._abandoned.popitem(last=False)
        params = {"requestId" if self._cancel_style == "mcp" else "id": number}
        method = "notifications/cancelled" if self._cancel_style == "mcp" else "$/cancelRequest"
        if self._cancel_style is not None:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            self._write(encode(self._framing, message, self._limit))

    async def _send(self, message: object) -> None:
        frame = encode(self._framing, message, self._limit)
        await self._wait_to_write()
        self._write(frame)

    async def _wait_to_write(self) -> None:
        """Wait until the remote has read enough of the bytes before."""
        self._check_open()
        try:
            await self._link.writer.drain()
        except OSError:
            # The end of the link tells why, so wait for it.
            self._must_end.set()
            await self.wait_closed()
        self._check_open()

    def _check_open(self) -> None:
        if self._end is not None:
            raise ConnectionLostError(self._end)
        self.start()

    def _write(self, frame: bytes) -> None:
        if not self._link.writer.is_closing():
            self._link.writer.write(frame)

    async def _live(self) -> None:
        reading = asyncio.create_task(self._read(), name="duet_rpc reader")
        ending = asyncio.create_task(self._must_end.wait())
        end = "the event loop ended the connection"
        try:
            await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
            end = await self._link.end(reading)
            await asyncio.wait([reading], timeout=_SETTLE)
        finally:
            self._link.kill()
            reading.cancel()
            ending.cancel()
            self._fail(end)
            await self._incoming.close()

    def _fail(self, end: str) -> None:
        self._end = end
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ConnectionLostError(end))
        self._pending.clear()

    async def _read(self) -> None:
        decoder = Decoder(self._framing, self._limit)
        while chunk := await self._read_chunk():
            for found in decoder.feed(chunk):
                await self._take(found)
        for found in decoder.finish():
            await self._take(found)

    async def _read_chunk(self) -> bytes:
        try:
            return await self._link.reader.read(_CHUNK)
        except OSError as error:
            self._handlers.report(error, "reading from the remote failed")
            return b""

    async def _take(self, found: Any) -> None:
        """Handle one message, batch or fault."""
        if isinstance(found, FrameError):
            self._handlers.report(found)
            return
        # Stop reading while too many handlers run, unless the unread bytes may hold a response.
        while self._incoming.is_full and not self._pending and self._end is None:
            await self._incoming.wait_for_room()
        is_batch = isinstance(found.value, list)
        entries = cast("list[Any]", found.value) if is_batch else [found.value]
        requests = [entry for entry in entries if self._is_request(entry)]
        if requests:
            self._incoming.serve(requests, is_batch=is_batch)
        if not entries:
            self._handlers.report(FrameError("a batch is empty"))

    def _is_request(self, message: Any) -> bool:
        """Return true if the message is a request. Everything else is handled here."""
        match message:
            case {"method": str(), "id": number}:
                if is_id(number):
                    return True
                self._handlers.report(FrameError("the id of a request is not a string or a number"))
            case {"method": str(method)}:
                self._incoming.notify(method, message.get("params"))
            case {"id": number} if "method" not in message:
                self._settle(number, cast("dict[str, Any]", message))
            case _:
                self._handlers.report(FrameError("a message is neither a request nor a response"))
        return False

    def _settle(self, number: Any, response: dict[str, Any]) -> None:
        # `True` and `1.0` equal 1, but are not its id.
        is_ours = type(number) is int
        future = self._pending.pop(number, None) if is_ours else None
        if future is not None:
            if not future.done():
                future.set_result(response)
        elif is_ours and number in self._abandoned:
            del self._abandoned[number]
        elif number is None and "error" in response:
            self._handlers.report(_error("a message", response["error"], None))
        else:
            self._handlers.report(InvalidResponseError("a response has an unknown id"))


def _member(params: Params) -> dict[str, object]:
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return {"params": dict(params)}
    if isinstance(params, (str, bytes)):
        raise TypeError("params are a mapping or a sequence of values, not a string")
    return {"params": list(params)}


def _result(method: str, response: dict[str, Any], errors: Errors | None) -> Any:
    if "error" in response and response.get("result") is None:
        raise _error(method, response["error"], errors)
    if "result" not in response or "error" in response:
        raise InvalidResponseError(f"the response to {method} is neither a result nor an error")
    return response["result"]


def _error(method: str, error: Any, errors: Errors | None) -> RemoteError | InvalidResponseError:
    match error:
        case {"code": int(code), "message": str(message)} if not isinstance(code, bool):
            return remote_error(code, message, error.get("data"), errors)
        case _:
            return InvalidResponseError(f"the error response to {method} has no code or message")
