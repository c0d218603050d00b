"""The hook of this process: it makes exchanges, numbers their events and keeps the sender running."""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import threading
import time
import uuid
from collections import deque
from typing import Any, NamedTuple, Optional

from . import _context, _event
from ._config import Config, log
from ._event import Event, Labels, clip
from ._exchange import EXIT, LEFT, Exchange, Headers
from ._hosts import Hosts, Target
from ._queue import Queue
from ._sender import Sender

VERSION = "0.1.0"

# How much longer than Config.flush_timeout close may take, for an orderly end of the sender, in seconds.
_CLOSE_GRACE = 0.1
MAX_DRAINS = 64  # unread error answers that are read in the background at a time


class Stats(NamedTuple):
    """What the hook of this process did."""

    published: int  # exchanges whose request and response NATS has stored
    events: int  # messages that NATS has stored, those in parts counted once
    dropped: int  # exchanges given up for want of memory, or because NATS will never take them
    pending: int  # events that wait to be stored
    open: int  # calls whose answer has not ended
    bytes: int  # memory reserved for all that waits and for bodies being read
    errors: int  # mistakes of the hook's own that it kept from the agent


class Hook:
    """Records the calls of one process. Safe for concurrent use; a forked child starts anew with an instance of its own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.hosts = Hosts(config.hosts)
        self.sdk = "python/" + VERSION
        self.epoch = 0
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self.random = random.Random()  # of exchange ids; seeded by the system
        self.instance = str(uuid.UUID(bytes=os.urandom(16), version=4))
        self.left: deque[Exchange] = deque()  # answers that the garbage collector found; ended by the sender
        self._lock = threading.RLock()  # guards all below
        self._open: dict[int, Exchange] = {}
        self._closed = False
        self._errors = 0
        self._sender: Optional[Sender] = None
        self.drains = threading.BoundedSemaphore(MAX_DRAINS)
        self.queue = Queue(self.config.memory_limit, self.wake)

    def forked(self) -> None:
        """Starts anew in the child of a fork. What waits is the parent's, and so is the connection, which must not be closed here."""
        self._inherited.append((self.queue, self._sender, self._open, self.left))
        self.epoch += 1
        self._begin()

    def wake(self) -> None:
        """There may be something to send."""
        sender = self._sender
        if sender is None:
            sender = self.start()
        if sender is not None:
            sender.wake()

    def start(self) -> Optional[Sender]:
        """Starts the sender, unless it runs or the hook is closed."""
        with self._lock:
            if self._sender is None and not self._closed:
                sender = Sender(self)
                sender.start()
                self._sender = sender
            return self._sender

    def oops(self) -> None:
        """Counts the exception at hand, which is the hook's own mistake, and says so at the first."""
        with self._lock:
            self._errors += 1
            first = self._errors == 1
        if first:
            log.warning("llmtap: a call may not be recorded; further mistakes are counted only", exc_info=True)

    def begin(self, target: Target, method: str, headers: Headers) -> Optional[Exchange]:
        """The exchange of a call, None once the hook is closed."""
        x = Exchange(self, target, method, headers)
        with self._lock:
            if self._closed:
                return None
            self._open[id(x)] = x
        return x

    def untrack(self, x: Exchange) -> None:
        """x has ended."""
        with self._lock:
            self._open.pop(id(x), None)

    def sweep(self) -> None:
        """Ends the calls whose answers were left alone."""
        while self.left:
            self.left.popleft().end(LEFT)

    def scope(self) -> _context.Scope:
        """What the running code says about its calls."""
        return _context.current()

    def labels(self, scope: _context.Scope) -> Labels:
        """What the process and the scope say; the scope wins."""
        labels = scope.labels
        if labels is None or labels.instance is not self.instance:
            labels = scope.labels = self._labels(scope)
        return labels

    def _labels(self, scope: _context.Scope) -> Labels:
        labels, cfg = Labels(), self.config
        labels.instance, labels.sdk, labels.attrs = self.instance, self.sdk, scope.attrs
        labels.service, labels.service_version, labels.environment = cfg.service, cfg.service_version, cfg.environment
        labels.agent = scope.agent or cfg.agent
        labels.stage, labels.conversation, labels.run = scope.stage, scope.conversation, scope.run
        user = scope.user
        if user and not cfg.keep_user:
            # 16 hex digits: enough to tell users apart, too few to be worth reversing without the key.
            user = hmac.new(cfg.user_key, _event.utf8(user), hashlib.sha256).hexdigest()[:16]
        labels.user = clip(user)
        return labels

    def traceparent(self) -> str:
        """The trace of a call whose request names none."""
        if self.config.traceparent is None:
            return ""
        try:
            return str(self.config.traceparent() or "")
        except Exception:
            self.oops()
            return ""

    def run_event(self, scope: _context.Scope, step: str) -> None:
        """Publishes that the scope's run started or ended."""
        if scope.run:
            self._step(Event(_event.RUN, self.labels(scope)), step)

    def tool_event(self, scope: _context.Scope, call_id: str, step: str) -> None:
        """Publishes that a tool started or ended; nothing without a call id and an exchange, because call ids alone are not unique."""
        if call_id and scope.last is not None and scope.last.exchange:
            ev = Event(_event.TOOL, self.labels(scope))
            ev.tool_call_id, ev.exchange = clip(call_id), scope.last.exchange
            self._step(ev, step)

    def _step(self, ev: Event, step: str) -> None:
        with self._lock:
            if self._closed:
                return
        ev.step, ev.time = step, time.time_ns()
        self.queue.put(ev, None, 0, False)

    def stats(self) -> Stats:
        """The counts so far."""
        published, events, dropped, pending, used = self.queue.snapshot()
        with self._lock:
            return Stats(published, events, dropped, pending, len(self._open), used, self._errors)

    def flush(self, timeout: float) -> bool:
        """Waits until NATS has stored all that ended before; False when that took longer than timeout seconds."""
        return self.queue.flush(timeout)

    def close(self) -> bool:
        """Ends the recording of open calls, publishes what waits within Config.flush_timeout, and stops."""
        with self._lock:
            if self._closed:
                return True
            self._closed = True
            still_open, sender = list(self._open.values()), self._sender
        deadline = time.monotonic() + self.config.flush_timeout
        self._end_drains(self.config.flush_timeout / 2)
        self.sweep()
        for x in still_open:
            x.end(EXIT)
        if sender is None:
            return self.queue.snapshot()[3] == 0
        stored = self.flush(max(0.0, deadline - time.monotonic()))
        sender.stop()
        sender.join(_CLOSE_GRACE)
        return stored

    def _end_drains(self, timeout: float) -> None:
        """Waits for the error answers that are being read."""
        limit = time.monotonic() + timeout
        for _ in range(MAX_DRAINS):
            if not self.drains.acquire(timeout=max(0.0, limit - time.monotonic())):
                return
