"""Requests and notifications from the server."""

from __future__ import annotations

import asyncio
from typing import Any

from duet_rpc import InternalError, MethodNotFoundError, NotFoundError, Options, RemoteError, RequestCancelledError

from .support import FRAMINGS, Case, script, testbed


class Serving(Case):
    """Handlers of the client."""

    async def test_the_server_calls_plain_and_async_handlers(self) -> None:
        for framing in FRAMINGS:
            async with testbed(framing=framing) as client:

                async def pick(params: Any) -> object:
                    await asyncio.sleep(0)
                    return params[0]

                client.on_request("pick", pick)
                client.on_request("double", lambda params: params["n"] * 2)
                client.on_request("none", lambda _: None)
                rows = [("pick", ["ü", 2], "ü"), ("double", {"n": 21}, 42), ("none", None, None)]
                for method, params, result in rows:
                    call = {"method": method, "params": params}
                    self.assertEqual(await client.call("system.callback", call), result)

    async def test_a_handler_may_call_the_server(self) -> None:
        async with testbed() as client:
            client.on_request("version", lambda _: client.call("version"))
            result = await client.call("system.callback", {"method": "version"})
            self.assertEqual(result, {"version": "0.1.0"})

    async def test_errors_of_handlers_are_sent(self) -> None:
        problems: list[Exception] = []

        def fail(error: Exception) -> None:
            raise error

        async with testbed(options=Options(on_problem=problems.append)) as client:
            client.on_request("typed", lambda _: fail(NotFoundError("no such pet", data={"id": 7})))
            client.on_request("code", lambda _: fail(RemoteError("Full", code=1001)))
            client.on_request("bug", lambda _: fail(ZeroDivisionError("secret")))
            client.on_request("not-json", lambda _: object())
            with self.assertRaises(NotFoundError) as typed:
                await client.call("system.callback", {"method": "typed"})
            self.assertEqual((typed.exception.message, typed.exception.data), ("no such pet", {"id": 7}))
            with self.assertRaises(RemoteError) as code:
                await client.call("system.callback", {"method": "code"})
            self.assertEqual((code.exception.code, code.exception.data), (1001, None))
            for method in ("bug", "not-json"):
                with self.assertRaises(InternalError) as internal:
                    await client.call("system.callback", {"method": method})
                self.assertNotIn("secret", str(internal.exception))
            with self.assertRaises(MethodNotFoundError):
                await client.call("system.callback", {"method": "missing"})
        self.assertEqual([type(problem) for problem in problems], [ZeroDivisionError, TypeError])

    async def test_handlers_are_removed(self) -> None:
        async with testbed() as client:
            remove = client.on_request("pick", lambda _: 1)
            with self.assertRaises(ValueError):
                client.on_request("pick", lambda _: 2)
            remove()
            remove()
            with self.assertRaises(MethodNotFoundError):
                await client.call("system.callback", {"method": "pick"})

    async def test_the_server_cancels_a_handler(self) -> None:
        cancelled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        begun = asyncio.Event()

        async def wait(_: Any) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set_result(True)
                raise

        async with testbed() as client:
            client.on_request("wait", wait)
            call = asyncio.create_task(client.call("system.callback", {"method": "wait"}))
            await begun.wait()
            # The daemon cancels its call when its own request is cancelled.
            call.cancel()
            self.assertTrue(await cancelled)

    async def test_a_request_that_is_cancelled_before_it_begins_is_answered(self) -> None:
        text = """
first = next(lines)
sys.stdout.write('{"id":"s","method":"wait"}\\n{"method":"$/cancelRequest","params":{"id":"s"}}\\n')
sys.stdout.flush()
send({"id": first["id"], "result": next(lines)})
"""
        async with script(text) as client:
            client.on_request("wait", lambda _: asyncio.Event().wait())
            answer = await client.call("m")
        code = RequestCancelledError.default_code
        error = {"code": code, "message": "Request cancelled"}
        self.assertEqual(answer, {"jsonrpc": "2.0", "id": "s", "error": error})

    async def test_notifications_arrive_once_and_in_order(self) -> None:
        for framing in FRAMINGS:
            heard: list[Any] = []
            async with testbed(framing=framing) as client:
                remove = client.on_notification("test.event", heard.append)
                self.assertEqual(await client.call("test.emit", {"count": 1_000}), 1_000)
                remove()
                await client.call("test.emit", {"count": 10})
            self.assertEqual(heard, [[number] for number in range(1, 1_001)])

    async def test_a_handler_that_fails_does_not_stop_the_others(self) -> None:
        problems: list[Exception] = []
        heard: list[int] = []

        async def fail(_: Any) -> None:
            raise ZeroDivisionError

        async with testbed(options=Options(on_problem=problems.append)) as client:
            client.on_notification("test.event", lambda _: 1 // 0)
            client.on_notification("test.event", fail)
            client.on_notification("test.event", lambda params: heard.append(params[0]))
            await client.call("test.emit", {"count": 3})
        self.assertEqual((heard, len(problems)), ([1, 2, 3], 6))

    async def test_reading_waits_for_handlers_and_loses_nothing(self) -> None:
        running = most = 0
        done = asyncio.Event()
        heard: list[int] = []

        async def hear(params: Any) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            heard.append(params[0])
            if len(heard) == 1_000:
                done.set()

        text = "send(*({'method': 'n', 'params': [n]} for n in range(1000))); next(lines)"
        client = script(text, options=Options(max_handlers=10))
        client.on_notification("n", hear)
        async with client:
            await done.wait()
        self.assertEqual(heard, list(range(1_000)))
        self.assertEqual(most, 10)

    async def test_while_a_call_is_pending_too_many_requests_are_refused(self) -> None:
        text = """
first = next(lines)
send(*({"id": n, "method": "wait"} for n in range(4)), {"method": "n"})
codes = sorted((line["id"], line["error"]["code"]) for line in (next(lines), next(lines)))
send({"id": first["id"], "result": codes})
"""
        problems: list[Exception] = []
        async with script(text, options=Options(max_handlers=2, on_problem=problems.append)) as client:
            client.on_request("wait", lambda _: asyncio.Event().wait())
            client.on_notification("n", lambda _: None)
            self.assertEqual(await client.call("m"), [[2, -32000], [3, -32000]])
        self.assertRegex(str(problems), "notification n was dropped")

    async def test_a_batch_is_answered_with_one_batch(self) -> None:
        text = """
first = next(lines)
batch = [{"id": "a", "method": "double", "params": [1]}, {"method": "n"}, 7, {"id": "b", "method": "no"},
         {"id": [], "method": "double"}]
sys.stdout.write(json.dumps(batch) + "\\n[]\\n")
sys.stdout.flush()
answer = next(lines)
send({"id": first["id"], "result": [(entry["id"], entry.get("result")) for entry in answer]})
"""
        problems: list[Exception] = []
        heard: list[Any] = []
        async with script(text, options=Options(on_problem=problems.append)) as client:
            client.on_request("double", lambda params: params[0] * 2)
            client.on_notification("n", heard.append)
            self.assertEqual(await client.call("m"), [["a", 2], ["b", None]])
        self.assertEqual((heard, len(problems)), ([None], 3))
