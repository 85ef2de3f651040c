"""Test of the daemon with `websockets` for Python.

Arguments: the URL of a daemon with a limit of 100,000 bytes, the URL of one with a token, the token.
"""

import asyncio
import json
import os
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

URL, GUARDED, TOKEN = sys.argv[1:]


class Client:
    """A connection that matches answers to its calls."""

    def __init__(self, socket):
        self.socket = socket
        self.pending = {}
        self.serves = {}
        self.strays = []
        self.next = 1
        self.reader = asyncio.create_task(self.read())

    @classmethod
    async def open(cls, url=URL, **options):
        return cls(await connect(url, max_size=None, proxy=None, **options))

    async def read(self):
        """Receives until the end, and returns the close code."""
        try:
            while True:
                text = await self.socket.recv()
                assert isinstance(text, str), "answers are text"
                await self.take(json.loads(text))
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    async def take(self, message):
        if "method" in message and "id" in message:
            result = self.serves[message["method"]](message.get("params"))
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            await self.socket.send(json.dumps(answer))
        elif message.get("id") in self.pending:
            self.pending.pop(message["id"]).set_result(message)
        else:
            self.strays.append(message)

    async def call(self, method, params=None, wrap=lambda text: text):
        number, self.next = self.next, self.next + 1
        answer = self.pending[number] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            request["params"] = params
        await self.socket.send(wrap(json.dumps(request, ensure_ascii=False)))
        return await answer


async def refused(url, **options):
    try:
        client = await Client.open(url, **options)
    except InvalidStatus as refusal:
        return refusal.response.status_code
    await client.socket.close()
    return "let in"


def equal(one, other):
    assert one == other, f"{one!r} is not {other!r}"


async def main():
    client = await Client.open()
    socket = client.socket
    equal(socket.subprotocol, None)
    # Calls, one and many.
    equal((await client.call("system.echo", ["é 😀"]))["result"], ["é 😀"])
    equal((await client.call("no.such.method"))["error"]["code"], -32601)
    answers = await asyncio.gather(*(client.call("system.echo", [n]) for n in range(200)))
    equal([answer["result"][0] for answer in answers], list(range(200)))
    # Binary, fragmented and long messages.
    equal((await client.call("system.ping", wrap=str.encode))["result"], "pong")
    pieces = lambda text: [text[:10], text[10:20], "", text[20:]]
    equal((await client.call("system.ping", wrap=pieces))["result"], "pong")
    long = "ü" * 45_000
    equal((await client.call("system.echo", [long]))["result"], [long])
    equal(len((await client.call("test.big", {"bytes": 1_000_000}))["result"]), 1_000_000)
    # A pong returns the payload of its ping; otherwise the library would wait forever.
    await (await socket.ping(b"are you there"))
    # The server calls the client, and notifies it.
    client.serves["add"] = sum
    equal((await client.call("system.callback", {"method": "add", "params": [2, 3]}))["result"], 5)
    equal((await client.call("test.emit", {"count": 3}))["result"], 3)
    equal([message["params"][0] for message in client.strays], [1, 2, 3])
    client.strays.clear()
    # A notification gets no answer; text that is not JSON gets one, and the connection lives.
    await socket.send(json.dumps({"jsonrpc": "2.0", "method": "system.ping"}))
    await socket.send("{")
    equal((await client.call("system.ping"))["result"], "pong")
    equal([message["error"]["code"] for message in client.strays], [-32700])
    # An oversize message ends its connection, and no other.
    greedy = await Client.open()
    await greedy.socket.send("x" * 100_001)
    equal(await greedy.reader, 1009)
    # A close from either side.
    polite = await Client.open()
    await polite.socket.close(1000, "bye")
    equal(await polite.reader, 1000)
    leaving = await Client.open()
    farewell = await leaving.call("shutdown")
    equal(farewell["result"]["message"], "Shutting down gracefully")
    equal(await leaving.reader, 1000)
    # Refused connections.
    equal(await refused(URL, origin="https://evil.example"), 403)
    equal(await refused(URL, origin="null"), 403)
    equal(await refused(URL + "elsewhere"), 404)
    equal(await refused(GUARDED), 401)
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    equal(await refused(GUARDED, additional_headers=wrong), 401)
    known = await Client.open(GUARDED, additional_headers={"Authorization": f"Bearer {TOKEN}"})
    equal((await known.call("system.ping"))["result"], "pong")
    await known.socket.close()
    # The daemon is stopped now.
    equal((await client.call("system.ping"))["result"], "pong")
    print("waiting", flush=True)
    equal(await client.reader, 1001)


# A hang must fail the test, not block it.
asyncio.run(asyncio.wait_for(main(), float(os.environ.get("PATIENCE", "60"))))
