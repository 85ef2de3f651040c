"""Requests and notifications from the remote: runs their handlers, and makes the responses.

Every request gets exactly one response: its result, a `RemoteError` that its handler raised, an internal error if the
handler failed in another way, `Request cancelled` if the remote cancelled it, or `Server busy` if too many handlers
run.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from .errors import ConnectionLostError, InternalError, RemoteError, RequestCancelledError, RpcError, ServerBusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .handlers import Handlers

__all__ = ["Incoming", "error_response", "is_id"]

_CANCELLATIONS = {"$/cancelRequest", "notifications/cancelled"}


class Incoming:
    """The running handlers of one connection."""

    def __init__(
        self,
        handlers: Handlers,
        max_handlers: int,
        send: Callable[[Any], Coroutine[Any, Any, None]],
    ) -> None:
        self._handlers = handlers
        self._max_handlers = max_handlers
        self._send = send
        self._running: set[asyncio.Task[Any]] = set()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._requests: dict[tuple[type, object], asyncio.Task[Any]] = {}
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """True if no further handler may start."""
        return len(self._running) >= self._max_handlers

    async def wait_for_room(self) -> None:
        """Wait until a handler may start, or `wake` is called."""
        self._room.clear()
        await self._room.wait()

    def wake(self) -> None:
        """Let `wait_for_room` return."""
        self._room.set()

    def notify(self, method: str, params: Any) -> None:
        """Handle a notification."""
        if method in _CANCELLATIONS:
            self._cancel(params)
        elif self.is_full:
            self._handlers.report(RpcError(f"notification {method} was dropped: {len(self._running)} handlers run"))
        else:
            for work in self._handlers.notify(method, params):
                self._start(work)

    def serve(self, requests: list[dict[str, Any]], *, is_batch: bool) -> None:
        """Handle requests, and send their responses, together if they came together."""
        started = [(request["id"], self._start_request(request)) for request in requests]
        delivery = asyncio.create_task(self._deliver(started, is_batch=is_batch))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)

    async def close(self) -> None:
        """Cancel all handlers, and wait for them."""
        tasks = [*self._running, *self._deliveries]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start_request(self, request: dict[str, Any]) -> asyncio.Task[Any]:
        method, params = request["method"], request.get("params")
        work = _refuse() if self.is_full else self._handlers.answer(method, params)
        task = self._start(work)
        self._requests.setdefault(_key(request["id"]), task)
        return task

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self.wake()

    def _cancel(self, params: Any) -> None:
        match params:
            case {"id": number} | {"requestId": number}:
                task = self._requests.get(_key(number)) if is_id(number) else None
                if task is not None:
                    task.cancel()
            case _:
                pass

    async def _deliver(self, started: list[tuple[Any, asyncio.Task[Any]]], *, is_batch: bool) -> None:
        await asyncio.wait([task for _, task in started])
        for number, task in started:
            if self._requests.get(_key(number)) is task:
                del self._requests[_key(number)]
        responses = [self._response(number, task) for number, task in started]
        try:
            await self._send_all(responses, is_batch=is_batch)
        except (TypeError, ValueError, RecursionError) as error:
            self._handlers.report(error, "a result cannot be sent")
            failed = [error_response(number, InternalError()) for number, _ in started]
            await self._send_all(failed, is_batch=is_batch)

    async def _send_all(self, responses: list[dict[str, Any]], *, is_batch: bool) -> None:
        # If the connection is lost, nobody waits for the responses.
        with contextlib.suppress(ConnectionLostError):
            await self._send(responses if is_batch else responses[0])

    def _response(self, number: Any, task: asyncio.Task[Any]) -> dict[str, Any]:
        if task.cancelled():
            return error_response(number, RequestCancelledError())
        error = task.exception()
        if error is None:
            return {"jsonrpc": "2.0", "id": number, "result": task.result()}
        return error_response(number, error if isinstance(error, RemoteError) else InternalError())


def error_response(number: Any, error: RemoteError) -> dict[str, Any]:
    """Make the response to a request that failed."""
    member = {"code": error.code, "message": error.message}
    if error.data is not None:
        member["data"] = error.data
    return {"jsonrpc": "2.0", "id": number, "error": member}


async def _refuse() -> None:
    raise ServerBusyError


def is_id(number: object) -> bool:
    """Return true if JSON-RPC allows this id."""
    return number is None or type(number) in {int, float, str}


def _key(number: object) -> tuple[type, object]:
    # Without the type, 1 and 1.0 would be the same id.
    return type(number), number
