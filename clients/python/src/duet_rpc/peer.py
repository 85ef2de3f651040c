"""The interface that generated clients need, and the terms of a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from .errors import CallTimeoutError, InvalidParamsError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .handlers import Handler

__all__ = [
    "DEFAULT",
    "CancelStyle",
    "Default",
    "Errors",
    "Params",
    "Peer",
    "arguments",
    "by_name",
    "by_position",
    "within",
]

T = TypeVar("T")

Params = Mapping[str, object] | Sequence[object] | None
"""Params by name, by position, or none."""

Errors = Mapping[int, type[RemoteError]]
"""Classes of errors, by code."""

CancelStyle = Literal["lsp", "mcp"] | None
"""The notification that cancels a request: `$/cancelRequest`, `notifications/cancelled`, or none."""


class Default(Enum):
    """The type of `DEFAULT`."""

    DEFAULT = "default"


DEFAULT = Default.DEFAULT
"""Stands for a value that is left out: a param, or the timeout of a call."""


class Peer(Protocol):
    """The side that a generated client calls: a `Client` or a `Connection`."""

    async def call(
        self,
        method: str,
        params: Params = None,
        *,
        timeout: float | Default | None = DEFAULT,  # noqa: ASYNC109 - it also sends a cancellation
        errors: Errors | None = None,
    ) -> Any:
        """Call a method, and return its result."""

    async def notify(self, method: str, params: Params = None) -> None:
        """Send a notification."""

    def on_request(self, method: str, handler: Handler) -> Callable[[], None]:
        """Serve a method to the remote. Returns a function that removes the handler."""
        ...

    def on_notification(self, method: str, handler: Handler) -> Callable[[], None]:
        """Handle notifications of a method. Returns a function that removes the handler."""
        ...


def by_name(params: Mapping[str, object]) -> dict[str, object]:
    """Return params by name, without those that are left out.

    >>> by_name({"a": 1, "b": DEFAULT, "c": None})
    {'a': 1, 'c': None}
    """
    return {name: value for name, value in params.items() if value is not DEFAULT}


def by_position(*params: object) -> list[object]:
    """Return params by position. A param that is left out before another one is null.

    >>> by_position(1, DEFAULT, 3, DEFAULT)
    [1, None, 3]
    """
    kept = list(params)
    while kept and kept[-1] is DEFAULT:
        kept.pop()
    return [None if value is DEFAULT else value for value in kept]


def arguments(params: Any, names: Sequence[tuple[str, str, bool]]) -> dict[str, Any]:
    """Return the params of a request, by name or by position, as arguments of a function.

    `names` has the name of each param, the name of its argument, and whether it is required.

    >>> arguments([1], [("class", "class_", True), ("b", "b", False)])
    {'class_': 1}
    """
    given: dict[str, Any] = {}
    is_positional = _is_list(params)
    for at, (name, argument, _) in enumerate(names):
        key = at if is_positional else name
        # A position that is missing, a name that is missing, or no params at all.
        with contextlib.suppress(IndexError, KeyError, TypeError):
            given[argument] = params[key]
    for name, argument, is_required in names:
        if is_required and argument not in given:
            raise InvalidParamsError(data={"param": name, "expected": "a value", "received": "nothing"})
    return given


def _is_list(value: object) -> bool:
    return isinstance(value, list)


async def within(seconds: float | None, method: str, work: Coroutine[Any, Any, T]) -> T:
    """Await the work of a call. After the given time, cancel it and raise `CallTimeoutError`."""
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await work
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise CallTimeoutError(f"{method} was not answered within {seconds} s") from error
