"""A FIFO of the events to publish in bounded memory. The agent's threads add events, the sender removes them, and neither waits."""

from __future__ import annotations

from collections import deque
from typing import Callable, Optional

from ._event import HOOK, Event
from ._original import Empty, Locked, RLock, SimpleQueue
from ._report import Unsent

ITEM_OVERHEAD = 2 << 10  # approximate memory of an event without its body, in bytes
MAX_IN_FLIGHT = 256
MAX_IN_FLIGHT_BYTES = 8 << 20

REMOVED, QUEUED, IN_FLIGHT = 0, 1, 2


class Pair:
    """The request and the response of one exchange in the queue. The queue's lock guards it."""

    __slots__ = ("dialect", "items", "stored", "dropped")

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.items: list[Item] = []
        self.stored = 0
        self.dropped = False


class Item:
    """An event to publish."""

    __slots__ = ("ev", "pair", "size", "state", "prepared", "acks", "sent", "failure")

    def __init__(self, ev: Event, pair: Optional[Pair], size: int) -> None:
        self.ev, self.pair, self.size = ev, pair, size
        self.state = REMOVED
        self.prepared = False
        # Only for an item in flight, owned by the sender:
        self.acks = -1  # missing acknowledgements, negative before it is sent
        self.sent = 0.0
        self.failure: Optional[Exception] = None


class Queue(Locked):
    """When the memory is full, the queue drops both events of the oldest exchange that is not in flight."""

    def __init__(self, limit: int, wake: Callable[[], None]) -> None:
        self._limit = limit
        self._wake = wake  # called without the lock when there may be something to send
        # Guards the fields below and every pair. Reentrant, because a signal handler may make calls.
        self._lock = RLock()
        self._in_flight: deque[Item] = deque()
        self._queued: deque[Item] = deque()
        self._used = self._in_flight_bytes = self._queued_bytes = 0
        self._pending = 0
        self._seq = self._published = self._events = self._dropped = 0
        self.uncaptured = (0, "")  # calls that the hook does not capture, and by transport, set by Hook
        self._waiters: list[tuple[int, SimpleQueue[bool]]] = []

    def reserve(self, n: int) -> bool:
        """Accounts for n more bytes and drops old exchanges to make room. If dropping all of them would not make enough room,
        returns False and changes nothing."""
        with self._lock:
            if n > 0 and self._used + n - self._queued_bytes > self._limit:
                return False
            self._used += n
            self._make_room()
            return True

    def reserve_free(self, n: int) -> bool:
        """Like reserve, but drops nothing."""
        with self._lock:
            if self._used + n > self._limit:
                return False
            self._used += n
            return True

    def push(self, ev: Event, pair: Optional[Pair], reserved: int, lost: bool) -> None:
        """Queues ev. Assigns the sequence number, even to dropped events, so that every loss is a gap."""
        it = Item(ev, pair, reserved + ITEM_OVERHEAD)
        with self._lock:
            self._seq += 1
            ev.seq = self._seq
            if pair is not None:
                pair.items.append(it)
                if lost:
                    self._drop(pair)
                if pair.dropped:
                    self._used -= reserved
                    return
            self._used += ITEM_OVERHEAD
            it.state = QUEUED
            self._queued.append(it)
            self._queued_bytes += it.size
            self._pending += 1
            self._make_room()
        self._wake()

    def _make_room(self) -> None:
        while self._used > self._limit and self._queued:
            it = self._queued.popleft()
            if it.state == QUEUED and it.pair is not None:
                self._drop(it.pair)
            self._free(it)
            self._notify_waiters()

    def _drop(self, pair: Pair) -> None:
        if pair.dropped:
            return
        pair.dropped = True
        self._dropped += 1
        for it in pair.items:
            self._free(it)

    def _free(self, it: Item) -> None:
        """Frees the memory of a queued item. The item stays in the FIFO until it is the oldest queued one."""
        if it.state != QUEUED:
            return
        it.state, it.ev.body = REMOVED, None
        self._used -= it.size
        self._queued_bytes -= it.size
        self._pending -= 1

    def next(self, window: int) -> Optional[Item]:
        """Marks the oldest queued item as in flight and returns it; None if none is queued or enough are in flight."""
        with self._lock:
            if not self._ready(window):
                return None
            it = self._queued.popleft()
            self._in_flight.append(it)
            it.state, it.failure, it.acks = IN_FLIGHT, None, -1
            self._in_flight_bytes += it.size
            self._queued_bytes -= it.size
            it.ev.dropped = self._dropped
            if it.ev.kind != HOOK:  # whose id has the count
                it.ev.uncaptured, it.ev.uncaptured_by = self.uncaptured
            return it

    @property
    def has_queued(self) -> bool:
        """Whether items are queued."""
        return bool(self._queued)

    def _ready(self, window: int) -> bool:
        while self._queued and self._queued[0].state == REMOVED:
            self._queued.popleft()
            self._notify_waiters()
        if not self._queued or len(self._in_flight) >= window:
            return False
        return not self._in_flight or self._in_flight_bytes + self._queued[0].size <= MAX_IN_FLIGHT_BYTES

    def ack(self) -> tuple[int, list[str]]:
        """Removes the oldest items in flight whose messages are all acknowledged. Returns their number and the ids of the exchanges
        that are now stored whole."""
        stored, published = 0, []
        with self._lock:
            while self._in_flight and self._in_flight[0].acks == 0:
                it = self._in_flight[0]
                self._remove_in_flight(it)
                stored += 1
                if it.pair is not None:
                    it.pair.stored += 1
                    if it.pair.stored == 2:
                        published.append(it.ev.exchange)
            self._events += stored
            self._published += len(published)
        return stored, published

    def reject(self, it: Item) -> None:
        """Removes an item in flight that NATS will never accept, and drops its exchange."""
        with self._lock:
            self._remove_in_flight(it)
            if it.pair is not None:
                self._drop(it.pair)

    def _remove_in_flight(self, it: Item) -> None:
        self._in_flight.remove(it)
        it.state, it.ev.body = REMOVED, None
        self._used -= it.size
        self._in_flight_bytes -= it.size
        self._pending -= 1
        self._notify_waiters()

    def resize(self, it: Item, n: int) -> bool:
        """Accounts for a new body of n bytes of an item in flight. Returns False if there is no room for it."""
        with self._lock:
            grown = n + ITEM_OVERHEAD - it.size
            if not self.reserve(grown):
                return False
            it.size += grown
            self._in_flight_bytes += grown
            return True

    def requeue(self) -> None:
        """Queues all items in flight again, in order. JetStream drops the ones that it has stored by their message ids."""
        with self._lock:
            for it in self._in_flight:
                it.state = QUEUED
                self._queued_bytes += it.size
                if it.pair is not None and it.pair.dropped:
                    self._free(it)
            self._queued.extendleft(reversed(self._in_flight))
            self._in_flight.clear()
            self._in_flight_bytes = 0

    def oldest_in_flight(self) -> Optional[Item]:
        """The oldest item in flight, if any."""
        with self._lock:
            return self._in_flight[0] if self._in_flight else None

    @property
    def has_waiters(self) -> bool:
        """Whether a thread waits in flush."""
        return bool(self._waiters)

    @property
    def pending(self) -> int:
        """Number of events that are not stored yet."""
        return self._pending

    @property
    def dropped(self) -> int:
        """Number of dropped exchanges."""
        return self._dropped

    def unsent(self) -> Unsent:
        """Counts the events of calls, runs and tools that are not stored."""
        exchanges, steps = set(), 0
        with self._lock:
            for it in (*self._in_flight, *self._queued):
                if it.state == REMOVED or it.pair is not None and it.pair.dropped or it.ev.kind == HOOK:
                    continue
                if it.pair is None:
                    steps += 1
                else:
                    exchanges.add(id(it.pair))
        return Unsent(len(exchanges), steps)

    def flush(self, timeout: float) -> bool:
        """Waits until all events pushed before are stored or dropped. Returns False after timeout seconds."""
        with self._lock:
            if self._settled(self._seq):
                return True
            done: SimpleQueue[bool] = SimpleQueue()
            self._waiters.append((self._seq, done))
        try:
            return done.get(timeout=timeout)
        except Empty:
            with self._lock:
                self._waiters = [w for w in self._waiters if w[1] is not done]
            return False

    def _notify_waiters(self) -> None:
        if not self._waiters:
            return
        keep = []
        for seq, done in self._waiters:
            if self._settled(seq):
                done.put(True)
            else:
                keep.append((seq, done))
        self._waiters = keep

    def _settled(self, seq: int) -> bool:
        if self._in_flight:
            return self._in_flight[0].ev.seq > seq
        while self._queued and self._queued[0].state == REMOVED:
            self._queued.popleft()
        return not self._queued or self._queued[0].ev.seq > seq

    def counts(self) -> tuple[int, int, int, int, int]:
        """Published exchanges, stored events, dropped exchanges, pending events, bytes in use."""
        with self._lock:
            return self._published, self._events, self._dropped, self._pending, self._used
