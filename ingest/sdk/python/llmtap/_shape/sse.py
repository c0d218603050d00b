"""Server-sent events and JSON lines."""

from __future__ import annotations

import re

from .frames import Frames
from .paths import Table
from .text import BAD

_MAX_FIELD = 256  # maximum length of a retained event name or comment
_MAX_TEXT = 4 << 10

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_LIKE_JSON = re.compile(rb"[ \t\r\n]*[{\[]")
_SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200B)}


def looks_like_json(b: bytes) -> bool:
    """Whether b starts like an object or an array."""
    return _LIKE_JSON.match(b) is not None


def looks_like_sse(body: bytes) -> bool:
    """Whether the first line of body belongs to an event stream."""
    if body.startswith(_BOM):
        body = body[3:]
    name, colon, _ = body.lstrip(b"\r\n")[:16].partition(b":")
    return bool(colon) and name in (b"", b"data", b"event", b"id", b"retry")


def _blank(b: bytes) -> bool:
    if not b.strip():
        return True
    if b[0] < 0x80 and not b[:1].isspace() or len(b) > 256 and not b[:256].strip():
        return False
    try:
        return all(c in _SPACES for c in b.decode())
    except UnicodeDecodeError:
        return False


class _Event:
    """The current event."""

    __slots__ = ("is_error", "lines", "start")

    def __init__(self) -> None:
        self.is_error = False
        self.lines = 0  # number of stored data lines, which are not JSON one by one
        self.start = 0  # start of these lines, joined by line feeds, in extra


class Events(Frames):
    """Shapes lines."""

    def sse(self, t: Table) -> None:
        """Shapes server-sent events. Line ends become line feeds."""
        e = _Event()
        body, at = self.body, 0
        while at < len(body) and len(self.out) <= self.limit:
            m = _LINE_END.search(body, at)
            end, after = (m.start(), m.end()) if m else (len(body), len(body))
            line = body[at:end]
            if at == 0 and line.startswith(_BOM):
                line = line[3:]
            if not line:
                self._end_event(t, e, False)
                self.out += b"\n"
            else:
                self._line(t, e, line, end)
            at = after
        self._end_event(t, e, True)

    def _line(self, t: Table, e: _Event, line: bytes, end: int) -> None:
        """Shapes one line, whose end is an index of the body."""
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data(t, e, value, end - len(value))
        elif name == b"event":
            e.is_error = value == b"error"
            self._field(b"event: ", value)
        elif name == b"retry":
            self._field(b"retry: ", value)
        elif name == b"":
            self._field(b": ", value)
        else:
            self.out += (name if len(name) <= 8 else b"field") + b": " + self.shape(value) + b"\n"

    def _field(self, name: bytes, value: bytes) -> None:
        self.out += name + (value if len(value) <= _MAX_FIELD else self.shape(value)) + b"\n"

    def _data(self, t: Table, e: _Event, value: bytes, base: int) -> None:
        """Shapes a data line, or keeps it until the event ends if its JSON spans several lines."""
        if e.lines == 0 and _blank(value):
            self.out += b"data:\n"
            return
        if e.lines == 0:
            mark = len(self.out)
            self.out += b"data: "
            if self.events(t, value, base):
                self.out += b"\n"
                return
            del self.out[mark:]
            e.start = len(self.extra)
        else:
            self.extra += b"\n"
        e.lines += 1
        self.extra += value

    def _end_event(self, t: Table, e: _Event, last: bool) -> None:
        """Shapes the kept data; last means that the body ends here, perhaps within the event."""
        lines, is_error = e.lines, e.is_error
        e.lines, e.is_error = 0, False
        if lines == 0:
            return
        text, mark = bytes(self.extra[e.start :]), len(self.out)
        self.out += b"data: "
        if lines > 1 and self.events(t, text, len(self.body) + e.start):
            pass
        elif is_error and not looks_like_json(text):
            self.out += text[:_MAX_TEXT].replace(b"\n", b" ")
        elif last and looks_like_json(text):
            del self.out[mark:]
            return
        else:
            self.out += self.bad_event(text)
        self.out += b"\n"

    def lines(self, t: Table) -> bool:
        """Shapes a response that consists of JSON lines. Otherwise returns False."""
        if self.over():
            return False
        some, at, body = False, 0, self.body
        while at < len(body) and len(self.out) <= self.limit:
            n = body.find(b"\n", at)
            last = n < 0
            if last:
                n = len(body)
            line = body[at:n]
            if _blank(line):
                pass
            elif self.events(t, line, at):
                self.out += b"\n"
                some = True
            elif not some:
                return False
            elif not (last and looks_like_json(line)):
                self.out += self.shape(line) + BAD + b"\n"
            at = n + 1
        return some
