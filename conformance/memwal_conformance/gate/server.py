"""The gate itself: a thread that listens on loopback until it is closed or its life is over."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from memwal.errors import InvalidArgument
from memwal_sim.store import Contents

from .address import Address
from .connection import Connection
from .faults import FaultRule
from .history import CrashState, CrashStates
from .limits import GateLimits
from .log import LogEntry
from .requests import GateRequest
from .service import GateService, Hook
from .signing import Credentials

T = TypeVar("T")

HOST = "127.0.0.1"
_BACKLOG = 512
_JOIN_S = 10.0


class Gate:
    """One bucket with ``contents`` as S3 on a port of loopback; a context manager that serves in its own thread.

    ``hook``: decides about requests (see `service.Hook`); it runs in the gate's thread and must not block.
    ``rules``: faults as data; the first rule that is about a request acts. ``asleep``: those of them that count no
    request until `arm` is called.
    ``clock``: seconds since the Unix epoch, for dates in replies and for the age of signatures.
    ``drain``: called with an actor's name before a request of it is carried out, so that acknowledgements that it has
    given elsewhere can be handed to `acknowledge` before the store continues.
    ``kill``: called with an actor's name by rules that kill. ``port``: 0 for any free one.
    ``looking``: how the User-Agent of an adapter's own look-ups begins; they are another actor's then, see `LOOKING`.

    Methods may be called from any thread.
    """

    def __init__(
        self,
        contents: Contents | None = None,
        *,
        bucket: str = "memwal",
        region: str = "us-east-1",
        hook: Hook | None = None,
        rules: Iterable[FaultRule] = (),
        asleep: Iterable[FaultRule] = (),
        limits: GateLimits | None = None,
        clock: Callable[[], float] = time.time,
        drain: Callable[[str], None] | None = None,
        kill: Callable[[str], None] | None = None,
        port: int = 0,
        looking: str = "",
    ) -> None:
        self.bucket, self.region = bucket, region
        self._keys: dict[str, Credentials] = {}
        self._actors: dict[str, Credentials] = {}
        self._lock = threading.Lock()
        self._service = GateService(
            contents or Contents(),
            bucket,
            region,
            self._keys,
            tuple(rules),
            limits or GateLimits(),
            clock,
            tuple(asleep),
            looking,
        )
        self._service.hook, self._service.drain, self._service.killer = hook, drain, kill
        self._wanted_port = port
        self._port: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="memwal-gate", daemon=True)
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._port.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self._service.failure is not None and error is None:
            raise self._service.failure

    def close(self) -> None:
        """Stop: every connection is reset, whatever it waits for."""
        if self._loop is not None and self._stop is not None and not self._over.is_set():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    @property
    def running(self) -> bool:
        """False before the start, after the end, and after the end of the gate's life."""
        return self._port.done() and not self._over.is_set()

    @property
    def endpoint(self) -> str:
        """URL, without the bucket."""
        return f"http://{HOST}:{self._port.result()}"

    def credentials(self, actor: str) -> Credentials:
        """The key of an actor: one for each name, made when it is first asked for."""
        if not actor or not actor.isprintable():
            raise InvalidArgument(f"no name of an actor: {actor!r}")
        with self._lock:
            known = self._actors.get(actor)
            if known is None:
                known = Credentials.made(actor, self.region)
                self._actors[actor] = self._keys[known.access_key] = known
            return known

    def storage_options(self, actor: str, **more: str) -> dict[str, str]:
        """What obstore, pylance and this project's stores take to come here as ``actor``."""
        key = self.credentials(actor)
        return {
            "aws_access_key_id": key.access_key,
            "aws_secret_access_key": key.secret_key,
            "aws_region": self.region,
            "aws_endpoint": self.endpoint,
            "allow_http": "true",
            **more,
        }

    def environment(self, actor: str) -> dict[str, str]:
        """Variables for a process that is to come here as ``actor``, and to get nowhere else if it ignores them.

        The proxy for everything but loopback is a port without a listener.
        """
        key = self.credentials(actor)
        nowhere = f"http://{HOST}:{_closed_port()}"
        return {
            "AWS_ACCESS_KEY_ID": key.access_key,
            "AWS_SECRET_ACCESS_KEY": key.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ENDPOINT": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": HOST,
        }

    @property
    def contents(self) -> Contents:
        """The store as it is."""
        return self._service.shelf.contents

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._service.connections)

    @property
    def log(self) -> tuple[LogEntry, ...]:
        """Every request, in order of linearization."""
        return tuple(self._service.log)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Requests of unknown senders: refused for their form, signature, bucket or key.

        Not among them: what comes with a key of another gate, from a client that outlived it and its port.
        """
        return tuple(self._service.strangers)

    @property
    def prefixes(self) -> CrashStates:
        """Crash states: the contents after each change, with the acknowledgements given by then."""
        return self._service.history.frozen()

    def acknowledge(self, actor: str, what: object) -> None:
        """Note that ``actor`` was promised ``what``. Call it before the actor's next request."""
        self._service.history.acknowledge(actor, what)

    def reopen(self, state: CrashState, **arguments: Any) -> Gate:
        """A new gate, not yet started, over a copy of a crash state; ``arguments`` as for the constructor."""
        return Gate(state.contents, bucket=self.bucket, region=self.region, **arguments)

    def silence(self, actor: str) -> None:
        """Never answer ``actor`` again: what a crash of it looks like from the store."""
        self.call(lambda: self._service.silence(actor))

    def held(self, rule: FaultRule) -> tuple[GateRequest, ...]:
        """Requests that a rule holds now."""
        return tuple(request for request, going in list(self._service.held[rule.label]) if not going.done())

    def release(self, rule: FaultRule) -> None:
        """Let go what a rule holds, now and later."""
        self.call(lambda: self._service.release(rule.label))

    def arm(self, rule: FaultRule) -> None:
        """Wake a rule that was asleep: it counts requests from now on."""
        self.call(lambda: self._service.rules.asleep.discard(rule.label))

    def matched(self) -> dict[str, tuple[int, ...]]:
        """Label of each rule -> arrival numbers of the requests at which it acted."""
        return {label: tuple(numbers) for label, numbers in self._service.rules.met.items()}

    @property
    def inconclusive(self) -> str:
        """Why a run through this gate shows nothing; empty if there is no such reason."""
        return self.inconclusive_without()

    def inconclusive_without(self, spared: Collection[str] = ()) -> str:
        """As `inconclusive`; the rules whose labels are ``spared`` need not have acted."""
        idle = ", ".join(rule.label for rule in self._service.rules.unmatched if rule.label not in spared)
        reasons = [f"rules that never acted: {idle}"] if idle else []
        if self._service.exhausted:
            reasons.append(f"a limit of the gate was reached: {self._service.exhausted}")
        if self._service.strangers:
            reasons.append(f"requests of unknown senders: {self._service.strangers[0]}")
        return "; ".join(reasons)

    def wait(self, condition: Callable[[], bool], limit_s: float = 10.0) -> None:
        """Wait until ``condition``, which is looked at in the gate's thread after everything that happens there.

        Raises TimeoutError after ``limit_s`` seconds.
        """
        reached: Future[None] = Future()

        def look() -> None:
            if not reached.done() and condition():
                reached.set_result(None)

        def begin() -> None:
            self._service.watchers.append(look)
            look()

        self.call(begin)
        try:
            reached.result(limit_s)
        finally:
            if self.running:
                self.call(lambda: self._service.watchers.remove(look))

    def wait_held(self, rule: FaultRule, limit_s: float = 10.0) -> None:
        """Wait until a rule holds a request. Raises TimeoutError."""
        self.wait(lambda: bool(self._service.held[rule.label]), limit_s)

    def wait_for(self, address: Address, limit_s: float = 10.0) -> None:
        """Wait until a request of this class, operation, name and actor is in the log. Raises TimeoutError."""
        needed = address.occurrence or 1

        def there() -> bool:
            return sum(address.describes(entry) for entry in self._service.log) >= needed

        self.wait(there, limit_s)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` in the gate's thread after everything that happens there."""
        self.call(lambda: self._service.watchers.append(watcher))

    def use(self, hook: Hook | None) -> None:
        """Replace the hook; it decides about requests that arrive from then on."""
        self.call(lambda: setattr(self._service, "hook", hook))

    def call(self, function: Callable[[], T]) -> T:
        """Call ``function`` in the gate's thread and return what it returns."""
        if threading.current_thread() is self._thread:
            return function()
        assert self._loop is not None, "the gate has not been started"
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(_JOIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._port.set_exception(error)
        finally:
            self._over.set()

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        loop.set_exception_handler(self._failed)
        server = await loop.create_server(lambda: Connection(self._service), HOST, self._wanted_port, backlog=_BACKLOG)
        self._port.set_result(server.sockets[0].getsockname()[1])
        try:
            await asyncio.wait_for(self._stop.wait(), self._service.limits.life_s)
        except TimeoutError:
            self._service.exhausted = f"more than {self._service.limits.life_s} seconds of life"
        finally:
            server.close()
            await self._service.end()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError):
            return
        self._service.failure = self._service.failure or error or AssertionError(context.get("message"))
        if self._stop is not None:
            loop.call_soon(self._stop.set)


def _closed_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
