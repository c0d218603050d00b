"""Shapes bodies."""

from __future__ import annotations

from typing import Callable

from .frames import is_frame
from .paths import Table, tables
from .sse import Events, looks_like_json, looks_like_sse
from .text import BAD

_MAX_BODY = (1 << 31) // 2 - 1


def _nothing() -> None:
    pass


class Shaper(Events):
    """Shapes bodies with hashes of one key. Not safe for concurrent use. Calls yield_gil regularly, to let other threads run."""

    def __init__(self, key: bytes, yield_gil: Callable[[], None] = _nothing) -> None:
        super().__init__(key, yield_gil)
        tables()  # reads a file

    def request(self, dialect: str, body: bytes, limit: int) -> bytes:
        """The shape of the decoded body of a request; a shape longer than limit becomes opaque."""
        t = tables().get(dialect)
        if t is None or not looks_like_json(body) or len(body) > _MAX_BODY:
            return self.opaque(body)
        self._begin(body, limit, 0)
        self.space()
        self.value(t.request)
        if not self.at_end():
            return self._bad(body)
        return self._result(body)

    def response(self, dialect: str, body: bytes, limit: int) -> bytes:
        """The shape of the decoded body of a response: one JSON value, or a stream in any framing."""
        t = tables().get(dialect)
        if t is None or len(body) > _MAX_BODY:
            return self.opaque(body)
        self._begin(body, limit, t.slots)
        if looks_like_json(body):
            if not self._unary(t) and not self.lines(t):
                return self._bad(body)
        elif looks_like_sse(body):
            self.sse(t)
        elif is_frame(body):
            self.frames(t)
        else:
            return self.opaque(body)
        self.finish()
        if not self.out:
            return self._bad(body)  # a single truncated event
        return self._result(body)

    def opaque(self, body: bytes) -> bytes:
        """The shape of an unknown body: ~<bytes>:<hash>."""
        return self.shape(body)

    def _bad(self, body: bytes) -> bytes:
        """The shape of a body that begins like JSON but is invalid."""
        return self.opaque(body) + (b"" if self.over() else BAD)

    def _result(self, body: bytes) -> bytes:
        self._text.clear()
        result = self.opaque(body) if self.over() else bytes(self.out)
        self._begin(b"", 0, 0)
        return result

    def _begin(self, body: bytes, limit: int, slots: int) -> None:
        self.body, self.b, self.i, self.base, self.broken = body, body, 0, 0, False
        self.out, self.extra, self._text, self.limit = bytearray(), bytearray(), bytearray(), limit
        self.long, self.in_event = False, False
        self._forget(slots)

    def _unary(self, t: Table) -> bool:
        """Shapes a response that is one JSON value. Otherwise returns False and writes nothing."""
        self.space()
        if self.b[self.i] == 0x5B:  # Gemini's stream as a JSON array
            return self.events(t, self.b, 0)
        self.value(t.response)
        if self.at_end():
            return True
        if not self.over():
            self.out.clear()
        return False
