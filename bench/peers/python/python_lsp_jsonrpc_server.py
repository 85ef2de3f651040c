"""Echo server on python-lsp-jsonrpc."""

import sys
import time

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

# The benchmark has this many requests in flight; the default is 5.
WORKERS = 64


def echo(params):
    """Wraps the params, because they may have a member `result` or `error`, and the library would
    send such a dict as the whole response."""
    return {"result": params}


def later(params):
    """The library has no event loop: a handler that answers later returns a callable, which a
    pool of threads calls."""
    return lambda: echo(params)


def nap(params):
    def wait():
        time.sleep(0.001)
        return echo(params)

    return wait


def main():
    reader = JsonRpcStreamReader(sys.stdin.buffer)
    writer = JsonRpcStreamWriter(sys.stdout.buffer)
    methods = {"echo": echo, "later": later, "nap": nap}
    endpoint = Endpoint(methods, writer.write, max_workers=WORKERS)
    reader.listen(endpoint.consume)
    endpoint.shutdown()


main()
