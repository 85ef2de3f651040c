"""Framings: `lsp` (Content-Length headers) and `ndjson` (one message per line).

`Decoder` is a state machine without I/O: bytes go in, messages and faults come out. A fault never ends the stream.
Bytes that are not a message give one fault for each run of them, and decoding goes on at the next message. The decoder
keeps at most one incomplete message, and never reserves memory for a length that was only announced.

| state | next byte belongs to | leaves it when |
|---|---|---|
| `HEAD` | headers, or a line | the headers end; a line is a message by itself |
| `BODY` | a body of known length | the body is complete |
| `SKIP` | a message that is too large | its bytes, or its line, have passed |
| `LOST` | bytes that are not headers | `Content-Length:` is found |
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from .errors import FrameError, MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_MESSAGE_BYTES", "Decoder", "Framing", "Received", "encode"]

Framing = Literal["lsp", "ndjson"]
"""The framing of messages on a stream."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Default limit of a message in either direction, in bytes."""

_MAX_HEAD = 8 * 1024
_HEADER = b"content-length:"
_LENGTH = re.compile(rb"(?:^|\r\n)content-length:[ \t]*([0-9]{1,15})[ \t]*(?:\r\n|$)")
_HEADS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9a-z-]+:[^\r\n]*(?:\r\n|$))+")


def encode(framing: Framing, message: object, limit: int = MAX_MESSAGE_BYTES) -> bytes:
    r"""Write a message with its framing.

    >>> encode("ndjson", {"jsonrpc": "2.0", "method": "tick"})
    b'{"jsonrpc":"2.0","method":"tick"}\n'
    """
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text.encode()
    if len(body) > limit:
        raise MessageTooLargeError(f"the message has {len(body)} bytes, and the limit is {limit}")
    if framing == "ndjson":
        return body + b"\n"
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@dataclass(frozen=True, slots=True)
class Received:
    """A JSON value that arrived."""

    value: Any


class _Step(Enum):
    """The end of a step without a message or a fault."""

    ON = auto()
    WAIT = auto()


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    SKIP = auto()
    LOST = auto()


class Decoder:
    r"""A decoder of one stream.

    >>> list(Decoder("ndjson").feed(b'{"id":1}\n[2'))
    [Received(value={'id': 1})]
    """

    def __init__(self, framing: Framing, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._framing = framing
        self._limit = limit
        self._bytes = bytearray()
        self._state = _State.HEAD
        self._left = 0
        self._searched = 0
        self._told = False

    @property
    def kept(self) -> int:
        """Number of buffered bytes."""
        return len(self._bytes)

    def feed(self, data: bytes) -> Iterator[Received | FrameError]:
        """Take a piece of the stream, of any size, and yield its messages and faults."""
        self._bytes += data
        step = self._line if self._framing == "ndjson" else self._frame
        while (found := step()) is not _Step.WAIT:
            if isinstance(found, FrameError):
                if not self._told:
                    yield found
                self._told = True
            elif isinstance(found, Received):
                yield found
                self._told = False

    def finish(self) -> Iterator[Received | FrameError]:
        """Yield the last line, or the fault of a stream that ended inside a message."""
        if self._framing == "ndjson" and self._state is _State.HEAD:
            yield from self.feed(b"\n")
        elif self._state in {_State.BODY, _State.SKIP} or (self._bytes and not self._told):
            yield FrameError("the stream ended inside a message")
        self._bytes.clear()

    def _line(self) -> Received | FrameError | _Step:
        end = self._bytes.find(b"\n", self._searched)
        size = len(self._bytes) if end < 0 else end
        is_skipped = self._state is _State.SKIP
        if size > self._limit and not is_skipped:
            self._state = _State.SKIP
            return FrameError(f"a line has more than {self._limit} bytes")
        if end < 0:
            if is_skipped:
                self._bytes.clear()
            self._searched = len(self._bytes)
            return _Step.WAIT
        line = self._take(end + 1)
        self._state = _State.HEAD
        if is_skipped or not line.strip():
            return _Step.ON
        return _parse(line)

    def _frame(self) -> Received | FrameError | _Step:
        if not self._bytes:
            return _Step.WAIT
        match self._state:
            case _State.HEAD:
                return self._head()
            case _State.LOST:
                return self._search()
            case _State.SKIP:
                self._left -= len(self._take(min(self._left, len(self._bytes))))
                if self._left == 0:
                    self._state = _State.HEAD
                return _Step.ON
            case _State.BODY:
                return self._body()

    def _head(self) -> Received | FrameError | _Step:
        end = self._bytes.find(b"\r\n\r\n", self._searched, _MAX_HEAD)
        head = bytes(self._bytes[: max(end, 0) or _MAX_HEAD]).lower()
        if end < 0:
            # Wait only for bytes that can still become headers.
            if len(self._bytes) < _MAX_HEAD and _may_be_head(head):
                self._searched = max(0, len(self._bytes) - 3)
                return _Step.WAIT
            return self._lose("bytes are not a header")
        length = _LENGTH.search(head) if _HEADS.fullmatch(head) else None
        if length is None:
            return self._lose("a header has no valid Content-Length")
        self._left = int(length[1])
        self._take(end + 4)
        if self._left > self._limit:
            self._state = _State.SKIP
            return FrameError(f"a message has {self._left} bytes, and the limit is {self._limit}")
        self._state = _State.BODY
        return self._body() if self._left == 0 else _Step.ON

    def _body(self) -> Received | FrameError | _Step:
        if len(self._bytes) < self._left:
            return _Step.WAIT
        parsed = _parse(self._bytes[: self._left])
        if isinstance(parsed, FrameError):
            # The length may be wrong, so the next header may be inside this body.
            self._state = _State.LOST
            return parsed
        self._take(self._left)
        self._state = _State.HEAD
        return parsed

    def _lose(self, why: str) -> FrameError:
        # A header that failed must not be found again.
        self._take(1)
        self._state = _State.LOST
        return FrameError(why)

    def _search(self) -> _Step:
        found = self._bytes.lower().find(_HEADER)
        if found >= 0:
            self._take(found)
            self._state = _State.HEAD
            return _Step.ON
        self._take(max(0, len(self._bytes) - len(_HEADER) + 1))
        return _Step.WAIT

    def _take(self, count: int) -> bytearray:
        taken = self._bytes[:count]
        del self._bytes[:count]
        self._searched = 0
        return taken


def _may_be_head(head: bytes) -> bool:
    """Return true if these bytes, in lower case, can begin a header block."""
    lines = head.split(b"\r\n")
    last = lines.pop()
    if lines and not _HEADS.fullmatch(b"\r\n".join(lines)):
        return False
    name, colon, value = last.partition(b":")
    if colon:
        return b"\n" not in value and _HEADS.fullmatch(name + b":") is not None
    return re.fullmatch(rb"[!#$%&'*+.^_`|~0-9a-z-]*\r?", name) is not None


def _parse(text: bytearray) -> Received | FrameError:
    try:
        return Received(json.loads(text.decode(), parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        # The text of a `UnicodeDecodeError` would show the payload.
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        return FrameError(f"a message is not JSON: {reason}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
