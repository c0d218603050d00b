"""Streams: collects the fragments of each text and replaces the first fragment with the shape of the text."""

from __future__ import annotations

from typing import Callable, Optional

from .paths import Join, Table
from .text import BAD, decode
from .walk import CallHead, Pending, Walker

# Bounds on the memory of fragments.
_MAX_GROUPS = 1 << 14
_MAX_CALLS = 1 << 10  # maximum number of calls of a choice; each fragment is compared with all of them

_GAP = object()


class _Group:
    """A text that consists of fragments."""

    __slots__ = ("join", "args", "fragments", "place", "empty", "head", "prev", "end")

    def __init__(self, p: Pending) -> None:
        self.join, self.args = p.join, p.args
        self.fragments: list[tuple[int, int]] = []  # start and end in the body
        self.place = -1  # position of the shape in out
        self.empty = True  # whether the fragment at place is empty
        # If it is a tool call:
        self.head = CallHead()
        self.head.id, self.head.index, self.head.named = p.head.id, p.head.index, p.head.named
        self.prev: Optional[_Group] = None  # previous call
        self.end = 0  # last byte of its fragments


class Streamer(Walker):
    """Shapes events."""

    def __init__(self, key: bytes, yield_gil: Callable[[], None]) -> None:
        super().__init__(key, yield_gil)
        self.body = b""
        self.extra = bytearray()  # joined parts of body; offsets from len(body) on are in extra
        self._forget(0)

    def _forget(self, slots: int) -> None:
        self.slots, self.head, self.pending, self.fragments = [b""] * slots, CallHead(), [], 0
        self._groups: list[_Group] = []
        self._by_key: dict[object, _Group] = {}
        self._last_call: dict[object, _Group] = {}  # by key of the choice
        self._runs: dict[object, tuple[object, int]] = {}  # by message: the latest part and the number of parts
        self._patches: list[tuple[int, bytes]] = []
        self.framed: list[tuple[int, int]] = []  # end of the headers and of the payload of each frame in out

    def events(self, t: Table, text: bytes, base: int) -> bool:
        """Shapes a text of events that begins at offset base of the body. If it has none, returns False and writes nothing."""
        mark = len(self.out)
        self.b, self.i, self.base, self.broken, self.in_event, self.pending = text, 0, base, False, True, []
        self.space()
        while self.i < len(self.b):
            if len(self.out) > mark:
                self.out += b" "  # the server omitted the line end between events
            c = self.b[self.i]
            if c == 0x7B:
                self.element(t.event)
            elif self.b.startswith(b"[DONE]", self.i):
                self.out += b"[DONE]"
                self.i = len(self.b)
            elif c == 0x5B:
                self.array(t.events)
            else:
                self.fail()
            self.space()
        if self.broken or len(self.out) == mark:
            if not self.over():
                del self.out[mark:]
            return False
        for p in self.pending:
            self._settle(p)
        self.pending = []
        return True

    def _settle(self, p: Pending) -> None:
        """Adds a fragment to its group."""
        key: object = (p.key, p.join.salt)
        if p.join.run:
            if p.gap:
                p.part = _GAP
            before = self._runs.get(key)
            latest = before
            if latest is None or latest[0] != p.part:
                latest = (p.part, (latest[1] if latest is not None else 0) + 1)
                if before is not None or len(self._runs) < _MAX_GROUPS:
                    self._runs[key] = latest
            key = (key, latest)
        group: Optional[_Group]
        if p.join.calls:
            group = self._call(key, p)
        elif p.gap:
            return
        else:
            group = self._by_key.get(key)
            if group is None:
                group = self._new_group(p)
                if group is not None:
                    self._by_key[key] = group
        if p.gap:
            return
        if group is None:  # too many groups, so the fragment is shaped alone
            self._patch(p.join, p.args, p.out, self._raw(p.start, p.end))
        else:
            self._add(group, p)

    def _new_group(self, p: Pending) -> Optional[_Group]:
        """A new group; None if there are too many."""
        if len(self._groups) == _MAX_GROUPS:
            return None
        g = _Group(p)
        self._groups.append(g)
        return g

    def _add(self, g: _Group, p: Pending) -> None:
        if g.empty:
            g.place, g.empty = p.out, p.start == p.end  # the first fragment that is not empty
        g.fragments.append((p.start, p.end))
        g.args = g.args or p.args  # the first fragment may be a name without arguments
        self.fragments += 1
        if p.end > p.start:
            g.end = self._raw(p.end - 1, p.end)[0]

    def _raw(self, start: int, end: int) -> bytes:
        """A fragment without its quotes."""
        n = len(self.body)
        if start >= n and end > start:
            return bytes(self.extra[start - n : end - n])
        return self.body[start:end]

    def _call(self, choice: object, p: Pending) -> Optional[_Group]:
        """The group of the tool call of a fragment, None if there are too many groups. Indexes are unreliable: some servers give
        every call index 0, others send the end of a call with another index or a new id with each fragment. So a known id has
        precedence over a new id with a name, and that over the index."""
        g = self._find_call(choice, p)
        if g is None:
            n = 0
            c = self._last_call.get(choice)
            while c is not None and n < _MAX_CALLS:
                n, c = n + 1, c.prev
            if n == _MAX_CALLS:
                return None
            g = self._new_group(p)
            if g is None:
                return None
            g.prev = self._last_call.get(choice)
            self._last_call[choice] = g
        g.head.id = g.head.id or p.head.id
        g.head.named = g.head.named or p.head.named
        return g

    def _find_call(self, choice: object, p: Pending) -> Optional[_Group]:
        """The group of the call that a fragment continues; None if the fragment starts a new call."""
        last = self._last_call.get(choice)
        at: Optional[_Group] = None
        g = last
        while g is not None:
            if p.head.id and g.head.id == p.head.id:
                return g
            if at is None and p.head.index and g.head.index == p.head.index:
                at = g
                if not p.head.id:
                    break
            g = g.prev
        if last is None:
            return None
        if not p.head.named:
            if at is not None:
                return at
            return None if p.head.id else last  # the name follows
        if at is None:
            if p.head.index:
                return None
            at = last
        if not at.head.named and (not at.head.id or not p.head.id):
            return at  # the id or the first arguments preceded the name
        if p.head.id and not at.head.id and at.end == 0:
            return at  # the name preceded the id
        if p.head.id or not p.head.index:
            return None
        if at.end == 0x7D and p.end > p.start and self._raw(p.start, p.start + 1) == b"{":
            return None  # another complete call with the same index, without an id
        return at

    def finish(self) -> None:
        """Replaces the first fragment of each text with the shape of the text."""
        for g in self._groups:
            if g.fragments:
                self._patch(g.join, g.args, g.place, b"".join([self._raw(start, end) for start, end in g.fragments]))
        if not self._patches and not self.framed:
            return
        self._patches.sort(key=lambda p: p[0])
        self.out = bytearray(self.reframed() if self.framed else self.patched(0, len(self.out)))

    def _patch(self, j: Join, args: bool, out: int, raw: bytes) -> None:
        """Adds the replacement of a text."""
        if raw or not j.blank:
            self._patches.append((out, self.arguments(raw) if args else self.shape(decode(raw))))

    def patched(self, start: int, end: int) -> bytes:
        """Returns out[start:end] with its patches and removes these patches."""
        pieces = []
        used = 0
        for at, text in self._patches:
            if at >= end:
                break
            pieces += [bytes(self.out[start:at]), text]
            start = at
            used += 1
        del self._patches[:used]
        pieces.append(bytes(self.out[start:end]))
        return b"".join(pieces)

    def reframed(self) -> bytes:
        """The frames of the shape."""
        raise NotImplementedError

    def bad_event(self, text: bytes) -> bytes:
        """The shape of a text that should be an event but is not."""
        return self.shape(text) + BAD
