"""Parses and shapes one JSON value in one pass. Detects invalid JSON but does not validate strings."""

from __future__ import annotations

import re
from typing import Callable, Optional

from .._redact import masked
from .arguments import Arguments, is_number, space
from .paths import HEAD_ID, HEAD_INDEX, HEAD_NAME, Join, Node
from .text import clip, decode, string_end

_MAX_KEY = 64  # maximum length of a retained key
MAX_FRAGMENTS = 1 << 18  # maximum number of stored fragments; further ones are shaped one by one

_SCALAR = re.compile(rb"[0-9a-z\-+.E]*")
_LITERALS = (b"true", b"false", b"null")
_NO_VALUE = (b"0", b"false", b"null", b"")

# States of free: the expected token.
_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _MORE = range(5)


class CallHead:
    """The values of an element that identify its tool call."""

    __slots__ = ("id", "index", "named")

    def __init__(self) -> None:
        self.id = self.index = b""
        self.named = False


class Pending:
    """A fragment that is not assigned to a text before the end of its event, or an element without a fragment."""

    __slots__ = ("join", "gap", "args", "out", "start", "end", "part", "key", "head")

    def __init__(self, join: Join, gap: bool, out: int = 0, start: int = 0, end: int = 0) -> None:
        self.join, self.gap, self.out, self.start, self.end = join, gap, out, start, end
        self.args = join.arguments
        self.part: object = ()  # values that identify the part of a run
        self.key: object = ()  # the other values
        self.head = CallHead()


class Walker(Arguments):
    """Parses JSON."""

    def __init__(self, key: bytes, yield_gil: Callable[[], None]) -> None:
        super().__init__(key, yield_gil)
        self.b = b""  # the current text, at offset base of the body
        self.i = self.base = 0
        self.in_event = False
        # Only in a stream: the values for joins, from the current event and its elements.
        self.slots: list[bytes] = []
        self.head = CallHead()  # head of the current tool call
        self.pending: list[Pending] = []  # fragments of the current data; discarded if the data is invalid JSON
        self.fragments = 0  # stored fragments

    def fail(self) -> None:
        """Stops parsing, because the text is invalid JSON or its shape is too long."""
        self.broken, self.i = True, len(self.b)

    def space(self) -> None:
        """Skips white space."""
        self.i = space(self.b, self.i)

    def at_end(self) -> bool:
        """Whether the text was parsed to its end."""
        self.space()
        return not self.broken and self.i == len(self.b)

    def value(self, n: Optional[Node]) -> None:
        """Shapes the current value, which is at position n of the body."""
        if self.i >= len(self.b) or self.over():
            self.fail()
            return
        if n is None:
            self._free(False)
            return
        c = self.b[self.i]
        if n.below:
            self._free(True)
        elif n.arguments and c != 0x22:
            end = self.arguments_value(self.b, self.i)
            if end < 0:
                self.fail()
            else:
                self.i = end
        elif c == 0x7B and n.kids is not None:
            self._object(n)
        elif c == 0x5B and n.elem is not None:
            self.array(n)
        elif c in b"{[":
            self._free(False)
        elif c == 0x22:
            self._string(n)
        else:
            start = self.i
            self._scalar(n.keep)
            if n.noted:
                self._note(n, self.b[start : self.i])

    def _object(self, n: Node) -> None:
        kids = n.kids
        assert kids is not None
        out, b = self.out, self.b
        out += b"{"
        self.i = space(b, self.i + 1)
        while self.i < len(b) and b[self.i] != 0x7D:
            raw = self._raw_string()
            name = raw if b"\\" not in raw else decode(raw)
            kid = kids.get(name)
            if len(name) > _MAX_KEY:
                out += b'"k' + self.digest(decode(raw)) + b'"'
            else:
                out += b'"' + raw + b'"'
            self._colon()
            self.value(kid)
            if not self._comma(0x7D):
                break
        self._closing(0x7D)

    def array(self, n: Node) -> None:
        """Shapes an array whose elements have positions."""
        elem = n.elem
        assert elem is not None
        self.out += b"["
        self.i += 1
        self.space()
        while self.i < len(self.b) and self.b[self.i] != 0x5D:
            self.element(elem)
            if not self._comma(0x5D):
                break
        self._closing(0x5D)

    def element(self, n: Node) -> None:
        """Shapes an element of an array and, in a stream, identifies its fragments."""
        if not n.marked:
            self.value(n)
            return
        first = self._enter(n)
        self.value(n)
        self._leave(n, first)

    def _colon(self) -> None:
        i = space(self.b, self.i)
        if i >= len(self.b) or self.b[i] != 0x3A:
            self.fail()
            return
        self.out += b":"
        self.i = space(self.b, i + 1)

    def _comma(self, end: int) -> bool:
        """Skips the comma after an element. Returns True if another element follows."""
        i = self.i = space(self.b, self.i)
        if i >= len(self.b) or self.b[i] != 0x2C:
            return False
        i = self.i = space(self.b, i + 1)
        if i >= len(self.b) or self.b[i] == end:
            self.fail()
            return False
        self.out += b","
        return True

    def _closing(self, end: int) -> None:
        if self.i >= len(self.b) or self.b[self.i] != end:
            self.fail()
            return
        self.out.append(end)
        self.i += 1

    def _raw_string(self) -> bytes:
        """Skips the current string and returns its content."""
        i = self.i
        if i >= len(self.b) or self.b[i] != 0x22:
            self.fail()
            return b""
        end = string_end(self.b, i + 1)
        if end < 0:
            self.fail()
            return b""
        self.i = end + 1
        return self.b[i + 1 : end]

    def _string(self, n: Node) -> None:
        """Shapes a string at a protocol position."""
        start = self.base + self.i + 1
        raw = self._raw_string()
        if self.broken:
            return
        if n.noted:
            self._note(n, raw)
        out = self.out
        if n.join is not None and self.in_event and self._room():
            out += b'""'
            self.pending.append(Pending(n.join, False, len(out) - 1, start, start + len(raw)))
        elif n.keep:
            out += b'"' + raw + b'"'
        elif n.text:
            out += b'"' + masked(clip(raw)) + b'"'
        elif n.arguments:
            out += b'"' + (self.arguments(raw) if raw or not self.in_event else b"") + b'"'
        else:
            self._free_string(raw)

    def _free_string(self, raw: bytes) -> None:
        if raw or not self.in_event:
            self.out += b'"' + self.shape(decode(raw)) + b'"'
        else:
            self.out += b'""'

    def _scalar(self, keep: bool) -> None:
        """Skips a number or literal. A number becomes 0 unless keep is true."""
        m = _SCALAR.match(self.b, self.i)
        assert m is not None
        raw, self.i = m.group(), m.end()
        if raw in _LITERALS:
            self.out += raw
        elif raw and (raw[0] == 0x2D or 0x30 <= raw[0] <= 0x39) and is_number(raw):
            self.out += raw if keep else b"0"
        else:
            self.fail()

    def _free(self, keep: bool) -> None:
        """Shapes a value of free content, or copies it if keep is true. Not recursive: each level uses one byte."""
        out, b, n = self.out, self.b, len(self.b)
        stack = bytearray()
        want = _VALUE
        i = self.i
        while True:
            if i < n and b[i] in b" \t\r\n":
                i = space(b, i)
            if i >= n or self.over():
                break
            c = b[i]
            if want == _MORE:
                top = stack[-1]
                if c == 0x2C:
                    want = _KEY if top == 0x7B else _VALUE
                elif c == top + 2:
                    stack.pop()
                else:
                    break
                out.append(c)
                i += 1
            elif c == 0x7D and want == _KEY_OR_END or c == 0x5D and want == _VALUE_OR_END:
                stack.pop()
                out.append(c)
                i += 1
                want = _MORE
            elif want in (_KEY, _KEY_OR_END):
                end = string_end(b, i + 1) if c == 0x22 else -1
                raw = b[i + 1 : end] if end >= 0 else b""
                out += b'"' + (raw if keep and len(raw) <= _MAX_KEY else b"k" + self.digest(decode(raw))) + b'"'
                i = space(b, end + 1)
                if end < 0 or i >= n or b[i] != 0x3A:
                    break
                out += b":"
                i += 1
                want = _VALUE
                continue
            elif c in b"{[":
                want = _KEY_OR_END if c == 0x7B else _VALUE_OR_END
                stack.append(c)
                out.append(c)
                i += 1
                continue
            elif c == 0x22:
                end = string_end(b, i + 1)
                raw = b[i + 1 : end] if end >= 0 else b""
                if keep:
                    out += b'"' + raw + b'"'
                else:
                    self._free_string(raw)
                if end < 0:
                    break
                i = end + 1
                want = _MORE
            else:
                self.i = i
                self._scalar(keep)
                if self.broken:
                    return
                i = self.i
                want = _MORE
            if not stack and want == _MORE:
                self.i = i
                return
        self.fail()

    # Identification of fragments in a stream.

    def _room(self) -> bool:
        """Whether one more fragment can be stored."""
        return self.fragments + len(self.pending) < MAX_FRAGMENTS

    def _note(self, n: Node, raw: bytes) -> None:
        """Stores a value that identifies fragments of a stream."""
        if not self.in_event:
            return
        if n.slot >= 0:
            self.slots[n.slot] = b"" if raw in _NO_VALUE else raw
        if not raw or raw == b"null":
            return
        if n.head == HEAD_ID:
            self.head.id = raw
        elif n.head == HEAD_NAME:
            self.head.named = True
        elif n.head == HEAD_INDEX:
            self.head.index = raw

    def _enter(self, n: Node) -> int:
        """Begins an event, or an element of an event; _leave ends it."""
        for slot in n.own:
            self.slots[slot] = b""
        if n.calls is not None:
            self.head = CallHead()
        return len(self.pending)

    def _leave(self, n: Node, first: int) -> None:
        """Adds the values of n to the pending fragments with index first or higher."""
        for j in (n.run, n.calls):
            if j is not None and not any(p.join is j for p in self.pending[first:]) and self._room():
                self.pending.append(Pending(j, True))
        for p in self.pending[first:]:
            j = p.join
            for slot in j.slots:
                if slot in n.own:
                    p.key = (p.key, slot, self.slots[slot])
            if j.args_slot >= 0 and j.args_slot in n.own and self.slots[j.args_slot] in j.args_if:
                p.args = True
            if n.run is j:
                p.part, p.key = p.key, ()
            if n.calls is j:
                p.head = self.head
