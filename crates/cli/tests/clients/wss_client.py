"""Test of the daemon over TLS with `websockets` for Python.

Arguments: the URL, the file of the authority, the token.
"""

import asyncio
import json
import ssl
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

URL, AUTHORITY, TOKEN = sys.argv[1:]


def bearer(token):
    return {"additional_headers": {"Authorization": f"Bearer {token}"}}


def subprotocols(token):
    return {"subprotocols": [f"bearer.{token}", "mcp"]}


def dial(trusted=True, **options):
    context = ssl.create_default_context(cafile=AUTHORITY if trusted else None)
    return connect(URL, ssl=context, max_size=None, proxy=None, **options)


async def refused(**options):
    try:
        async with dial(**options):
            return "let in"
    except InvalidStatus as refusal:
        return refusal.response.status_code
    except ssl.SSLCertVerificationError as error:
        return error.verify_message


def equal(one, other):
    assert one == other, f"{one!r} is not {other!r}"


async def main():
    for options, chosen in [(bearer(TOKEN), None), (subprotocols(TOKEN), "mcp")]:
        async with dial(**options) as socket:
            equal(socket.subprotocol, chosen)
            for text in ["é 😀", "x" * 1_000_000]:
                request = {"jsonrpc": "2.0", "id": 1, "method": "system.echo", "params": [text]}
                await socket.send(json.dumps(request))
                equal(json.loads(await socket.recv())["result"], [text])
            await (await socket.ping(b"are you there"))
        equal(socket.close_code, 1000)
    equal(await refused(), 401)
    equal(await refused(**bearer(TOKEN + "x")), 401)
    equal(await refused(**subprotocols(TOKEN + "x")), 401)
    equal(await refused(**bearer(TOKEN), origin="https://evil.example"), 403)
    # The client refuses the server.
    equal(await refused(trusted=False), "unable to get local issuer certificate")
    wrong = await refused(server_hostname="evil.example", **bearer(TOKEN))
    assert "evil.example" in wrong, wrong


# A hang must fail the test, not block it.
asyncio.run(asyncio.wait_for(main(), 60))
