"""Finds the end of a stream of events that arrives in chunks of any size."""

from __future__ import annotations

import json
import re
from typing import Optional, Protocol

from ._wire import LAST_DATA, LAST_EVENTS, LAST_MEMBERS

_DATA = b"|".join(re.escape(d.encode()) for d in LAST_DATA)
_EVENTS = b"|".join(re.escape(e.encode()) for e in LAST_EVENTS)
_LINES = rb"data: ?(?:%s)|event: ?(?:%s)" % (_DATA, _EVENTS)
_PREFIXES = rb'data: ?\{"type":"(?:%s)"' % _EVENTS
_TERMINAL_LINE = re.compile(rb"(?:(?:%s)\r?|%s.*)\Z" % (_LINES, _PREFIXES), re.DOTALL)
_TERMINAL = re.compile(rb"^(?:(?:%s)\r?|%s[^\n]*)\n" % (_LINES, _PREFIXES), re.MULTILINE)
_BLANK = re.compile(rb"^\r?\n", re.MULTILINE)

_MAX_HEAD = 48  # bytes of a line to compare, more than any terminal line has
_MAX_LINE = 16 << 10  # bytes of a JSON line to parse; the last line is short, because it contains no text


class Ending(Protocol):
    """The end of one kind of stream."""

    def feed(self, p: bytes) -> int:
        """The number of bytes of p up to the end of the terminal event, or -1 if that event is not complete yet."""

    def near(self) -> bool:
        """Whether the terminal event has arrived, possibly without its final line end."""


def ending_of(content_type: str) -> Optional[Ending]:
    """The ending for a content type; None if bodies of that type are not streams."""
    media = content_type.partition(";")[0].strip().lower()
    if media == "text/event-stream":
        return Terminal()
    if media in ("application/x-ndjson", "application/ndjson", "application/jsonl"):
        return LastLine()
    return None


class Terminal:
    """Server-sent events end with the blank line after LAST_DATA or one of LAST_EVENTS."""

    __slots__ = ("_line", "_long", "_seen")

    def __init__(self) -> None:
        self._line = b""  # first bytes of the current line
        self._long = False  # the line is longer than _line
        self._seen = False  # the current event is terminal

    def near(self) -> bool:
        return self._seen

    def feed(self, p: bytes) -> int:
        at = p.find(b"\n")
        if at < 0:
            self._add(p)
            return -1
        self._add(p[:at])
        at += 1
        if self._end_line():
            return at
        if not self._seen:
            m = _TERMINAL.search(p, at)
            if m:
                self._seen, at = True, m.end()
        if self._seen:
            m = _BLANK.search(p, at)
            if m:
                return m.end()
        self._add(p[p.rfind(b"\n") + 1 :])
        return -1

    def _add(self, p: bytes) -> None:
        room = _MAX_HEAD - len(self._line)
        self._line += p[:room]
        self._long = self._long or len(p) > room

    def _end_line(self) -> bool:
        """Evaluates the line and begins the next one. Returns True if the line ended a terminal event."""
        line, long = self._line, self._long
        self._line, self._long = b"", False
        if not long and line in (b"", b"\r"):
            return self._seen
        m = _TERMINAL_LINE.match(line)
        self._seen = self._seen or m is not None and (not long or line[:6] != b"event:")
        return False


class LastLine:
    """JSON lines, as Ollama sends them, end with the line in whose object one of LAST_MEMBERS is true."""

    __slots__ = ("_line", "_long")

    def __init__(self) -> None:
        self._line = bytearray()
        self._long = False

    def near(self) -> bool:
        if self._long or b"true" not in self._line:  # avoids parsing nearly every line
            return False
        try:
            value = json.loads(bytes(self._line))
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and any(value.get(m) is True for m in LAST_MEMBERS)

    def feed(self, p: bytes) -> int:
        at = 0
        while True:
            end = p.find(b"\n", at)
            if end < 0:
                self._add(p[at:])
                return -1
            self._add(p[at:end])
            at = end + 1
            done = self.near()
            self._line, self._long = bytearray(), False
            if done:
                return at

    def _add(self, p: bytes) -> None:
        self._long = self._long or len(self._line) + len(p) > _MAX_LINE
        if not self._long:
            self._line += p
