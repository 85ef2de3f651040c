"""Handlers of requests and notifications from the remote. They stay when the server restarts."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .errors import InternalError, MethodNotFoundError, RemoteError

__all__ = ["Handler", "Handlers", "Problem"]

Handler = Callable[[Any], Awaitable[Any] | Any]
"""A function, plain or async, that gets the params of a message, or `None`."""

Problem = Callable[[Exception], None]
"""Called with problems that belong to no call."""

log = logging.getLogger("duet_rpc")


class Handlers:
    """The handlers of a client, by method."""

    def __init__(self, on_problem: Problem | None = None) -> None:
        self._requests: dict[str, Handler] = {}
        self._notifications: dict[str, list[Handler]] = {}
        self._on_problem = on_problem

    def on_request(self, method: str, handler: Handler) -> Callable[[], None]:
        """Serve a method. A method has one handler. Returns a function that removes it."""
        if method in self._requests:
            raise ValueError(f"{method} has a handler already")
        self._requests[method] = handler

        def remove() -> None:
            if self._requests.get(method) is handler:
                del self._requests[method]

        return remove

    def on_notification(self, method: str, handler: Handler) -> Callable[[], None]:
        """Handle notifications of a method. Returns a function that removes the handler."""
        self._notifications.setdefault(method, []).append(handler)

        def remove() -> None:
            handlers = self._notifications.get(method, [])
            if handler in handlers:
                handlers.remove(handler)

        return remove

    async def answer(self, method: str, params: Any) -> Any:
        """Run the handler of a request. Any error but a `RemoteError` becomes an `InternalError`."""
        handler = self._requests.get(method)
        if handler is None:
            raise MethodNotFoundError(f"Method not found: {method}")
        try:
            result = handler(params)
            return await result if inspect.isawaitable(result) else result
        except RemoteError:
            raise
        except Exception as error:
            self.report(error, f"the handler of {method} failed")
            raise InternalError from error

    def notify(self, method: str, params: Any) -> list[Coroutine[Any, Any, None]]:
        """Start the handlers of a notification, and return the work that async ones have left."""
        work: list[Coroutine[Any, Any, None]] = []
        for handler in list(self._notifications.get(method, [])):
            try:
                result = handler(params)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                self.report(error, f"a handler of {method} failed")
                continue
            if inspect.isawaitable(result):
                work.append(self._finish(method, result))
        return work

    async def _finish(self, method: str, work: Awaitable[Any]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            self.report(error, f"a handler of {method} failed")

    def report(self, error: Exception, what: str | None = None) -> None:
        """Report a problem: to `on_problem`, or else to the log."""
        if what is not None:
            error.add_note(what)
        if self._on_problem is None:
            log.warning("%s", f"{what}: {error!r}" if what else error)
            return
        try:
            self._on_problem(error)
        except Exception:
            log.exception("on_problem failed")
