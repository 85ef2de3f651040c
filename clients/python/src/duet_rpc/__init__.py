"""Typed JSON-RPC 2.0 client for asyncio.

`Client` keeps a server, which is a child process or listens on a socket. Both sides can call each other.
"""

from .child import Command
from .client import Backoff, Client, Options, State, StateChange
from .connection import Connection
from .errors import (
    CODES,
    CallTimeoutError,
    ConnectionLostError,
    FrameError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    InvalidResponseError,
    MessageTooLargeError,
    MethodNotFoundError,
    NotFoundError,
    NotRunningError,
    OverloadedError,
    ParseError,
    RemoteError,
    RequestCancelledError,
    RpcError,
    ServerBusyError,
    StartError,
    remote_error,
)
from .framing import MAX_MESSAGE_BYTES, Decoder, Framing, Received, encode
from .handlers import Handler, Handlers
from .link import Address, Endpoint, Link, StreamLink
from .peer import DEFAULT, CancelStyle, Default, Errors, Params, Peer, arguments, by_name, by_position

__all__ = [
    "CODES",
    "DEFAULT",
    "MAX_MESSAGE_BYTES",
    "Address",
    "Backoff",
    "CallTimeoutError",
    "CancelStyle",
    "Client",
    "Command",
    "Connection",
    "ConnectionLostError",
    "Decoder",
    "Default",
    "Endpoint",
    "Errors",
    "FrameError",
    "Framing",
    "Handler",
    "Handlers",
    "InternalError",
    "InvalidParamsError",
    "InvalidRequestError",
    "InvalidResponseError",
    "Link",
    "MessageTooLargeError",
    "MethodNotFoundError",
    "NotFoundError",
    "NotRunningError",
    "Options",
    "OverloadedError",
    "Params",
    "ParseError",
    "Peer",
    "Received",
    "RemoteError",
    "RequestCancelledError",
    "RpcError",
    "ServerBusyError",
    "StartError",
    "State",
    "StateChange",
    "StreamLink",
    "arguments",
    "by_name",
    "by_position",
    "encode",
    "remote_error",
]
