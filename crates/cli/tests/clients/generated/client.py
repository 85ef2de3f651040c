"""Test of a generated Python client with a real server (A9).

Environment: SERVER is the server, PATIENCE the time limit in seconds. Exits with 0 if and only if all checks passed.
"""

from __future__ import annotations

import asyncio
import os
import sys

import duet_rpc

from described_client import (
    DescribedClient,
    DescribedClientCallbacks,
    FigureBox,
    FigureCircle,
    NoSuchThingError,
    TooLargeError,
    Tree,
)

HOUR = 3_600_000


def check(what: str, got: object, wanted: object) -> None:
    """Compare a value with the expected one."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


class User(DescribedClientCallbacks):
    """The methods that the server calls."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def user_choose(self, *, question: str, choices: list[str]) -> str:
        """Choose the last one, or fail."""
        if question == "fail?":
            raise TooLargeError("from the user", data={"limit": 3})
        return choices[-1]

    async def user_tell(self, *, text: str) -> None:
        """Remember the text."""
        self.told.append(text)


async def shapes(client: DescribedClient) -> None:
    """Send params of every shape."""
    check("a default", await client.add(a=1), 2)
    check("both params", await client.add(a=1, b=41), 42)
    tree: Tree = {"nodeName": "a", "children": [{"nodeName": "b"}, {"nodeName": "ü🦀", "children": []}]}
    turned = await client.reverse(tree=tree)
    check("a tree", [child["nodeName"] for child in turned["children"]], ["ü🦀", "b"])
    circle: FigureCircle = {"kind": "circle", "radius": 2}
    rectangle: FigureBox = {"kind": "box", "width": 2, "height": 5}
    check("a map", await client.areas(figures={"a": circle, "b b": rectangle}), {"a": 12, "b b": 10})
    check("a pair", await client.swap(pair=[7, "x"]), ["x", 7])
    check("left out", await client.echo(class_="c"), ["c", None, False])
    check("null", await client.echo(class_="c", none=None, flag=True), ["c", None, True])
    check("given", await client.echo(class_="c", none=3), ["c", 3, False])


async def errors(client: DescribedClient) -> None:
    """Get errors as classes."""
    try:
        await client.add(a=1_000_000, b=1)
    except TooLargeError as error:
        check("an error", (error.code, error.message, error.data), (1001, "Too large", {"limit": 1_000_000}))
    else:
        raise AssertionError("no error")
    try:
        await client.fail()
    except NoSuchThingError as error:
        check("another error", error.code, 1002)
    else:
        raise AssertionError("no error")


async def cancellation(client: DescribedClient) -> None:
    """Cancel by a timeout, and by the task."""
    try:
        await client.sleep(ms=HOUR, timeout=0.01)
    except TimeoutError:
        pass
    task = asyncio.create_task(client.sleep(ms=HOUR))
    await asyncio.sleep(0)
    task.cancel()
    while await client.running() != 0:
        await asyncio.sleep(0.01)


async def callbacks(client: DescribedClient, user: User) -> None:
    """Let the server call."""
    check("a callback", await client.ask(question="really?"), "no")
    check("a notification", user.told, ["asked: really?"])
    try:
        await client.ask(question="fail?")
    except TooLargeError as error:
        check("an error of the user", (error.code, error.data), (1001, {"limit": 3}))
    else:
        raise AssertionError("no error")


async def load(client: DescribedClient) -> None:
    """Make 1,000 calls at once, and send 100 notifications."""
    sums = await asyncio.gather(*(client.add(a=number, b=number) for number in range(1_000)))
    check("1,000 calls", sums, [2 * number for number in range(1_000)])
    for _ in range(100):
        await client.count(by=1)
    while await client.counted() < 100:
        await asyncio.sleep(0.01)
    check("notifications", await client.counted(), 100)


async def main() -> None:
    """Run all checks."""
    options = duet_rpc.Options(timeout=None, give_up_after=0)
    peer = duet_rpc.Client.spawn(os.environ["SERVER"], framing="ndjson", options=options)
    client, user = DescribedClient(peer), User()
    client.serve(user)
    async with asyncio.timeout(float(os.environ.get("PATIENCE", "60"))), peer:
        await shapes(client)
        await errors(client)
        await cancellation(client)
        await callbacks(client, user)
        await load(client)
    check("the exit status", peer.exit_status, 0)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (AssertionError, TimeoutError, duet_rpc.RpcError) as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
