"""Shapes the arguments of tool calls, in canonical form (RFC 8785: keys sorted, no white space)."""

from __future__ import annotations

import re
from typing import Callable

from .text import BAD, MULTI, Hasher, decode, strict_string, string_end

_MAX_DEPTH = 1024  # nesting of containers; deeper ones are emptied
_MAX_MEMBERS = 1 << 16  # maximum number of members to sort; further members are not sorted

_SPACE = re.compile(rb"[ \t\r\n]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERAL = re.compile(rb"true|false|null")
_MARK = re.compile(rb'["{}\[\]]')


class _Open:
    """A container while it is shaped."""

    __slots__ = ("object", "start", "members", "all", "key", "at")

    def __init__(self, is_object: bool, start: int) -> None:
        self.object, self.start = is_object, start
        self.members: list[tuple[bytes, int, int]] = []  # key, start, end
        self.all = True  # whether members is complete
        self.key, self.at = b"", 0  # of the current member


class Arguments(Hasher):
    """Shapes arguments."""

    def __init__(self, key: bytes, yield_gil: Callable[[], None]) -> None:
        super().__init__(key, yield_gil)
        self.out = bytearray()
        self.limit = 0
        self.long = False  # the shape exceeds the limit
        self.broken = False  # stops parsing the current text
        self._text = bytearray()
        self._members = 0  # members stored for sorting
        self._moves = 0  # bytes that sorting may still move; limits nesting, where all text would move at each level

    def over(self) -> bool:
        """Whether the shape exceeds the limit."""
        if len(self.out) + len(self._text) > self.limit:
            self.long = True
        return self.long

    def arguments(self, raw: bytes) -> bytes:
        """The shape of arguments in a string, without the quotes."""
        text = decode(raw)
        values = self._parse(text)
        canon = bytes(self._text)
        self._text.clear()
        if values == 1:
            return canon.replace(b'"', b'\\"')
        if values > 1:
            return self.shape(text) + MULTI
        if not text.strip(b" \t\r\n"):
            text = b""
        return self.shape(text) + BAD

    def _parse(self, b: bytes) -> int:
        """Stores the shape of b in self._text and returns the number of JSON values in b, 0 if it is not JSON."""
        self._reset(len(b))
        values = 0
        i = space(b, 0)
        while i < len(b):
            end = self._canon(b, i)
            if end < 0:
                self.broken = self.broken or self.long
                return 0
            after = space(b, end)
            if b[i] not in b'{["' and after == end and end < len(b):
                return 0  # 01 and truefalse are not two values
            values, i = values + 1, after
        return values

    def _reset(self, n: int) -> None:
        self._text.clear()
        self._members, self._moves = 0, 64 * n

    def arguments_value(self, b: bytes, i: int) -> int:
        """Writes the shape of arguments that are not a string and returns their end, -1 if they are not JSON."""
        self._reset(len(b) - i)
        end = self._canon(b, i)
        if end >= 0:
            self.out += self._text
            self._text.clear()
        return end

    def _canon(self, b: bytes, i: int) -> int:
        """Appends the canonical shape of the JSON value at i and returns its end, -1 if it is invalid."""
        text = self._text
        n = len(b)
        stack: list[_Open] = []
        while True:
            # Start of a value.
            if i >= n or self.over():
                return -1
            c = b[i]
            if c == 0x22:
                s, i = strict_string(b, i + 1)
                if i < 0:
                    return -1
                text += b'"' + self.shape(s) + b'"'
            elif c in b"{[":
                if len(stack) == _MAX_DEPTH:
                    text += bytes((c, c + 2))
                    i = container_end(b, i + 1)
                    if i < 0:
                        return -1
                else:
                    text.append(c)
                    top = _Open(c == 0x7B, len(text))
                    stack.append(top)
                    i = space(b, i + 1)
                    if i >= n or b[i] != c + 2:
                        i = self._member(b, i, top)
                        if i < 0:
                            return -1
                        continue
                    text.append(c + 2)
                    stack.pop()
                    i += 1
            elif c == 0x2D or 0x30 <= c <= 0x39:
                m = _NUMBER.match(b, i)
                if m is None or b[m.end() : m.end() + 1] in (b".", b"e", b"E"):
                    return -1
                text += b"0"
                i = m.end()
            else:
                m = _LITERAL.match(b, i)
                if m is None:
                    return -1
                text += m.group()
                i = m.end()
            # End of a value, and perhaps of the containers around it.
            while stack:
                top = stack[-1]
                if top.object:
                    self._ended(top)
                i = space(b, i)
                if i < n and b[i] == 0x2C:
                    text += b","
                    i = self._member(b, space(b, i + 1), top)
                    if i < 0:
                        return -1
                    break
                if i >= n or b[i] != (0x7D if top.object else 0x5D):
                    return -1
                if top.object:
                    self._close(top)
                text.append(b[i])
                stack.pop()
                i += 1
            if not stack:
                return i

    def _member(self, b: bytes, i: int, top: _Open) -> int:
        """Skips the text before a value in a container, in an object the key. -1 if it is invalid."""
        if not top.object:
            return i
        if i >= len(b) or b[i] != 0x22:
            return -1
        name, i = strict_string(b, i + 1)
        if i < 0:
            return -1
        top.key, top.at = self.digest(name), len(self._text)
        self._text += b'"k' + top.key + b'":'
        i = space(b, i)
        if i >= len(b) or b[i] != 0x3A:
            return -1
        return space(b, i + 1)

    def _ended(self, top: _Open) -> None:
        top.all = top.all and self._members < _MAX_MEMBERS
        if top.all:
            top.members.append((top.key, top.at, len(self._text)))
            self._members += 1

    def _close(self, top: _Open) -> None:
        """Sorts the members of an object by key."""
        members, text = top.members, self._text
        self._members -= len(members)
        if not top.all or all(members[k][0] <= members[k + 1][0] for k in range(len(members) - 1)):
            return
        self._moves -= len(text) - top.start
        if self._moves < 0:
            return
        members.sort(key=lambda m: m[0])
        text[top.start :] = b",".join([bytes(text[start:end]) for _, start, end in members])


def space(b: bytes, i: int) -> int:
    """The end of the white space at i."""
    if i < len(b) and b[i] in b" \t\r\n":
        m = _SPACE.match(b, i)
        assert m is not None
        return m.end()
    return i


def is_number(raw: bytes) -> bool:
    """Whether raw is a JSON number."""
    return _NUMBER.fullmatch(raw) is not None


def container_end(b: bytes, i: int) -> int:
    """The index after the bracket that closes the container whose content starts at i, or -1."""
    depth = 1
    while True:
        m = _MARK.search(b, i)
        if m is None:
            return -1
        c, i = m.group(), m.end()
        if c == b'"':
            i = string_end(b, i) + 1
            if i == 0:
                return -1
        elif c in (b"{", b"["):
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return i
