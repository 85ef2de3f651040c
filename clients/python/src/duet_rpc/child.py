"""A child process as a server: its start, its log, and its end.

The end is a ladder. Each step waits for the exit for the time `grace`:

| step | action |
|---|---|
| 1 | close stdin; a server answers its running requests, and exits |
| 2 | SIGTERM to the process and the processes that it started |
| 3 | SIGKILL to the same |

On POSIX systems the process has a process group of its own, so the signals also reach the programs that a wrapper
script started. A process that outlives its parent by more than a second is killed, so nothing is left running.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ChildLink", "Command"]

_log = logging.getLogger("duet_rpc.server")
_IS_POSIX = sys.platform != "win32"
# Time for the last output of a process that has exited.
_SETTLE = 1.0
_PAUSE = 0.005
_KEPT_LINES = 10
_LONGEST_LINE = 4_096


def _log_line(line: str) -> None:
    _log.info("%s", line)


@dataclass(frozen=True)
class Command:
    """A program that speaks JSON-RPC on its stdin and stdout.

    `on_log` gets each line that it writes to stderr. By default, lines go to the logger `duet_rpc.server`.
    """

    argv: tuple[str | os.PathLike[str], ...]
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None
    on_log: Callable[[str], None] | None = None

    async def open(self, grace: float) -> ChildLink:
        """Start the program."""
        loop = asyncio.get_running_loop()
        argv = [os.fspath(word) for word in self.argv]
        options: dict[str, Any] = {"process_group": 0} if _IS_POSIX else {}
        try:
            _, protocol = await loop.subprocess_exec(
                lambda: _Protocol(limit=2**16, loop=loop),
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.cwd,
                env=None if self.env is None else dict(self.env),
                **options,
            )
        except (OSError, ValueError) as error:
            place = f" in {os.fspath(self.cwd)}" if self.cwd is not None else ""
            raise StartError(f"cannot start {argv[0]}{place}: {error}") from error
        return ChildLink(protocol, self.on_log or _log_line, grace)


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Streams of a process, and its exit. `Process.wait` would also wait for its pipes."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()
        self.is_killed = False
        self.transport: asyncio.SubprocessTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.SubprocessTransport):
            raise TypeError("not the transport of a process")
        self.transport = transport
        super().connection_made(transport)

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
        asyncio.get_running_loop().call_later(_SETTLE, self.close)

    def kill_group(self) -> None:
        """Kill what is left of the processes."""
        # Once only: later, the id may belong to another process.
        if not self.is_killed:
            self.is_killed = True
            self.signal_group(signal.SIGKILL if _IS_POSIX else signal.SIGTERM)

    def close(self) -> None:
        """Kill what is left of the processes, and end the streams that they may hold open."""
        self.kill_group()
        self.transport.close()

    async def group_ends(self) -> None:
        """Wait for the end of killed processes, which comes a moment after the signal."""
        for _ in range(int(_SETTLE / _PAUSE)):
            if not self.signal_group(0):
                return
            await asyncio.sleep(_PAUSE)

    def signal_group(self, number: int) -> bool:
        """Send a signal to the processes. Returns false if there are none."""
        try:
            if sys.platform != "win32":
                os.killpg(self.transport.get_pid(), number)
            elif number:
                self.transport.send_signal(number)
        except (ProcessLookupError, PermissionError):
            return False
        return _IS_POSIX


class ChildLink:
    """The streams of a running child process."""

    def __init__(self, protocol: _Protocol, on_log: Callable[[str], None], grace: float) -> None:
        if protocol.stdin is None or protocol.stdout is None or protocol.stderr is None:
            raise TypeError("a stream of the process is missing")
        self.writer = protocol.stdin
        self.reader = protocol.stdout
        self._protocol = protocol
        self._on_log = on_log
        self._grace = grace
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._logging = asyncio.create_task(self._read_log(protocol.stderr), name="duet_rpc stderr")

    @property
    def pid(self) -> int:
        """The process id."""
        return self._protocol.transport.get_pid()

    @property
    def exit_status(self) -> int | None:
        """The exit status; the negative signal number if a signal ended it; `None` while it runs."""
        return self._protocol.transport.get_returncode()

    async def end(self, reading: asyncio.Task[None]) -> str:
        """End the process by the ladder, and describe its exit."""
        self.writer.close()
        how = ""
        if not await self._exits():
            how = "; it was terminated, because it did not exit when its stdin was closed"
            self._protocol.signal_group(signal.SIGTERM)
            if not await self._exits():
                how = "; it was killed, because it did not exit when it was terminated"
                self._protocol.kill_group()
                # Closing before the exit would lose its status.
                await self._exits()
        await asyncio.wait([reading, self._logging], timeout=_SETTLE)
        self._protocol.close()
        await self._protocol.group_ends()
        return f"the server {self._describe()}{how}{self._last_lines()}"

    def kill(self) -> None:
        """Kill the process without waiting."""
        self._logging.cancel()
        self._protocol.close()

    async def _exits(self) -> bool:
        """Wait for the exit. Returns false if the process did not exit in time."""
        try:
            async with asyncio.timeout(self._grace):
                await self._protocol.exited.wait()
        except TimeoutError:
            return False
        return True

    def _describe(self) -> str:
        status = self.exit_status
        if status is None:
            return "did not exit"
        if status >= 0:
            return f"exited with status {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"

    def _last_lines(self) -> str:
        lines = "".join(f"\n  {line}" for line in self._lines)
        return f"; last lines of stderr:{lines}" if lines else ""

    async def _read_log(self, stderr: asyncio.StreamReader) -> None:
        line = bytearray()
        while chunk := await stderr.read(_LONGEST_LINE):
            first, *rest = chunk.split(b"\n")
            line += first
            for piece in rest:
                self._log(line)
                line = bytearray(piece)
            if len(line) > _LONGEST_LINE:
                self._log(line)
                line.clear()
        if line:
            self._log(line)

    def _log(self, line: bytearray) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self._lines.append(text)
        try:
            self._on_log(text)
        except Exception:
            # A callback that fails must not stop the reading of stderr.
            logging.getLogger("duet_rpc").exception("on_log failed")
