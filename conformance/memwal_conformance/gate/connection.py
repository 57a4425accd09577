"""One connection: bytes in, requests one after another, bytes out."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Protocol, cast

from .http import END, RequestHead, parse
from .limits import GateLimits
from .replies import Answer, Framing, Half, Refusal, Reply, Unanswered

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Service(Protocol):
    """What a connection belongs to."""

    limits: GateLimits
    framing: Framing
    clock: Callable[[], float]

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False: there are too many. One that arrives too late is reset."""

    def left(self, connection: Connection) -> None:
        """A connection has ended."""

    def serve(self, connection: Connection, head: RequestHead, body: bytes) -> None:
        """See to it that ``connection`` gets its `Connection.answer`, now or later."""


class Connection(asyncio.Protocol):
    """A client's connection. One request at a time; what comes behind it waits in the buffer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = bytearray()
        self._head: RequestHead | None = None
        self._busy = False
        self._full = False
        self._method = ""
        self._close = False
        self._transport: asyncio.Transport | None = None

    @property
    def gone(self) -> bool:
        """The client has closed the connection, or it was closed on it."""
        return self._transport is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        self._transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self._service.admit(self) and not self.gone:
            self._close = True
            self._send(Refusal("SlowDown", "too many connections").reply())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The connection has ended, from whichever side."""
        self._transport = None
        self._service.left(self)

    def pause_writing(self) -> None:
        """The client does not read what it gets."""
        self._full = True

    def resume_writing(self) -> None:
        """It does again."""
        self._full = False
        self._advance()

    def data_received(self, data: bytes) -> None:
        """More bytes."""
        self._buffer += data
        self._advance()
        if (self._busy or self._full) and len(self._buffer) > self._service.limits.head_bytes and self._transport:
            self._transport.pause_reading()

    def answer(self, answer: Answer) -> None:
        """The answer to the request that is being served; the next one comes in `advance`."""
        if answer is Unanswered.NEVER:
            return
        self._busy = False
        if self._transport is None:
            return
        match answer:
            case Reply():
                self._send(answer)
            case Half(reply=reply):
                head = self._service.framing.head(reply, self._service.clock(), close=False)
                bytes_ = head + (b"" if self._method == "HEAD" else reply.body)
                visible = len(bytes_) // 2 if len(bytes_) == len(head) else len(head) + len(reply.body) // 2
                self._transport.write(bytes_[:visible])
                self._transport.close()
            case Unanswered.RESET:
                self.reset()

    def advance(self) -> None:
        """Serve what has been waiting behind a request that was answered later."""
        if self._transport is not None:
            self._transport.resume_reading()
            self._advance()

    def reset(self) -> None:
        """End the connection so that the client sees a reset."""
        if self._transport is not None:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
            self._transport = None

    def _advance(self) -> None:
        while not self._busy and not self._full and self._transport is not None and not self._close:
            if self._head is None and not self._read_head():
                return
            head = self._head
            if head is None or len(self._buffer) < head.body_bytes:
                return
            body = bytes(self._buffer[: head.body_bytes])
            del self._buffer[: head.body_bytes]
            self._head = None
            self._busy = True
            self._method, self._close = head.method, head.close
            self._service.serve(self, head, body)

    def _read_head(self) -> bool:
        """Take a head from the buffer; False if there is none, or one after which the connection must end."""
        limit = self._service.limits.head_bytes
        end = self._buffer.find(END, 0, limit + len(END))
        if end < 0:
            if len(self._buffer) > limit:
                self._end(Refusal("RequestHeaderSectionTooLarge", f"a head has {limit} bytes at most"))
            return False
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + len(END)]
        try:
            head = self._head = parse(raw, self._service.limits)
        except Refusal as refusal:
            self._end(refusal)
            return False
        if head.expects_continue and len(self._buffer) < head.body_bytes and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _end(self, refusal: Refusal) -> None:
        self._close = True
        self._buffer.clear()
        self._method = ""
        self._send(refusal.reply())

    def _send(self, reply: Reply) -> None:
        transport = self._transport
        assert transport is not None
        head = self._service.framing.head(reply, self._service.clock(), close=self._close)
        body = b"" if self._method == "HEAD" else reply.body
        transport.write(head + body if len(body) < 1 << 16 else head)
        if len(body) >= 1 << 16:
            transport.write(body)
        if self._close:
            transport.close()
