"""Errors: a class for each kind, and classes by code for the errors that a remote answers.

| class | meaning |
|---|---|
| `RemoteError` | the remote answered with an error; subclasses have one code each |
| `CallTimeoutError` | there was no answer in time |
| `ConnectionLostError` | the connection ended before the answer; the remote may have run the call |
| `NotRunningError` | nothing was sent, because the client is not running |
| `OverloadedError` | nothing was sent, because too many calls wait for the server to start |
| `MessageTooLargeError` | nothing was sent, because the message exceeds the limit |
| `InvalidResponseError` | the response is neither a result nor an error |
| `StartError` | the server cannot be started or reached |
| `FrameError` | received bytes are not a message; reported as a problem, never raised by a call |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CODES",
    "CallTimeoutError",
    "ConnectionLostError",
    "FrameError",
    "InternalError",
    "InvalidParamsError",
    "InvalidRequestError",
    "InvalidResponseError",
    "MessageTooLargeError",
    "MethodNotFoundError",
    "NotFoundError",
    "NotRunningError",
    "OverloadedError",
    "ParseError",
    "RemoteError",
    "RequestCancelledError",
    "RpcError",
    "ServerBusyError",
    "StartError",
    "remote_error",
]


class RpcError(Exception):
    """Base of all errors of this package."""


class RemoteError(RpcError):
    """An error that the remote answered, or that a handler raises to answer with it.

    >>> raise RemoteError("Disk full", code=1001, data={"free": 0})
    Traceback (most recent call last):
    duet_rpc.errors.RemoteError: Disk full (1001)
    """

    default_code: ClassVar[int] = -32603
    """The code, unless the constructor gets another one. Each subclass has its own."""

    default_message: ClassVar[str] = "Internal error"

    def __init_subclass__(cls, *, code: int | None = None, message: str | None = None) -> None:
        """Set the code and the message of a subclass: `class DiskFullError(RemoteError, code=1001)`."""
        super().__init_subclass__()
        if code is not None:
            cls.default_code = code
        if message is not None:
            cls.default_message = message

    def __init__(self, message: str | None = None, *, code: int | None = None, data: Any = None) -> None:
        self.code: int = self.default_code if code is None else code
        self.message: str = self.default_message if message is None else message
        self.data: Any = data
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ParseError(RemoteError, code=-32700, message="Parse error"):
    """The remote could not read a message."""


class InvalidRequestError(RemoteError, code=-32600, message="Invalid Request"):
    """The message was not a valid request."""


class MethodNotFoundError(RemoteError, code=-32601, message="Method not found"):
    """The remote does not know the method."""


class InvalidParamsError(RemoteError, code=-32602, message="Invalid params"):
    """The params have the wrong type; `data` often says which one and why."""


class InternalError(RemoteError, code=-32603, message="Internal error"):
    """The handler failed."""


class ServerBusyError(RemoteError, code=-32000, message="Server busy"):
    """The remote refused the request because it has too much to do."""


class NotFoundError(RemoteError, code=-32004, message="Not found"):
    """The thing that the params name does not exist."""


class RequestCancelledError(RemoteError, code=-32800, message="Request cancelled"):
    """The request was cancelled."""


CODES: Mapping[int, type[RemoteError]] = {
    kind.default_code: kind
    for kind in (
        ParseError,
        InvalidRequestError,
        MethodNotFoundError,
        InvalidParamsError,
        InternalError,
        ServerBusyError,
        NotFoundError,
        RequestCancelledError,
    )
}
"""The classes of the codes that JSON-RPC 2.0, LSP and duet-rpc define."""


def remote_error(
    code: int,
    message: str,
    data: Any = None,
    errors: Mapping[int, type[RemoteError]] | None = None,
) -> RemoteError:
    """Make an error of the class of its code: first of `errors`, then of `CODES`.

    >>> remote_error(-32601, "Method not found: nope")
    MethodNotFoundError('Method not found: nope')
    """
    kind = (errors or {}).get(code) or CODES.get(code, RemoteError)
    return kind(message, code=code, data=data)


class CallTimeoutError(RpcError, TimeoutError):
    """There was no answer in time. A cancellation was sent."""


class ConnectionLostError(RpcError, ConnectionError):
    """The connection ended before the answer. The remote may have run the call."""


class NotRunningError(RpcError):
    """The client is not started, was stopped, or has given up restarting."""


class OverloadedError(RpcError):
    """Too many calls wait for the server to start."""


class MessageTooLargeError(RpcError, ValueError):
    """The message exceeds `max_message_bytes`, and was not sent."""


class InvalidResponseError(RpcError):
    """The response is neither a result nor an error."""


class StartError(RpcError):
    """The server cannot be started or reached."""


class FrameError(RpcError):
    """Received bytes are not a message. The next message is read."""
