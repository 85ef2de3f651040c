"""Helpers for all tests.

Environment: DUET_RPC is the daemon, TESTBED the daemon with methods that misbehave on purpose, PATIENCE the time limit
of a test in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import subprocess
import sys
import unittest
from typing import TYPE_CHECKING

from duet_rpc import Client, Framing, Options, StateChange

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

PATIENCE = float(os.environ.get("PATIENCE", "60"))
HOUR = 3_600_000
FRAMINGS: tuple[Framing, ...] = ("lsp", "ndjson")


def program(name: str) -> str:
    """Return the path of a program that the environment names."""
    path = os.environ.get(name)
    if not path:
        raise RuntimeError(f"set the environment variable {name} to the path of the program")
    return path


class Case(unittest.IsolatedAsyncioTestCase):
    """A test that ends the process if it hangs."""

    def setUp(self) -> None:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)

    async def asyncSetUp(self) -> None:
        # Debug mode reports each step that takes 100 ms, which a busy machine does.
        asyncio.get_running_loop().slow_callback_duration = PATIENCE

    def tearDown(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def testbed(
    *args: str,
    profile: str = "agent",
    framing: Framing = "ndjson",
    options: Options | None = None,
    on_log: Callable[[str], None] | None = None,
) -> Client:
    """Return a client of the test bed."""
    words = ("--profile", profile, "--framing", framing, *args)
    return Client.spawn(program("TESTBED"), *words, framing=framing, options=options, on_log=on_log)


def script(text: str, *args: str, framing: Framing = "ndjson", options: Options | None = None) -> Client:
    """Return a client of a Python script. `send` and `lines` are defined in it."""
    prelude = """
import json, os, signal, sys, time
def send(*messages):
    for message in messages:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()
lines = map(json.loads, sys.stdin)
"""
    return Client.spawn(sys.executable, "-c", prelude + text, *args, framing=framing, options=options)


@contextlib.asynccontextmanager
async def listening(scheme: str) -> AsyncGenerator[str]:
    """Run a test bed that listens, and give its address. It ends with this process, even if a test hangs."""
    words = (program("TESTBED"), "--profile", "agent", "--listen", scheme, f"--exit-with-parent={os.getpid()}")
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    try:
        if process.stderr is None:
            raise RuntimeError("no stderr")
        while b"listening on " not in (line := await process.stderr.readline()):
            if not line:
                raise RuntimeError("the test bed does not listen")
        yield line.decode().split("listening on ")[1].split()[0]
    finally:
        process.kill()
        await process.wait()


def next_state(client: Client, state: str) -> asyncio.Future[StateChange]:
    """Return the next change to a state."""
    future: asyncio.Future[StateChange] = asyncio.get_running_loop().create_future()

    def listen(change: StateChange) -> None:
        if change.state == state and not future.done():
            future.set_result(change)
            remove()

    remove = client.on_state(listen)
    return future


def is_alive(pid: int) -> bool:
    """Return true if the process runs. A process that nobody has waited for yet does not."""
    words = ["ps", "-o", "stat=", "-p", str(pid)]
    output = subprocess.run(words, capture_output=True, check=False, text=True).stdout  # noqa: S603
    return output.strip()[:1] not in {"", "Z"}
