"""Echo server on pygls."""

import asyncio

from pygls.lsp.server import LanguageServer
from pygls.protocol import JsonRPCRequestMessage, default_converter


def converter():
    """Leaves params as they are. The default converts the params of a method that LSP does not
    define into a named tuple, which would be sent back as an array."""
    plain = default_converter()
    plain.register_structure_hook(JsonRPCRequestMessage, lambda message, cls: cls(**message))
    return plain


server = LanguageServer("peer-pygls", "0", converter_factory=converter)


@server.feature("echo")
def echo(params):
    return params


@server.feature("later")
async def later(params):
    await asyncio.sleep(0)
    return params


@server.feature("nap")
async def nap(params):
    await asyncio.sleep(0.001)
    return params


server.start_io()
