"""A client that keeps its server: starts or reaches it, calls it, restarts it after a crash, and stops it.

| state | meaning | next |
|---|---|---|
| `stopped` | before `start` and after `stop` | `starting` |
| `starting` | the link is opened, and `setup` runs | `running`; `failed` at the first start; else `waiting` |
| `running` | calls are sent | `waiting` after a crash; `failed` after too many in a row |
| `waiting` | for the next start; calls wait too | `starting` |
| `stopping` | the link is ended | `stopped` |
| `failed` | calls fail with the reason, until the next `start` | `starting` |
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from .child import Command
from .connection import Connection
from .errors import ConnectionLostError, NotRunningError, OverloadedError, RpcError, StartError
from .framing import MAX_MESSAGE_BYTES, Framing
from .handlers import Handlers
from .link import GRACE, Address, Endpoint
from .peer import DEFAULT, CancelStyle, Default, Errors, Params, within

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping

    from .handlers import Handler, Problem

__all__ = ["Backoff", "Client", "Options", "State", "StateChange"]

State = Literal["stopped", "starting", "running", "waiting", "stopping", "failed"]
"""The state of a client."""


@dataclass(frozen=True)
class StateChange:
    """A new state of a client."""

    state: State
    crashes: int = 0
    """Number of crashes in a row."""
    error: RpcError | None = None
    """The reason why the server is not running."""
    delay: float | None = None
    """Time until the next start, in seconds."""


@dataclass(frozen=True)
class Backoff:
    """The delay before a restart: `first`, times `factor` for each further crash, at most `most`.

    The delay is shortened at random by up to the share `jitter`.
    """

    first: float = 0.1
    factor: float = 2.0
    most: float = 30.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        is_valid = self.first >= 0 and self.factor >= 1 and self.most >= 0 and 0 <= self.jitter <= 1
        if not is_valid:
            raise ValueError(f"this back-off is not possible: {self}")

    def delay(self, crashes: int, chance: float) -> float:
        """Return the delay after this number of crashes, with `chance` from 0 to 1.

        >>> [Backoff(jitter=0).delay(crashes, 0) for crashes in (1, 2, 3, 100)]
        [0.1, 0.2, 0.4, 30.0]
        """
        # An exponent without a limit would overflow.
        grown = self.first * self.factor ** min(crashes - 1, 64)
        return min(grown, self.most) * (1 - self.jitter * chance)


async def _nothing(_: Connection) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Options:
    """Options of a client."""

    timeout: float | None = 30.0
    """Maximum time of a call, in seconds; `None` means no limit."""
    cancel: CancelStyle = "lsp"
    """The notification that cancels a request."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Maximum size of a message in either direction."""
    max_handlers: int = 1_000
    """Maximum number of running handlers."""
    max_waiting: int = 1_000
    """Maximum number of calls that wait for the server to start."""
    setup: Callable[[Connection], Awaitable[object]] = _nothing
    """Runs at each start, before other calls: `initialize`, or subscriptions."""
    teardown: Callable[[Connection], Awaitable[object]] = _nothing
    """Runs before the end: a `shutdown` that the protocol requires."""
    start_timeout: float = 10.0
    """Maximum time of a start, in seconds."""
    grace: float = GRACE
    """Maximum time of each step of stopping, in seconds."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delay before a restart."""
    give_up_after: int = 5
    """Maximum number of restarts after crashes in a row; 0 means no restart."""
    stable_after: float = 60.0
    """Running time in seconds after which the count of crashes starts again."""
    on_problem: Problem | None = None
    """Gets problems that belong to no call. Default: the logger `duet_rpc`."""

    def __post_init__(self) -> None:
        for name in ("max_message_bytes", "max_handlers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1, not {getattr(self, name)}")
        for name in ("timeout", "start_timeout", "grace", "max_waiting", "give_up_after", "stable_after"):
            value = getattr(self, name)
            # `not >=` also refuses NaN.
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is at least 0, not {value}")


class Client:
    """A client of one server, which is a child process or listens on a socket.

    >>> async def version() -> object:
    ...     async with Client.spawn("duet-rpc", "rpc", framing="lsp") as client:
    ...         return await client.call("version")
    """

    def __init__(self, endpoint: Endpoint, *, framing: Framing, options: Options | None = None) -> None:
        if framing not in {"lsp", "ndjson"}:
            raise ValueError(f"there is no framing {framing!r}; use 'lsp' or 'ndjson'")
        self._endpoint = endpoint
        self._framing: Framing = framing
        self._options = options or Options()
        self._handlers = Handlers(self._options.on_problem)
        self._listeners: list[Callable[[StateChange], None]] = []
        self._change = StateChange("stopped")
        self._connection: Connection | None = None
        self._exit_status: int | None = None
        self._waiters: set[asyncio.Future[Connection]] = set()
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    def spawn(
        cls,
        *argv: str | os.PathLike[str],
        framing: Framing,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        on_log: Callable[[str], None] | None = None,
        options: Options | None = None,
    ) -> Self:
        """Make a client of a program that it starts. `on_log` gets the lines of its stderr."""
        if not argv:
            raise ValueError("name the program to start")
        return cls(Command(argv, cwd, env, on_log), framing=framing, options=options)

    @classmethod
    def connect(cls, url: str, *, framing: Framing, options: Options | None = None) -> Self:
        """Make a client of a listening server: `tcp://HOST:PORT` or `unix:///PATH`."""
        return cls(Address(url), framing=framing, options=options)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def state(self) -> State:
        """The state."""
        return self._change.state

    @property
    def exit_status(self) -> int | None:
        """The exit status of the last process; the negative signal number if a signal ended it."""
        return self._exit_status

    def on_state(self, listener: Callable[[StateChange], None]) -> Callable[[], None]:
        """Call a function at each change of state. Returns a function that removes it."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def on_request(self, method: str, handler: Handler) -> Callable[[], None]:
        """Serve a method to the server. The handler stays when the server restarts.

        A `RemoteError` that the handler raises is sent as it is. Any other error is reported, and the server gets an
        internal error. If the server cancels the request, the task of an async handler is cancelled.
        """
        return self._handlers.on_request(method, handler)

    def on_notification(self, method: str, handler: Handler) -> Callable[[], None]:
        """Handle notifications from the server. The handler stays when the server restarts."""
        return self._handlers.on_notification(method, handler)

    async def start(self) -> None:
        """Start or reach the server, and run `setup`. A first start that fails is not repeated."""
        if self._open_connection() is not None:
            return
        if self.state == "stopping":
            raise NotRunningError("the client is being stopped")
        if self.state in {"stopped", "failed"}:
            self._become(StateChange("starting"))
            self._keeper = asyncio.create_task(self._keep(), name="duet_rpc client")
        await self._wait_for_connection()

    async def stop(self) -> int | None:
        """Run `teardown`, end the link, and return the exit status of a child process.

        Running calls are answered if there is time. Calls that wait for the server fail.
        """
        keeper = self._keeper
        if keeper is not None and not keeper.done():
            if self.state != "stopping":
                self._become(StateChange("stopping"))
                self._fail_waiters(NotRunningError("the client was stopped"))
                keeper.cancel()
            await asyncio.wait([keeper])
        # A task that was cancelled before its first step could not do this itself.
        if self.state not in {"stopped", "starting"}:
            self._become(StateChange("stopped"))
        return self._exit_status

    async def call(
        self,
        method: str,
        params: Params = None,
        *,
        timeout: float | Default | None = DEFAULT,  # noqa: ASYNC109 - it also sends a cancellation
        errors: Errors | None = None,
    ) -> Any:
        """Call a method, and return its result.

        While the server starts or restarts, the call waits. `errors` has classes for error codes, in addition to
        those of `CODES`. If the task that awaits the call is cancelled, or the time is over, a cancellation is sent.
        """
        seconds = self._options.timeout if timeout is DEFAULT else timeout
        return await within(seconds, method, self._call(method, params, errors))

    async def _call(self, method: str, params: Params, errors: Errors | None) -> Any:
        connection = self._open_connection()
        # A server may crash again before the caller is resumed.
        while connection is None or connection.end is not None:
            connection = await self._wait_for_connection(self._options.max_waiting)
        return await connection.call(method, params, timeout=None, errors=errors)

    async def notify(self, method: str, params: Params = None) -> None:
        """Send a notification. Fails if the server is not running, because nobody would notice the loss."""
        connection = self._open_connection()
        if connection is None:
            self._refuse()
        await connection.notify(method, params)

    def _open_connection(self) -> Connection | None:
        """Return the connection, unless it has ended. The state says so only a moment later."""
        connection = self._connection if self.state == "running" else None
        return None if connection is None or connection.end is not None else connection

    def _refuse(self) -> NoReturn:
        reason = f": {self._change.error}" if self._change.error is not None else ""
        state = "waiting" if self.state == "running" else self.state
        raise NotRunningError(f"the client is {state}{reason}") from self._change.error

    async def _wait_for_connection(self, limit: int | None = None) -> Connection:
        if self.state in {"stopped", "stopping", "failed"}:
            self._refuse()
        if limit is not None and len(self._waiters) >= limit:
            raise OverloadedError(f"{len(self._waiters)} calls wait for the server already")
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)

    async def _keep(self) -> None:
        """Keep the server running until the client is stopped or gives up."""
        options, loop = self._options, asyncio.get_running_loop()
        crashes, has_run = 0, False
        try:
            while True:
                error, seconds = await self._run_once(crashes, loop)
                has_run = has_run or seconds is not None
                if seconds is not None and seconds >= options.stable_after:
                    crashes = 0
                crashes += 1
                if not has_run:
                    break
                if crashes > options.give_up_after:
                    text = f"the server crashed {crashes} times in a row; last error: {error}"
                    error = NotRunningError(text)
                    break
                chance = random.random()  # noqa: S311 - it spreads restarts, and protects nothing
                delay = options.backoff.delay(crashes, chance)
                self._become(StateChange("waiting", crashes, error, delay))
                await asyncio.sleep(delay)
                self._become(StateChange("starting", crashes))
        except asyncio.CancelledError:
            await self._leave()
            raise
        # Waiting calls first: a listener may start the client again, and its new calls must wait.
        self._keeper = None
        self._fail_waiters(error)
        self._become(StateChange("failed", crashes, error))

    async def _run_once(self, crashes: int, loop: asyncio.AbstractEventLoop) -> tuple[RpcError, float | None]:
        """Run the server once. Returns why it ended, and how long it ran, if it ran at all."""
        try:
            connection = await self._open()
        except RpcError as error:
            await self._leave()
            return error, None
        began = loop.time()
        self._become(StateChange("running", crashes))
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(connection)
        await connection.wait_closed()
        await self._leave()
        return ConnectionLostError(connection.end), loop.time() - began

    async def _open(self) -> Connection:
        options = self._options
        scope = asyncio.timeout(options.start_timeout)
        try:
            async with scope:
                link = await self._endpoint.open(options.grace)
                connection = self._connection = Connection(
                    link,
                    framing=self._framing,
                    timeout=options.timeout,
                    cancel=options.cancel,
                    max_message_bytes=options.max_message_bytes,
                    max_handlers=options.max_handlers,
                    handlers=self._handlers,
                )
                connection.start()
                await options.setup(connection)
        except (ConnectionLostError, StartError):
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and scope.expired():
                text = f"the server did not start within {options.start_timeout} s"
                raise StartError(text) from error
            raise StartError(f"the setup of the server failed: {error!r}") from error
        return connection

    async def _leave(self) -> None:
        """End the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if connection.end is None and self.state == "stopping":
                async with asyncio.timeout(self._options.grace):
                    await self._options.teardown(connection)
        except Exception as error:  # noqa: BLE001 - the server is stopped, whatever happens
            self._handlers.report(error, "the teardown of the server failed")
        finally:
            await connection.close()
            self._exit_status = connection.exit_status

    def _fail_waiters(self, error: RpcError) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                # Each caller gets an exception of its own, with its own traceback.
                copy = type(error)(*error.args)
                copy.__cause__ = error
                waiter.set_exception(copy)

    def _become(self, change: StateChange) -> None:
        self._change = change
        for listener in list(self._listeners):
            try:
                listener(change)
            except Exception as error:  # noqa: BLE001 - a listener may raise anything
                self._handlers.report(error, "a listener of on_state failed")
