"""Bounded storage for the bytes of one body."""

from __future__ import annotations

from typing import Optional

from ._event import Body
from ._queue import Queue

MAX_BODY = 16 << 20  # longer bodies are stubbed
STUB_HALF = 256 << 10  # bytes at the start and at the end of a stubbed body
MAX_ERROR = 4 << 10  # bytes of an error response if bodies are not captured
ERROR_READ = MAX_ERROR + 1  # bytes read of it: one more, to detect that the limit splits a word
_MIN_GROW = 4 << 10


class Capture:
    """Stores the bytes of one body. It reserves memory in the queue first; a body in one piece is not copied."""

    __slots__ = ("_queue", "limit", "want", "_buf", "_tail", "_reserved", "lost")

    def __init__(self, queue: Queue, limit: int) -> None:
        self._queue = queue
        self.limit = limit  # maximum number of bytes to store; if not positive, none are stored
        self.want = -1  # length of the body, if known
        self._buf: Optional[Body] = None
        self._tail: Optional[bytearray] = None  # last bytes of a stubbed body
        self._reserved = 0
        self.lost = False  # the body was dropped because memory ran out

    @property
    def cut(self) -> bool:
        """Whether the body is stubbed."""
        return self._tail is not None

    def write(self, p: bytes) -> None:
        """Stores p, the next bytes of the body."""
        if self.limit <= 0 or self.lost or not p:
            return
        if self._tail is not None:
            self._write_tail(p)
            return
        size = len(self._buf) if self._buf is not None else 0
        if size + len(p) <= self.limit:
            self._add(size, p)
        elif self.limit < MAX_BODY:
            self._add(size, p[: self.limit - size])
        else:
            self._stub(p)

    def _add(self, size: int, p: bytes) -> None:
        need = size + len(p)
        if need > self._reserved:
            room = min(max(need, 2 * self._reserved, _MIN_GROW), self.limit)
            if need <= self.want < room or self._buf is None:
                room = max(need, min(self.want, self.limit))
            if not self._set_reserved(room):
                return
        if self._buf is None:
            self._buf = p if isinstance(p, bytes) else bytes(p)
        elif isinstance(self._buf, bytearray):
            self._buf += p
        else:
            self._buf = bytearray(self._buf)
            self._buf += p

    def _stub(self, p: bytes) -> None:
        size = 3 * STUB_HALF
        if not self._set_reserved(max(self._reserved, size)):
            return
        body = self._buf or b""
        head = bytearray(body[:STUB_HALF])
        rest = bytes(memoryview(body)[-STUB_HALF:]) if len(body) > STUB_HALF else b""
        if len(body) < 2 * STUB_HALF:
            rest = bytes(memoryview(body)[STUB_HALF:])
        missing = STUB_HALF - len(head)
        if missing > 0:
            head += p[:missing]
            p = p[missing:]
        self._buf, self._tail = head, bytearray(rest)
        self._write_tail(p)
        self._set_reserved(size)

    def _write_tail(self, p: bytes) -> None:
        assert self._tail is not None
        self._tail += p[-STUB_HALF:]
        if len(self._tail) > 2 * STUB_HALF:
            del self._tail[:-STUB_HALF]

    def _set_reserved(self, n: int) -> bool:
        """Changes the reservation to n bytes. If the queue has no room, drops the body and returns False."""
        if not self._queue.reserve(n - self._reserved):
            self._queue.reserve(-self._reserved)
            self._buf, self._tail, self._reserved, self.lost = None, None, 0, True
            return False
        self._reserved = n
        return True

    def take(self) -> tuple[Optional[Body], int]:
        """Returns the body and passes its reservation to the caller."""
        body, reserved = self._buf, self._reserved
        if self._tail is not None:
            body = bytes(body or b"") + bytes(self._tail[-STUB_HALF:])
        self._buf, self._tail, self._reserved = None, None, 0
        return body, reserved
