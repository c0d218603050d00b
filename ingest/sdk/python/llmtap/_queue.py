"""What is to be published: one FIFO in bounded memory. The agent's threads put, the sender takes; nobody waits for anybody."""

from __future__ import annotations

import threading
from collections import deque
from typing import Callable, Optional

from ._event import Event

ITEM_OVERHEAD = 2 << 10  # what an event costs in memory beside its body, roughly, in bytes
MAX_IN_FLIGHT = 256
MAX_IN_FLIGHT_BYTES = 8 << 20

OUT, WAITING, FLYING = 0, 1, 2


class Ticket:
    """One exchange as the queue sees it; the queue's lock guards it."""

    __slots__ = ("dialect", "items", "acked", "dropped")

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.items: list[Item] = []
        self.acked = 0
        self.dropped = False


class Item:
    """One event on its way to NATS."""

    __slots__ = ("ev", "ticket", "size", "state", "prepared", "acks", "sent", "failure")

    def __init__(self, ev: Event, ticket: Optional[Ticket], size: int) -> None:
        self.ev, self.ticket, self.size = ev, ticket, size
        self.state = OUT
        self.prepared = False
        # The sender's, of a flying item:
        self.acks = -1  # that are still to come, below zero before it is sent
        self.sent = 0.0
        self.failure: Optional[Exception] = None


class Queue:
    """When the memory is used up, the oldest exchange that is not in flight is dropped whole."""

    def __init__(self, limit: int, wake: Callable[[], None]) -> None:
        self._limit = limit
        self._wake = wake  # called without the lock, when there may be something to send
        # Guards all below and every ticket. Reentrant, because a signal handler may make calls.
        self._lock = threading.RLock()
        self._flying: deque[Item] = deque()
        self._waiting: deque[Item] = deque()
        self._used = self._flying_bytes = self._waiting_bytes = 0
        self._live = 0
        self._seq = self._published = self._events = self._dropped = 0
        self._waiters: list[tuple[int, threading.Event]] = []

    def reserve(self, n: int) -> bool:
        """Accounts for n more bytes and drops old exchanges to make room; False, and nothing is accounted, when there is no room even so."""
        with self._lock:
            if n > 0 and self._used + n - self._waiting_bytes > self._limit:
                return False
            self._used += n
            self._make_room()
            return True

    def spare(self, n: int) -> bool:
        """reserve for memory that nobody needs: nothing is dropped for it."""
        with self._lock:
            if self._used + n > self._limit:
                return False
            self._used += n
            return True

    def put(self, ev: Event, ticket: Optional[Ticket], reserved: int, lost: bool) -> None:
        """Queues ev. Every event gets its number here, dropped or not, so that every loss is a gap."""
        it = Item(ev, ticket, reserved + ITEM_OVERHEAD)
        with self._lock:
            self._seq += 1
            ev.seq = self._seq
            if ticket is not None:
                ticket.items.append(it)
                if lost:
                    self._drop(ticket)
                if ticket.dropped:
                    self._used -= reserved
                    return
            self._used += ITEM_OVERHEAD
            it.state = WAITING
            self._waiting.append(it)
            self._waiting_bytes += it.size
            self._live += 1
            self._make_room()
        self._wake()

    def _make_room(self) -> None:
        while self._used > self._limit and self._waiting:
            it = self._waiting.popleft()
            if it.state == WAITING and it.ticket is not None:
                self._drop(it.ticket)
            self._kill(it)
            self._tell()

    def _drop(self, ticket: Ticket) -> None:
        if ticket.dropped:
            return
        ticket.dropped = True
        self._dropped += 1
        for it in ticket.items:
            self._kill(it)

    def _kill(self, it: Item) -> None:
        """Frees a waiting item. Its place in the FIFO goes when it is reached."""
        if it.state != WAITING:
            return
        it.state, it.ev.body = OUT, None
        self._used -= it.size
        self._waiting_bytes -= it.size
        self._live -= 1

    def next(self, window: int) -> Optional[Item]:
        """Takes the oldest waiting item into flight; None if there is none or enough are in flight."""
        with self._lock:
            if not self._ready(window):
                return None
            it = self._waiting.popleft()
            self._flying.append(it)
            it.state, it.failure, it.acks = FLYING, None, -1
            self._flying_bytes += it.size
            self._waiting_bytes -= it.size
            it.ev.dropped = self._dropped
            return it

    @property
    def waiting(self) -> bool:
        """Something is still to be sent."""
        return bool(self._waiting)

    def _ready(self, window: int) -> bool:
        while self._waiting and self._waiting[0].state == OUT:
            self._waiting.popleft()
            self._tell()
        if not self._waiting or len(self._flying) >= window:
            return False
        return not self._flying or self._flying_bytes + self._waiting[0].size <= MAX_IN_FLIGHT_BYTES

    def acked(self) -> tuple[int, list[str]]:
        """Lets go of the oldest flying items, as far as all their acknowledgements have come. Returns how many, and the ids of the
        exchanges that are stored with them, whole."""
        stored, published = 0, []
        with self._lock:
            while self._flying and self._flying[0].acks == 0:
                it = self._flying[0]
                self._land(it)
                stored += 1
                if it.ticket is not None:
                    it.ticket.acked += 1
                    if it.ticket.acked == 2:
                        published.append(it.ev.exchange)
            self._events += stored
            self._published += len(published)
        return stored, published

    def refused(self, it: Item) -> None:
        """NATS will never take it."""
        with self._lock:
            self._land(it)
            if it.ticket is not None:
                self._drop(it.ticket)

    def _land(self, it: Item) -> None:
        self._flying.remove(it)
        it.state, it.ev.body = OUT, None
        self._used -= it.size
        self._flying_bytes -= it.size
        self._live -= 1
        self._tell()

    def resize(self, it: Item, n: int) -> bool:
        """Accounts for the body of a flying item, which is n bytes from now on; False when there is no room for it."""
        with self._lock:
            grown = n + ITEM_OVERHEAD - it.size
            if not self.reserve(grown):
                return False
            it.size += grown
            self._flying_bytes += grown
            return True

    def rewind(self) -> None:
        """All flying items wait again, to be sent anew in their order. NATS knows those it did store by their ids."""
        with self._lock:
            for it in self._flying:
                it.state = WAITING
                self._waiting_bytes += it.size
                if it.ticket is not None and it.ticket.dropped:
                    self._kill(it)
            self._waiting.extendleft(reversed(self._flying))
            self._flying.clear()
            self._flying_bytes = 0

    def head(self) -> Optional[Item]:
        """The oldest flying item."""
        with self._lock:
            return self._flying[0] if self._flying else None

    @property
    def awaited(self) -> bool:
        """Somebody waits in flush."""
        return bool(self._waiters)

    @property
    def backlog(self) -> int:
        """Events that wait to be stored."""
        return self._live

    def flush(self, timeout: float) -> bool:
        """Waits until all that was put before is published or dropped; False when that took too long."""
        with self._lock:
            if self._gone(self._seq):
                return True
            done = threading.Event()
            self._waiters.append((self._seq, done))
        if done.wait(timeout):
            return True
        with self._lock:
            self._waiters = [w for w in self._waiters if w[1] is not done]
        return False

    def _tell(self) -> None:
        if not self._waiters:
            return
        keep = []
        for seq, done in self._waiters:
            if self._gone(seq):
                done.set()
            else:
                keep.append((seq, done))
        self._waiters = keep

    def _gone(self, seq: int) -> bool:
        if self._flying:
            return self._flying[0].ev.seq > seq
        while self._waiting and self._waiting[0].state == OUT:
            self._waiting.popleft()
        return not self._waiting or self._waiting[0].ev.seq > seq

    def snapshot(self) -> tuple[int, int, int, int, int]:
        """Published exchanges, stored events, dropped exchanges, events that wait, bytes in use."""
        with self._lock:
            return self._published, self._events, self._dropped, self._live, self._used
