"""Test of the daemon with the standard library of Python alone: starts the daemon and sends one message per
line, in the agent profile (F2, F5, F20, F21, M1, M2, M5, M6, M10, E2, L2, L3, L4, P3, P4).

Environment: TESTBED is the daemon with the methods of the test bed, PATIENCE the time limit in seconds. Exits
with 0 if and only if all checks passed.
"""

import asyncio
import json
import os
import signal
import sys


def number(text):
    """A number as written: `1.0` differs from `1` and from `"1.0"`, and 40 digits stay 40 digits."""
    return ("number", str(text))


def read(text):
    return json.loads(text, parse_int=number, parse_float=number)


def check(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.2000}, wanted {wanted!r:.2000}")


class Daemon:
    """The daemon as a child process. Every line that it writes must be expected."""

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            os.environ["TESTBED"],
            "--profile",
            "agent",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "TESTBED_TELLS": "1"},
            limit=4 * 1024 * 1024,
        )
        self.told = asyncio.Queue()
        self.listener = asyncio.create_task(self.listen())
        return self

    async def listen(self):
        # Every pipe must be read.
        async for line in self.process.stderr:
            await self.told.put(line.decode().rstrip("\n"))

    async def until_told(self, words):
        while words not in await self.told.get():
            pass

    def send(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines).encode())

    async def line(self):
        line = await self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise AssertionError(f"the output ended with {line!r}")
        return read(line)

    async def hears(self, what, *wanted):
        """Expects exactly these lines next."""
        for text in wanted:
            check(what, await self.line(), read(text))

    async def answers(self, count):
        """Expects answers next, in any order."""
        found = {}
        for _ in range(count):
            answer = await self.line()
            if answer["id"] in found:
                raise AssertionError(f"{answer['id']} was answered twice")
            found[answer["id"]] = answer
        return found

    async def asks(self, what, request, wanted):
        self.send(request)
        await self.hears(what, wanted)

    async def ends(self, what):
        check(f"output after the end, {what}", await self.process.stdout.read(), b"")
        check(f"exit status, {what}", await self.process.wait(), 0)
        await self.listener

    async def kill(self):
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.listener.cancel()


def request(identity, method, params=None):
    params = "" if params is None else f',"params":{params}'
    return f'{{"jsonrpc":"2.0","id":{identity},"method":"{method}"{params}}}'


def notification(method, params="[]"):
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}'


def result(identity, value):
    return f'{{"jsonrpc":"2.0","id":{identity},"result":{value}}}'


def error(identity, code, message, data=None):
    data = "" if data is None else f',"data":{data}'
    return f'{{"jsonrpc":"2.0","id":{identity},"error":{{"code":{code},"message":"{message}"{data}}}}}'


async def ids(daemon):
    rows = ["0", "-0", "1.0", "1e3", "-1.5E-7", "9" * 40, "18446744073709551616", "null", '""']
    rows += ['"1"', '"ünï 🦀"', '"\\u0000\\n\\"\\\\"']
    for identity in rows:
        await daemon.asks(f"id {identity}", request(identity, "system.ping"), result(identity, '"pong"'))
    for identity in ["true", "{}", "[1]"]:
        wanted = error("null", -32600, "Invalid Request", '{"reason":"invalid-id-type"}')
        await daemon.asks(f"id {identity}", request(identity, "system.ping"), wanted)


async def a_thousand_at_once(daemon):
    count = 1000
    daemon.send(*(request(n, "test.sleep", f'{{"ms":{n % 7}}}') for n in range(count)))
    await daemon.process.stdin.drain()
    answers = await daemon.answers(count)
    for n in range(count):
        check(f"answer {n}", answers.get(number(n)), read(result(n, n % 7)))


async def out_of_order_and_cancelled(daemon):
    cancelling = notification("$/cancelRequest", '{"id":"slow"}')
    daemon.send(request('"slow"', "test.sleep", '{"ms":3600000}'), request('"quick"', "system.ping"))
    await daemon.hears("the quick one overtakes", result('"quick"', '"pong"'))
    await daemon.asks("cancelling", cancelling, error('"slow"', -32800, "Request cancelled"))
    # The request is finished, and its id is free again.
    await daemon.asks("again", request('"slow"', "system.ping"), result('"slow"', '"pong"'))
    # Unknown and malformed cancellations are ignored, so this is the next answer.
    daemon.send(cancelling, notification("$/cancelRequest", '{"id":[]}'))
    await daemon.asks("go on", request(1, "system.ping"), result(1, '"pong"'))


async def notifications(daemon):
    daemon.send(notification("system.ping"), notification("no.such.method"), notification("test.panic"))
    await daemon.asks("go on", request(2, "system.ping"), result(2, '"pong"'))


async def batches(daemon):
    entries = [
        request(1, "system.echo", '{"a":[1.50,"🦀"]}'),
        notification("system.ping"),
        "7",
        request('"x"', "no.such.method"),
    ]
    daemon.send(f"[{','.join(entries)}]")
    answers = {answer["id"]: answer for answer in await daemon.line()}
    wanted = [result(1, '{"a":[1.50,"🦀"]}'), error("null", -32600, "Invalid Request")]
    wanted += [error('"x"', -32601, "Method not found: no.such.method")]
    check("a batch", answers, {answer["id"]: answer for answer in map(read, wanted)})
    await daemon.asks("an empty batch", "[]", error("null", -32600, "Invalid Request"))
    daemon.send(f"[{notification('system.ping')},{notification('system.ping')}]")
    await daemon.asks("go on", request(3, "system.ping"), result(3, '"pong"'))


async def errors(daemon):
    data = '{"why":["ünï",{"deep":1.0}],"n":null}'
    params = f'{{"code":-32050,"message":"no 🦀","data":{data}}}'
    await daemon.asks("data", request(1, "test.fail", params), error(1, -32050, "no 🦀", data))
    data = '{"param":"ms","expected":"integer","received":"string"}'
    wanted = error(2, -32602, "Invalid params", data)
    await daemon.asks("params", request(2, "test.sleep", '{"ms":"x"}'), wanted)
    data = '{"param":"level","expected":"one of the accepted values","received":"loud",'
    data += '"accepted":["debug","info","warn","error"]}'
    wanted = error(3, -32602, "Invalid params", data)
    await daemon.asks("a list", request(3, "setLogLevel", '{"level":"loud"}'), wanted)
    await daemon.asks("a panic", request(4, "test.panic"), error(4, -32603, "Internal error"))
    wanted = error(5, -32601, "Method not found: no")
    await daemon.asks("a method", request(5, "no"), wanted)


async def bad_lines(daemon):
    parse_error = error("null", -32700, "Parse error")
    for line in ['{"jsonrpc":"2.0","id":1,', "Hello!", "\x01", '{"a":1}}']:
        await daemon.asks(f"{line!r}", line, parse_error)
        await daemon.asks("the next", request(6, "system.ping"), result(6, '"pong"'))
    daemon.process.stdin.write(b'{"jsonrpc":"2.0","id":"\xff"}\n\r\n\n')
    await daemon.hears("no UTF-8", parse_error)
    daemon.process.stdin.write(request(7, "system.ping").encode() + b"\r\n")
    await daemon.hears("a line that ends with CR LF", result(7, '"pong"'))


async def texts(daemon):
    for text in ["ünï", "🦀𝒳", "\u2028\u2029\u0085", "\x00\x1f\x7f", '"\\/', "e\u0301"]:
        for is_escaped in [True, False]:
            params = json.dumps([text], ensure_ascii=is_escaped)
            await daemon.asks(f"{text!r}", request(1, "system.echo", params), result(1, params))


async def large(daemon):
    wanted = result(1, '"' + "x" * 3_000_000 + '"')
    await daemon.asks("a large answer", request(1, "test.big", '{"bytes":3000000}'), wanted)
    params = '["' + "ü" * 500_000 + '"]'
    await daemon.asks("a large request", request(2, "system.echo", params), result(2, params))
    daemon.send(request(3, "system.echo", '["' + "x" * 1_048_576 + '"]'), request(4, "system.ping"))
    oversize = error("null", -32600, "Invalid Request", '{"reason":"oversize"}')
    await daemon.hears("too large", oversize, result(4, '"pong"'))


async def both_ways(daemon):
    async def call_back(identity, answer, wanted):
        params = '{"method":"client/double","params":[21]}'
        daemon.send(request(identity, "system.callback", params))
        asked = await daemon.line()
        kind, theirs = asked.pop("id")
        check("the kind of id", kind, "number")
        check("the call back", asked, read(notification("client/double", "[21]")))
        # It waits, and other requests are served.
        await daemon.asks("meanwhile", request(1, "system.ping"), result(1, '"pong"'))
        daemon.send(answer(theirs))
        await daemon.hears("the client's answer", wanted)
        return theirs

    first = await call_back('"a"', lambda theirs: result(theirs, 42), result('"a"', 42))
    data = '{"why":"🦀"}'
    refused = error('"b"', -32001, "not now", data)
    second = await call_back('"b"', lambda theirs: error(theirs, -32001, "not now", data), refused)
    if first == second:
        raise AssertionError("an id was used twice")


async def streams(daemon):
    daemon.send(request(1, "test.emit", '{"count":1000}'))
    wanted = [notification("test.event", f"[{n}]") for n in range(1, 1001)]
    await daemon.hears("the stream", *wanted, result(1, 1000))
    subscribed = result(2, '{"topics":["log"]}')
    topics = '{"topics":["log"]}'
    await daemon.asks("subscribe", request(2, "events.subscribe", topics), subscribed)
    for sequence in ["1", "2", "3"]:
        daemon.send(notification("no.such.method"))
        event = await daemon.line()
        data = event["params"].pop("data")
        wanted = notification("event", f'{{"topic":"log","sequence":{sequence}}}')
        check("an event", event, read(wanted))
        check("a record", (data["severity"], data["method"]), ("warn", "no.such.method"))
    unsubscribed = result(3, '{"topics":[]}')
    await daemon.asks("unsubscribe", request(3, "events.unsubscribe", topics), unsubscribed)
    daemon.send(notification("no.such.method"))
    await daemon.asks("go on", request(4, "system.ping"), result(4, '"pong"'))


async def end_of_input(daemon):
    daemon.send(*(request(n, "test.sleep", '{"ms":50}') for n in range(5)))
    # The last line needs no newline.
    daemon.process.stdin.write(request('"last"', "system.ping").encode())
    daemon.process.stdin.close()
    answers = await daemon.answers(6)
    wanted = {number(n): read(result(n, 50)) for n in range(5)}
    check("answers at the end", answers, {**wanted, "last": read(result('"last"', '"pong"'))})
    await daemon.ends("after the end of input")


async def end_by_signal(daemon):
    daemon.send(request(1, "test.sleep", '{"ms":100}'))
    await daemon.until_told("test.sleep begins")
    # A Windows program under wine gets SIGINT as Ctrl-C, and no SIGTERM.
    daemon.process.send_signal(signal.Signals[os.environ.get("END_SIGNAL", "SIGTERM")])
    await daemon.hears("what ran is answered", result(1, 100))
    await daemon.ends("after a signal")


SCENES = [ids, a_thousand_at_once, out_of_order_and_cancelled, notifications, batches, errors, bad_lines]
SCENES += [texts, large, both_ways, streams]


async def main():
    for scenes in [[*SCENES, end_of_input], [end_by_signal]]:
        daemon = await Daemon().start()
        try:
            for scene in scenes:
                try:
                    await scene(daemon)
                except (AssertionError, ValueError, KeyError, TypeError, OSError) as problem:
                    sys.exit(f"{scene.__name__}: {type(problem).__name__}: {problem}")
        finally:
            await daemon.kill()


async def with_patience():
    patience = float(os.environ.get("PATIENCE", "60"))
    try:
        async with asyncio.timeout(patience):
            await main()
    except TimeoutError:
        sys.exit(f"nothing more came in {patience} s")


if __name__ == "__main__":
    asyncio.run(with_patience())
