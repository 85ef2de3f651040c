"""Echo server on python-lsp-jsonrpc."""

import sys
import time

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

# As many requests must be able to wait at once; the default is 5.
WORKERS = 64


def echo(params):
    """Wrapped, because a dict with a member `result` or `error` is taken for a whole answer, and
    params may have such a member."""
    return {"result": params}


def later(params):
    """The library has no event loop: what does not answer at once returns a callable, which a
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
