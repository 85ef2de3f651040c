"""Calls and notifications to the real daemon."""

from __future__ import annotations

import asyncio
import unittest
from typing import ClassVar

from duet_rpc import (
    CallTimeoutError,
    Client,
    Connection,
    InvalidParamsError,
    InvalidResponseError,
    MessageTooLargeError,
    MethodNotFoundError,
    Options,
    RemoteError,
    RequestCancelledError,
    StreamLink,
)

from .support import FRAMINGS, HOUR, Case, listening, program, script, testbed


class DiskFullError(RemoteError):
    """An error of an application."""

    default_code: ClassVar[int] = 1001


async def a_thousand_at_once(client: Client | Connection) -> None:
    """Make 1,000 calls at once, and check each result."""
    texts = [f"{number} ü🦀 \u2028" for number in range(1_000)]
    results = await asyncio.gather(*(client.call("system.echo", [text]) for text in texts))
    if results != [[text] for text in texts]:
        raise AssertionError("a result belongs to another call")


class Calls(Case):
    """Calls over every transport and framing."""

    async def test_params_by_name_by_position_and_none(self) -> None:
        for framing in FRAMINGS:
            async with testbed(framing=framing) as client:
                self.assertEqual(await client.call("version"), {"version": "0.1.0"})
                self.assertEqual(await client.call("test.sleep", {"ms": 1}), 1)
                self.assertEqual(await client.call("test.sleep", [2]), 2)
                self.assertEqual(await client.call("test.sleep", (3,)), 3)
                self.assertEqual(await client.call("system.echo", {}), {})
                with self.assertRaisesRegex(TypeError, "not a string"):
                    await client.call("system.echo", "text")
            self.assertEqual(client.exit_status, 0)

    async def test_a_thousand_calls_at_once_over_pipes(self) -> None:
        for framing in FRAMINGS:
            async with testbed(framing=framing) as client:
                await a_thousand_at_once(client)

    async def test_a_thousand_calls_at_once_over_sockets(self) -> None:
        async with listening("tcp://127.0.0.1:0") as url, Client.connect(url, framing="ndjson") as client:
            await a_thousand_at_once(client)

    async def test_a_connection_over_streams_of_the_caller(self) -> None:
        async with listening("tcp://127.0.0.1:0") as url:
            host, _, port = url.removeprefix("tcp://").rpartition(":")
            streams = await asyncio.open_connection(host, int(port.strip("/")))
            async with Connection(StreamLink(*streams), framing="ndjson") as connection:
                await a_thousand_at_once(connection)
            self.assertEqual(connection.end, "the connection was closed")

    async def test_errors_have_a_class_for_their_code(self) -> None:
        async with testbed() as client:
            with self.assertRaises(MethodNotFoundError) as missing:
                await client.call("no.such.method")
            self.assertEqual(str(missing.exception), "Method not found: no.such.method (-32601)")
            with self.assertRaises(InvalidParamsError) as wrong:
                await client.call("test.sleep", {"ms": "x"})
            self.assertEqual(wrong.exception.data["param"], "ms")
            params = {"code": 1001, "message": "no 🦀", "data": {"free": [0]}}
            with self.assertRaises(DiskFullError) as full:
                await client.call("test.fail", params, errors={1001: DiskFullError})
            self.assertEqual((full.exception.message, full.exception.data), ("no 🦀", {"free": [0]}))
            with self.assertRaises(RemoteError) as plain:
                await client.call("test.fail", params)
            self.assertIs(type(plain.exception), RemoteError)
            self.assertEqual(plain.exception.code, 1001)

    async def test_a_timeout_cancels_the_request(self) -> None:
        # One request at a time: the next one runs only if the first was cancelled.
        async with testbed(profile="editor", options=Options(timeout=0.05)) as client:
            with self.assertRaisesRegex(CallTimeoutError, r"test.sleep was not answered within 0.05 s"):
                await client.call("test.sleep", {"ms": HOUR})
            self.assertEqual(await client.call("version", timeout=None), {"version": "0.1.0"})
            with self.assertRaises(TimeoutError):
                await client.call("test.sleep", {"ms": HOUR}, timeout=0.01)
            self.assertEqual(await client.call("version", timeout=None), {"version": "0.1.0"})

    async def test_cancelling_the_task_cancels_the_request(self) -> None:
        async with testbed(profile="editor") as client:
            task = asyncio.create_task(client.call("test.sleep", {"ms": HOUR}))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(await client.call("version"), {"version": "0.1.0"})

    async def test_each_style_of_cancelling_has_its_form(self) -> None:
        lsp = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}
        mcp = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        text = "next(lines); got = next(lines); send({'id': got.get('id', 2), 'result': got})"
        for style, expected in (("lsp", lsp), ("mcp", mcp)):
            async with script(text, options=Options(cancel=style)) as client:  # type: ignore[arg-type]
                with self.assertRaises(CallTimeoutError):
                    await client.call("first", timeout=0)
                self.assertEqual(await client.call("second"), expected)
        async with script(text, options=Options(cancel=None)) as client:
            with self.assertRaises(CallTimeoutError):
                await client.call("first", timeout=0.01)
            self.assertEqual((await client.call("second"))["method"], "second")

    async def test_a_request_that_was_not_sent_is_not_cancelled(self) -> None:
        async with script("got = next(lines); send({'id': got['id'], 'result': got['method']})") as client:
            task = asyncio.create_task(client.call("first"))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(await client.call("second"), "second")

    async def test_a_late_answer_to_a_cancelled_request_is_ignored(self) -> None:
        problems: list[Exception] = []
        async with testbed(options=Options(cancel=None, on_problem=problems.append)) as client:
            with self.assertRaises(CallTimeoutError):
                await client.call("test.sleep", {"ms": 50}, timeout=0.01)
            self.assertEqual(await client.call("test.sleep", {"ms": 60}), 60)
        self.assertEqual(problems, [])

    async def test_the_remote_may_cancel_a_request(self) -> None:
        async with script("send({'id': next(lines)['id'], 'error': {'code': -32800, 'message': 'no'}})") as client:
            with self.assertRaises(RequestCancelledError):
                await client.call("m")

    async def test_a_message_that_is_too_large_or_not_json_is_not_sent(self) -> None:
        async with testbed(options=Options(max_message_bytes=1_000)) as client:
            with self.assertRaisesRegex(MessageTooLargeError, "and the limit is 1000"):
                await client.call("system.echo", ["x" * 1_000])
            for value in (object(), float("nan"), {1, 2}):
                with self.assertRaises((TypeError, ValueError)):
                    await client.call("system.echo", [value])
            self.assertEqual(await client.call("system.echo", [1]), [1])

    async def test_an_answer_that_is_too_large_is_a_problem_and_the_next_is_read(self) -> None:
        problems: list[str] = []
        options = Options(max_message_bytes=1_000, on_problem=lambda problem: problems.append(str(problem)))
        for framing in FRAMINGS:
            async with testbed(framing=framing, options=options) as client:
                with self.assertRaises(CallTimeoutError):
                    await client.call("test.big", {"bytes": 100_000}, timeout=0.5)
                self.assertEqual(await client.call("system.ping"), "pong")
        self.assertEqual(len(problems), 2)
        self.assertTrue(all("1000" in problem for problem in problems), problems)

    async def test_large_messages_pass_in_both_directions(self) -> None:
        async with testbed("--max-message-bytes", "9000000") as client:
            text = "ü" * 4_000_000
            self.assertEqual(await client.call("system.echo", [text]), [text])
            self.assertEqual(len(await client.call("test.big", {"bytes": 8_000_000})), 8_000_000)

    async def test_stray_prints_are_a_problem_and_the_next_message_is_read(self) -> None:
        problems: list[Exception] = []
        options = Options(on_problem=problems.append)
        text = "for line in lines: print('Hello: 1'); send({'id': line['id'], 'result': 1})"
        async with script(text, options=options) as client:
            for _ in range(3):
                self.assertEqual(await client.call("m"), 1)
        self.assertEqual(len(problems), 3, problems)

    async def test_responses_that_are_not_responses(self) -> None:
        rows = ["{}", "{'result': 1, 'error': {'code': 1, 'message': ''}}", "{'error': 5}", "{'error': {'code': '1'}}"]
        for row in rows:
            async with script(f"send({{'id': next(lines)['id'], **{row}}}); next(lines)") as client:
                with self.assertRaises(InvalidResponseError):
                    await client.call("m")

    async def test_ids_are_compared_with_their_type(self) -> None:
        problems: list[Exception] = []
        text = """
number = next(lines)["id"]
for other in (float(number), str(number), True, [number], {}, None, number + 1):
    send({"id": other, "result": "wrong"})
send({"id": number, "result": "right"}, {"id": number, "result": "again"})
send({"id": next(lines)["id"], "result": "end"})
"""
        async with script(text, options=Options(on_problem=problems.append)) as client:
            self.assertEqual(await client.call("m"), "right")
            self.assertEqual(await client.call("m"), "end")
        self.assertEqual(len(problems), 8, problems)

    async def test_an_error_without_an_id_is_a_problem(self) -> None:
        problems: list[Exception] = []
        text = """
line = next(lines)
send({"id": None, "error": {"code": -32600, "message": "Invalid Request"}}, {"id": line["id"], "result": 1})
"""
        async with script(text, options=Options(on_problem=problems.append)) as client:
            self.assertEqual(await client.call("m"), 1)
        self.assertEqual([str(problem) for problem in problems], ["Invalid Request (-32600)"])

    async def test_notifications_are_sent(self) -> None:
        lines: list[str] = []
        async with testbed(on_log=lines.append) as client:
            await client.notify("no.such.method", {"a": 1})
            self.assertEqual(await client.call("system.ping"), "pong")
        self.assertTrue(any("method=no.such.method" in line for line in lines), lines)

    async def test_the_daemon_itself_is_served(self) -> None:
        client = Client.spawn(program("DUET_RPC"), "rpc", framing="lsp")
        async with client:
            self.assertEqual(await client.call("version"), {"version": "0.1.0"})
        self.assertEqual(client.exit_status, 0)


class Sockets(Case):
    """Addresses of listening servers."""

    def test_addresses_are_checked(self) -> None:
        for url in ("", "tcp://", "tcp://host", "http://host:1", "unix://host/path", "tcp://host:1/path"):
            with self.assertRaises(ValueError):
                Client.connect(url, framing="lsp")

    def test_options_are_checked(self) -> None:
        rows = [{"timeout": -1}, {"grace": float("nan")}, {"max_handlers": 0}, {"give_up_after": -1}]
        for row in rows:
            with self.assertRaises(ValueError):
                Options(**row)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        with self.assertRaises(ValueError):
            Client.spawn(framing="lsp")
        with self.assertRaises(ValueError):
            Client.spawn("x", framing="length")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    unittest.main()
