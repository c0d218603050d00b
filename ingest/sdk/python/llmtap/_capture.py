"""The bytes of one body, as far as they are kept."""

from __future__ import annotations

from typing import Optional

from ._event import Body
from ._queue import Queue

MAX_BODY = 16 << 20  # beyond it, a body is stubbed
STUB_HALF = 256 << 10  # of a stubbed body, its first and its last bytes
MAX_ERROR = 4 << 10  # of an error answer when bodies are not captured
ERROR_READ = MAX_ERROR + 1  # what is kept of it until it is masked: one byte more tells whether a word was halved
_MIN_GROW = 4 << 10


class Capture:
    """Keeps the bytes of one body. Their memory is reserved in the queue first; a body in one piece is not even copied."""

    __slots__ = ("_queue", "limit", "want", "_buf", "_tail", "_reserved", "lost")

    def __init__(self, queue: Queue, limit: int) -> None:
        self._queue = queue
        self.limit = limit  # bytes kept; none unless positive
        self.want = -1  # length of the body, if known
        self._buf: Optional[Body] = None
        self._tail: Optional[bytearray] = None  # of a stubbed body: its last bytes
        self._reserved = 0
        self.lost = False  # there was no memory for it

    @property
    def cut(self) -> bool:
        """The body is stubbed."""
        return self._tail is not None

    def write(self, p: bytes) -> None:
        """Keeps p, the next bytes of the body."""
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
            if not self._hold(room):
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
        if not self._hold(max(self._reserved, size)):
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
        self._hold(size)

    def _write_tail(self, p: bytes) -> None:
        assert self._tail is not None
        self._tail += p[-STUB_HALF:]
        if len(self._tail) > 2 * STUB_HALF:
            del self._tail[:-STUB_HALF]

    def _hold(self, n: int) -> bool:
        """Makes the reservation n bytes. Where there is no room for them everything is given up, and it is False."""
        if not self._queue.reserve(n - self._reserved):
            self._queue.reserve(-self._reserved)
            self._buf, self._tail, self._reserved, self.lost = None, None, 0, True
            return False
        self._reserved = n
        return True

    def take(self) -> tuple[Optional[Body], int]:
        """The body; its reservation is the caller's from now on."""
        body, reserved = self._buf, self._reserved
        if self._tail is not None:
            body = bytes(body or b"") + bytes(self._tail[-STUB_HALF:])
        self._buf, self._tail, self._reserved = None, None, 0
        return body, reserved
