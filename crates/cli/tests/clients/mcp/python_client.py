"""Test of the example `mcp_server` with the Python SDK of the Model Context Protocol (`mcp`), in the profiles
`mcp` and `agent`: start of a session, tools and their schemas, wrong arguments, progress, cancellation, many
concurrent calls, a request from the server to the client, and the end (M2, M5, P1, P3, P4, P7, L2, L3, F5).

Environment: SERVER is the program, PATIENCE the time limit in seconds, TRANSPORT is `stdio` (the default) or
`http`. Exits with 0 if and only if all checks passed.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
import warnings

from mcp import Client, MCPDeprecationWarning, MCPError, StdioServerParameters, types

NUMBER = {"type": "integer", "minimum": 0}
TOOLS = {
    "text_statistics": (
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        {
            "type": "object",
            "properties": {"characters": NUMBER, "words": NUMBER, "lines": NUMBER},
            "required": ["characters", "words", "lines"],
        },
    ),
    "count_primes": (
        {
            "type": "object",
            "properties": {"limit": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000}},
            "required": ["limit"],
        },
        {"type": "object", "properties": {"primes": NUMBER}, "required": ["primes"]},
    ),
    "list_roots": (
        {"type": "object"},
        {
            "type": "object",
            "properties": {"roots": {"type": "array", "items": {"type": "string"}}},
            "required": ["roots"],
        },
    ),
    "status": (
        {"type": "object"},
        {"type": "object", "properties": {"running": NUMBER}, "required": ["running"]},
    ),
}
IS_HTTP = os.environ.get("TRANSPORT") == "http"
# The SDK does not report the server's exit status, so a shell writes it to a file.
WRAPPER = '"$1" "$3"; echo "$?" >"$2"'


def check(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


class Dropped(logging.Handler):
    """The answers that the SDK could not use, which it reports only in its log."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.ids = []

    def emit(self, record):
        if "dropping response" in record.msg:
            self.ids.extend(record.args)


class Visit:
    def __init__(self, profile):
        self.profile = profile
        self.heard = []
        self.faults = []
        self.asked = 0

    async def hear(self, message):
        # Invalid messages come here too.
        (self.faults if isinstance(message, Exception) else self.heard).append(message)

    async def roots(self, _context):
        self.asked += 1
        roots = [types.Root(uri="file:///home/ada"), types.Root(uri="file:///home/charles")]
        return types.ListRootsResult(roots=roots)

    async def run(self, parameters):
        client = Client(parameters, list_roots_callback=self.roots, message_handler=self.hear)
        async with client as self.client:
            await self.beginning()
            await self.listing()
            await self.quick_tool()
            await self.refusals()
            await self.progress()
            await self.cancelling()
            await self.many_at_once()
            await self.asking_back()
            check("unexpected messages", self.heard, [])
            check("lines that are no messages", self.faults, [])

    async def tool(self, name, arguments, wanted):
        result = await self.client.call_tool(name, arguments)
        check(f"{name} is not an error", result.is_error, False)
        check(f"structured content of {name}", result.structured_content, wanted)
        check(f"content of {name}", [part.type for part in result.content], ["text"])
        check(f"text of {name}", json.loads(result.content[0].text), wanted)

    async def failing(self, name, arguments, words):
        result = await self.client.call_tool(name, arguments)
        check(f"{name} fails", result.is_error, True)
        check(f"{name} has no structured content", result.structured_content, None)
        check(f"what {name} says", [part.text for part in result.content], [words])

    async def beginning(self):
        # The SDK first tries a later way to start, and gets `Method not found`.
        check("version", self.client.protocol_version, "2025-11-25")
        check("name", self.client.server_info.name, "numbers-and-words")
        check("instructions", self.client.instructions, "Counts the words of a text, and primes.")
        capabilities = self.client.server_capabilities.model_dump(exclude_none=True)
        check("capabilities", capabilities, {"tools": {}})
        await self.client.send_ping()

    async def listing(self):
        listed = (await self.client.list_tools()).tools
        check("names", [tool.name for tool in listed], list(TOOLS))
        for tool in listed:
            check(f"schemas of {tool.name}", (tool.input_schema, tool.output_schema), TOOLS[tool.name])
            if not tool.description:
                raise AssertionError(f"{tool.name} has no description")

    async def quick_tool(self):
        for text, counts in [
            ("", (0, 0, 0)),
            ("one two\nthree", (13, 3, 2)),
            ("🦀 ünï\u2028\r\n\t\"\\", (11, 3, 2)),
            ("x" * 500_000, (500_000, 1, 1)),
        ]:
            wanted = dict(zip(("characters", "words", "lines"), counts))
            await self.tool("text_statistics", {"text": text}, wanted)

    async def refusals(self):
        wrong = "Invalid arguments: "
        await self.failing("text_statistics", {}, wrong + "missing field `text`")
        text = wrong + "invalid type: integer `7`, expected a string"
        await self.failing("text_statistics", {"text": 7}, text)
        text = wrong + "invalid value: integer `-1`, expected u64"
        await self.failing("count_primes", {"limit": -1}, text)
        text = "The limit is larger than 1000000000."
        await self.failing("count_primes", {"limit": 1_000_000_001}, text)
        try:
            await self.client.call_tool("no_such_tool", {})
        except MCPError as error:
            check("code for an unknown tool", error.code, -32602)
            check("message for an unknown tool", error.message, "Invalid params")
            wanted = {
                "param": "name",
                "expected": "one of the accepted values",
                "received": "no_such_tool",
                "accepted": list(TOOLS),
            }
            check("data for an unknown tool", error.error.data, wanted)
        else:
            raise AssertionError("an unknown tool was served")

    async def progress(self):
        told = []

        async def tell(progress, total, message):
            told.append((progress, total, message))

        result = await self.client.call_tool(
            "count_primes", {"limit": 9_500}, progress_callback=tell
        )
        check("primes", result.structured_content, {"primes": 1177})
        # Everything before the answer to this has been received.
        await self.client.send_ping()
        steps = [*range(0, 10_000, 1000), 9_500]
        check("progress", told, [(float(step), 9_500.0, None) for step in steps])
        heard = [message.params.progress for message in self.heard]
        check("progress as it was heard", heard, steps)
        self.heard.clear()
        await self.tool("count_primes", {"limit": 9_500}, {"primes": 1177})
        check("progress that was not asked for", self.heard, [])

    async def cancelling(self):
        dropped = Dropped()
        log = logging.getLogger("mcp.shared.jsonrpc_dispatcher")
        log.addHandler(dropped)
        log.setLevel(logging.DEBUG)
        log.propagate = False
        begun = asyncio.Event()

        async def tell(_progress, _total, _message):
            begun.set()

        long = self.client.call_tool("count_primes", {"limit": 10**9}, progress_callback=tell)
        task = asyncio.create_task(long)
        await begun.wait()
        await self.tool("status", {}, {"running": 1})
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        else:
            raise AssertionError("a call that was cancelled has a result")
        # The tool stops at its next yield. If it does not, the time limit ends this loop.
        running = {"running": 1}
        while running != {"running": 0}:
            running = (await self.client.call_tool("status", {})).structured_content
        # MCP forbids an answer to a cancelled request; the agent profile sends one, and the SDK drops it. Over
        # HTTP it makes one itself if there is none.
        wanted = 1 if self.profile == "agent" or IS_HTTP else 0
        while len(dropped.ids) < wanted:
            await self.client.send_ping()
        # Everything before the answer to this has been read.
        await self.client.send_ping()
        check("answers to cancelled calls", len(dropped.ids), wanted)
        log.removeHandler(dropped)
        self.heard.clear()

    async def many_at_once(self):
        async def one(number):
            wanted = {"characters": number, "words": min(number, 1), "lines": min(number, 1)}
            await self.tool("text_statistics", {"text": "x" * number}, wanted)

        await asyncio.gather(*(one(number) for number in range(50)))

    async def asking_back(self):
        if IS_HTTP:
            # A request cannot carry one in the other direction.
            return await self.failing("list_roots", {}, "The client does not support `roots/list`.")
        wanted = {"roots": ["file:///home/ada", "file:///home/charles"]}
        await self.tool("list_roots", {}, wanted)
        check("how often the client was asked", self.asked, 1)


async def visit_over_http(profile):
    arguments = [os.environ["SERVER"], profile, "--listen", "http://127.0.0.1:0/mcp"]
    server = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.PIPE)
    try:
        line = (await server.stderr.readline()).decode()
        announced, _, url = line.strip().rpartition(" ")
        check("announcement", announced, "listening on")
        await Visit(profile).run(url)
        server.terminate()
        check("exit status", await server.wait(), 0)
    finally:
        if server.returncode is None:
            server.kill()


async def visit(profile):
    if IS_HTTP:
        return await visit_over_http(profile)
    with tempfile.TemporaryDirectory() as folder:
        status = os.path.join(folder, "status")
        args = ["-c", WRAPPER, "sh", os.environ["SERVER"], status, profile]
        parameters = StdioServerParameters(command="sh", args=args, env=dict(os.environ))
        await Visit(profile).run(parameters)
        with open(status, encoding="ascii") as file:
            check("exit status", file.read(), "0\n")


async def main():
    patience = float(os.environ.get("PATIENCE", "60"))
    try:
        async with asyncio.timeout(patience):
            for profile in ["mcp", "agent"]:
                await visit(profile)
    except TimeoutError:
        sys.exit(f"nothing more came in {patience} s")


def reasons(error):
    """The cause of a failure, without the exception groups of tasks around it."""
    if isinstance(error, BaseExceptionGroup):
        return [reason for inner in error.exceptions for reason in reasons(inner)]
    return [f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    # It warns that later versions of the protocol have no `ping`.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    try:
        asyncio.run(main())
    except Exception as error:
        sys.exit("\n".join(reasons(error)))
