"""Start, crash, restart and end of a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from duet_rpc import (
    Backoff,
    Client,
    Connection,
    ConnectionLostError,
    NotRunningError,
    Options,
    OverloadedError,
    RpcError,
    StartError,
    StateChange,
)

from .support import HOUR, Case, is_alive, listening, next_state, program, script, testbed

QUICK = Backoff(first=0.001, most=0.001)
INTERRUPTED = """
import asyncio, os, sys
from duet_rpc import Client, Command
async def main():
    command = Command((os.environ["TESTBED"], "--profile", "agent"))
    link = await command.open(5)
    client = Client(Opened(link), framing="ndjson")
    await client.start()
    call = asyncio.create_task(client.call("test.sleep", {"ms": 3600000}))
    print(link.pid, flush=True)
    await call
class Opened:
    def __init__(self, link):
        self.link = link
    async def open(self, grace):
        return self.link
try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
"""
PID = "send({'id': next(lines)['id'], 'result': os.getpid()})\n"


class Start(Case):
    """The first start."""

    async def test_a_client_starts_once_and_can_start_again(self) -> None:
        client = testbed()
        states: list[str] = []
        client.on_state(lambda change: states.append(change.state))
        with self.assertRaisesRegex(NotRunningError, "the client is stopped"):
            await client.call("version")
        for _ in range(2):
            await asyncio.gather(client.start(), client.start())
            await client.start()
            stop = asyncio.create_task(client.stop())
            await asyncio.sleep(0)
            with self.assertRaises(NotRunningError):
                await client.call("version")
            with self.assertRaises(NotRunningError):
                await client.start()
            self.assertEqual(await asyncio.gather(stop, client.stop()), [0, 0])
        self.assertEqual(states, ["starting", "running", "stopping", "stopped"] * 2)

    async def test_calls_wait_for_the_start(self) -> None:
        client = testbed(options=Options(max_waiting=3))
        start = asyncio.create_task(client.start())
        await asyncio.sleep(0)
        calls = [asyncio.create_task(client.call("system.ping")) for _ in range(2)]
        await asyncio.sleep(0)
        with self.assertRaises(OverloadedError):
            await client.call("system.ping")
        with self.assertRaises(NotRunningError):
            await client.notify("version")
        self.assertEqual(await asyncio.gather(*calls), ["pong", "pong"])
        await start
        await client.stop()

    async def test_a_program_that_cannot_be_started_is_named(self) -> None:
        rows: list[tuple[Client, str]] = [
            (Client.spawn("/no/such/program", framing="lsp"), "cannot start /no/such/program: .*No such file"),
            (Client.spawn("/", framing="lsp"), "cannot start /: .*Permission denied"),
            (Client.spawn(sys.executable, framing="lsp", cwd="/no/such/folder"), "in /no/such/folder"),
            (Client.connect("unix:///no/such/socket", framing="lsp"), "cannot connect to unix:///no/such/socket"),
        ]
        for client, text in rows:
            with self.assertRaisesRegex(StartError, text):
                await client.start()
            self.assertEqual(client.state, "failed")
            with self.assertRaisesRegex(NotRunningError, text):
                await client.call("version")
            await client.stop()
            self.assertEqual(client.state, "stopped")

    async def test_a_setup_that_fails_ends_the_server(self) -> None:
        pids: list[int] = []

        async def fail(connection: Connection) -> None:
            pids.append(await connection.call("m"))
            raise ZeroDivisionError

        async def hang(connection: Connection) -> None:
            pids.append(await connection.call("m"))
            await asyncio.Event().wait()

        async def lose(connection: Connection) -> None:
            pids.append(await connection.call("m"))
            await connection.call("m")

        rows = [(fail, "the setup of the server failed: ZeroDivisionError"), (hang, "did not start within 0.5 s")]
        for setup, text in [*rows, (lose, "exited with status 3; last lines of stderr:\n  so long")]:
            options = Options(setup=setup, start_timeout=0.5)
            client = script(PID + "next(lines, 0)\nprint('so long', file=sys.stderr); sys.exit(3)", options=options)
            with self.assertRaisesRegex(RpcError, text):
                await client.start()
            self.assertEqual((client.state, client.exit_status), ("failed", 3))
            self.assertFalse(is_alive(pids[-1]))


class Crash(Case):
    """Restarts."""

    async def test_pending_calls_fail_and_the_server_restarts(self) -> None:
        pids: list[int] = []
        changes: list[StateChange] = []

        async def setup(connection: Connection) -> None:
            pids.append(await connection.call("m"))

        client = script(PID + "next(lines); sys.exit('bye')", options=Options(setup=setup, backoff=QUICK))
        client.on_state(changes.append)
        async with client:
            for count in range(1, 6):
                with self.assertRaisesRegex(ConnectionLostError, "exited with status 1; last lines.*\n  bye"):
                    await client.call("m")
                if count < 5:
                    # Calls that are made before the restart wait for it.
                    await next_state(client, "running")
        self.assertEqual(len(set(pids)), 5)
        waiting = [change for change in changes if change.state == "waiting"]
        self.assertEqual([change.crashes for change in waiting][:4], [1, 2, 3, 4])
        self.assertTrue(all(change.delay is not None and change.delay <= 0.001 for change in waiting))

    async def test_a_call_right_after_a_crash_waits_for_the_restart(self) -> None:
        text = """
for line in lines:
    if line["method"] == "die": os._exit(7)
    if line["method"] == "half":
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        os._exit(8)
    send({"id": line["id"], "result": line["params"]})
"""
        async with script(text, options=Options(backoff=QUICK, give_up_after=100)) as client:
            for method in ("die", "half"):
                with self.assertRaises(ConnectionLostError):
                    await client.call(method)
                # The client may not have noticed the end yet. Nothing was sent, so the call is not lost.
                self.assertEqual(await client.call("echo", [method]), [method])

            async def ask(number: int) -> object:
                # The crash may take a call with it that was sent already.
                with contextlib.suppress(ConnectionLostError):
                    return await client.call("echo", [number])
                return await client.call("echo", [number])

            for _ in range(3):
                crash = asyncio.create_task(client.call("die"))
                answers = await asyncio.gather(*(ask(number) for number in range(100)))
                self.assertEqual(answers, [[number] for number in range(100)])
                with self.assertRaises(ConnectionLostError):
                    await crash

    async def test_after_too_many_crashes_the_client_gives_up_until_the_next_start(self) -> None:
        client = script("next(lines); sys.exit(4)", options=Options(give_up_after=1, backoff=QUICK))
        await client.start()
        waiting = next_state(client, "waiting")
        with self.assertRaises(ConnectionLostError):
            await client.call("m")
        await waiting
        failed = next_state(client, "failed")
        with self.assertRaises(ConnectionLostError):
            await client.call("m")
        self.assertRegex(str((await failed).error), "crashed 2 times in a row; last error: .*status 4")
        with self.assertRaisesRegex(NotRunningError, "crashed 2 times"):
            await client.call("m")
        await client.start()
        self.assertEqual(client.state, "running")
        await client.stop()

    async def test_calls_that_wait_for_a_restart_end_with_a_stop_a_timeout_or_giving_up(self) -> None:
        options = Options(backoff=Backoff(first=HOUR, most=HOUR))
        client = script("next(lines); sys.exit(4)", options=options)
        await client.start()
        waiting = next_state(client, "waiting")
        with self.assertRaises(ConnectionLostError):
            await client.call("m")
        self.assertGreaterEqual((await waiting).delay or 0, HOUR / 2)
        with self.assertRaises(TimeoutError):
            await client.call("m", timeout=0.01)
        call = asyncio.create_task(client.call("m"))
        await asyncio.sleep(0)
        self.assertEqual(await client.stop(), 4)
        with self.assertRaisesRegex(NotRunningError, "the client was stopped"):
            await call

    async def test_a_stable_server_starts_the_count_again(self) -> None:
        options = Options(give_up_after=1, backoff=QUICK, stable_after=0)
        client = script("next(lines); sys.exit(4)", options=options)
        async with client:
            for _ in range(4):
                running = next_state(client, "running")
                with self.assertRaises(ConnectionLostError):
                    await client.call("m")
                await running

    async def test_answers_before_a_crash_are_received(self) -> None:
        text = (
            "got = [next(lines)['id'] for _ in range(100)]; send(*({'id': n, 'result': n} for n in got)); os._exit(5)"
        )
        async with script(text, options=Options(give_up_after=0)) as client:
            results = await asyncio.gather(*(client.call("m") for _ in range(100)))
        self.assertEqual(results, list(range(1, 101)))
        self.assertEqual(client.exit_status, 5)

    async def test_a_signal_is_named(self) -> None:
        async with testbed(options=Options(give_up_after=0)) as client:
            client.on_request("die", lambda _: None)
            with self.assertRaisesRegex(ConnectionLostError, "was ended by SIGKILL"):
                pid = (await asyncio.to_thread(children_of, os.getpid()))[-1]
                call = asyncio.create_task(client.call("test.sleep", {"ms": HOUR}))
                await asyncio.sleep(0)
                os.kill(pid, signal.SIGKILL)
                await call
        self.assertEqual(client.exit_status, -signal.SIGKILL)

    async def test_a_socket_is_connected_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            url = f"unix://{folder}/socket"
            options = Options(backoff=QUICK, give_up_after=10_000)
            async with listening(url) as address:
                client = Client.connect(address, framing="ndjson", options=options)
                await client.start()
                self.assertEqual(await client.call("system.ping"), "pong")
                waiting = next_state(client, "waiting")
                call = asyncio.create_task(client.call("test.sleep", {"ms": HOUR}))
                await asyncio.sleep(0)
            with self.assertRaisesRegex(ConnectionLostError, "the remote closed the connection"):
                await call
            await waiting
            await asyncio.to_thread(Path(folder, "socket").unlink, missing_ok=True)
            async with listening(url):
                self.assertEqual(await client.call("system.ping"), "pong")
                await client.stop()


def children_of(pid: int) -> list[int]:
    """Return the ids of the child processes, oldest first."""
    words = ["ps", "-o", "pid=", "--ppid", str(pid), "--sort=start_time"]
    output = subprocess.run(words, capture_output=True, check=True, text=True).stdout  # noqa: S603
    found = [int(word) for word in output.split()]
    return [child for child in found if is_alive(child)]


class End(Case):
    """Nothing is left running."""

    async def test_a_running_request_is_answered_at_stop(self) -> None:
        client = testbed()
        await client.start()
        call = asyncio.create_task(client.call("test.sleep", {"ms": 50}))
        await asyncio.sleep(0)
        self.assertEqual(await client.stop(), 0)
        self.assertEqual(await call, 50)

    async def test_teardown_runs_before_the_end(self) -> None:
        async def teardown(connection: Connection) -> None:
            await connection.call("shutdown")
            raise ZeroDivisionError

        problems: list[Exception] = []
        options = Options(teardown=teardown, on_problem=problems.append)
        async with Client.spawn(program("DUET_RPC"), "rpc", framing="lsp", options=options) as client:
            pass
        self.assertEqual(client.exit_status, 0)
        self.assertEqual([type(problem) for problem in problems], [ZeroDivisionError])

    async def test_a_server_that_does_not_exit_is_terminated_and_then_killed(self) -> None:
        wait = PID + "while True: time.sleep(1)"
        deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + wait
        for text, status in ((wait, -signal.SIGTERM), (deaf, -signal.SIGKILL)):
            client = script(text, options=Options(grace=0.1))
            await client.start()
            pid = await client.call("m")
            call = asyncio.create_task(client.call("m"))
            await asyncio.sleep(0)
            self.assertEqual(await client.stop(), status)
            self.assertFalse(is_alive(pid))
            with self.assertRaisesRegex(ConnectionLostError, "did not exit when"):
                await call

    async def test_processes_of_the_server_are_ended_too(self) -> None:
        text = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(3600)"])
send({"id": next(lines)["id"], "result": child.pid})
"""
        for end in ("next(lines, 0)", "next(lines); os._exit(1)"):
            client = script(text + end, options=Options(give_up_after=0))
            await client.start()
            pid = await client.call("m")
            if "os._exit" in end:
                with self.assertRaises(ConnectionLostError):
                    await client.call("m")
            await client.stop()
            self.assertFalse(is_alive(pid))

    def test_an_interrupted_program_leaves_nothing(self) -> None:
        for number in (signal.SIGINT, signal.SIGKILL):
            with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE) as process:  # noqa: S603
                pid = int(process.stdout.readline()) if process.stdout else 0
                process.send_signal(number)
                process.wait()
            # After SIGKILL, the daemon ends because its stdin ends.
            while number == signal.SIGKILL and is_alive(pid):
                time.sleep(0.01)
            self.assertFalse(is_alive(pid))

    async def test_stop_works_at_each_moment_of_a_start(self) -> None:
        client = testbed()
        for turns in range(1, 40):
            start = asyncio.create_task(client.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            await client.stop()
            await asyncio.wait([start])
            self.assertIn(type(start.exception()), (type(None), NotRunningError))
            self.assertEqual(client.state, "stopped")
        self.assertEqual(await asyncio.to_thread(children_of, os.getpid()), [])

    async def test_a_start_that_is_cancelled_leaves_nothing(self) -> None:
        async def hang(_: Connection) -> None:
            await asyncio.Event().wait()

        client = testbed(options=Options(setup=hang))
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.1), client:
                pass
        self.assertEqual(client.state, "stopped")
        self.assertEqual(await asyncio.to_thread(children_of, os.getpid()), [])

    async def test_a_listener_may_start_and_stop_the_client(self) -> None:
        client = testbed(options=Options(give_up_after=0))
        started: list[asyncio.Task[None]] = []

        def listen(change: StateChange) -> None:
            if change.state == "failed":
                started.append(asyncio.create_task(client.start()))
            raise ZeroDivisionError

        client.on_state(listen)
        await client.start()
        failed = next_state(client, "failed")
        os.kill((await asyncio.to_thread(children_of, os.getpid()))[-1], signal.SIGKILL)
        await failed
        await asyncio.gather(*started)
        self.assertEqual(await client.call("system.ping"), "pong")
        self.assertEqual(await client.stop(), 0)
