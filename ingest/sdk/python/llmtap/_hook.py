"""The hook of this process: starts exchanges and the sender."""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import sys
import uuid
from collections import deque
from typing import Any, NamedTuple, Optional, Union

from . import _context, _event, _redact
from ._code import Finder
from ._config import Config, log
from ._endpoint import EndpointSender
from ._event import ABANDONED, EXIT, Event, Labels, clip
from ._exchange import Exchange, Headers
from ._hosts import MAX_UNKNOWN, Hosts, Target
from ._original import Locked, RLock, clock, sleep
from ._queue import Queue
from ._report import Reporter, Unsent
from ._sender import Sender

VERSION = "0.1.0"

# Additional seconds that close waits after Config.flush_timeout for the sender to exit.
_CLOSE_GRACE = 0.1
REPORT_INTERVAL = 10.0  # seconds between two reports of uncaptured calls
HEARTBEAT_INTERVAL = 60.0  # seconds between two heartbeats
MAX_DRAINS = 64  # unread error responses that are read in the background concurrently

# What to do about calls that are not captured, by transport.
_INSTEAD = {
    "grpc": 'use the REST transport of this client, in Google\'s transport="rest"',
    "websocket": "use the HTTP API if it has one for these calls",
    "http3": "turn HTTP/3 off in this client",
}


class Stats(NamedTuple):
    """The counters of the hook."""

    published: int  # exchanges whose request and response NATS has stored
    events: int  # events that NATS has stored; an event in parts counts once
    dropped: int  # exchanges dropped because memory ran out or NATS rejected them
    pending: int  # events not stored yet
    open: int  # calls whose response has not ended
    bytes: int  # memory reserved for pending events and for bodies being read
    errors: int  # internal errors of the hook
    unrecorded: int  # calls with the path of an LLM API to unknown hosts, which are not recorded
    uncaptured: int  # calls over gRPC, WebSockets and HTTP/3 to the hosts to record, which are not captured


class Hook(Locked):
    """Records the calls of one process. Safe for concurrent use; a forked child has its own instance."""

    def __init__(self, config: Config) -> None:
        _redact.load()  # the agent's threads must not read files later
        self.config = config
        self.automatic = False  # see _api.install
        self.hosts = Hosts(config.hosts)
        self._code = Finder() if config.code else None
        self.sdk = "python/" + VERSION
        self.epoch = 0
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self.random = random.Random()  # for exchange ids; seeded by the system
        self.instance = str(uuid.UUID(bytes=os.urandom(16), version=4))
        self.abandoned: deque[Exchange] = deque()  # responses found by the garbage collector; the sender ends them
        self._lock = RLock()  # guards the fields below
        self._open: dict[int, Exchange] = {}
        self._closed = False
        self._errors = 0
        self._uncaptured: dict[str, int] = {}  # calls by transport
        self._uncaptured_hosts: set[tuple[str, str]] = set()
        self._reported = 0  # uncaptured calls in the newest report
        self._report_due = 0.0
        self._beat_due = clock.monotonic() + HEARTBEAT_INTERVAL
        self._beats = 0  # heartbeats queued
        self._stored = 0  # events stored at the last heartbeat
        self._sender: Union[Sender, EndpointSender, None] = None
        self._drains = 0  # unread error responses that are being read
        self.report = Reporter(self.config)
        self.queue = Queue(self.config.memory_limit, self.wake)

    def forked(self) -> None:
        """Resets the hook in the child of a fork. Pending events and the connection belong to the parent and must not be closed."""
        self._inherited.append((self.queue, self._sender, self._open, self.abandoned))
        self.epoch += 1
        self.hosts.reset()
        self._begin()

    def wake(self) -> None:
        """Wakes the sender."""
        sender = self._sender
        if sender is None:
            sender = self.start()
        if sender is not None:
            sender.wake()

    def start(self) -> Union[Sender, EndpointSender, None]:
        """Starts the sender unless it runs or the hook is closed."""
        with self._lock:
            if self._sender is None and not self._closed:
                make = EndpointSender if self.config.endpoint else Sender
                sender = make(self.queue, self.config, self.report, self.sdk, self.sweep, self.count_error)
                sender.start()
                self._sender = sender
            return self._sender

    def count_error(self) -> None:
        """Counts the current exception, an internal error, and logs the first."""
        with self._lock:
            self._errors += 1
            first = self._errors == 1
        if first:
            log.warning("llmtap: internal error, a call may not be recorded; further errors are only counted: %s", _current_error())

    def uncaptured(self, host: str, transport: str) -> None:
        """Counts a call that is not captured. Logs each host once, and publishes the counts at most every REPORT_INTERVAL seconds."""
        now = clock.monotonic()
        with self._lock:
            if self._closed:
                return
            self._uncaptured[transport] = self._uncaptured.get(transport, 0) + 1
            self.queue.uncaptured = (self.queue.uncaptured[0] + 1, " ".join(f"{t}={n}" for t, n in self._uncaptured.items() if t in _INSTEAD))
            first = (host, transport) not in self._uncaptured_hosts and len(self._uncaptured_hosts) < MAX_UNKNOWN
            if first:
                self._uncaptured_hosts.add((host, transport))
        if first:
            instead = _INSTEAD.get(transport, "use another client")
            log.warning("llmtap: calls to %s over %s are not recorded, only counted; %s", host, transport, instead)
        self._report_uncaptured(now)

    def _report_uncaptured(self, now: float) -> None:
        with self._lock:
            if self.queue.uncaptured[0] == self._reported or now < self._report_due:
                return
            self._report_due = now + REPORT_INTERVAL
            ev = Event(_event.HOOK, self.labels(_context.Scope()))
            ev.uncaptured, ev.uncaptured_by = self.queue.uncaptured
            self._reported = ev.uncaptured
        ev.time = clock.time_ns()
        self.queue.push(ev, None, 0, False)

    def _heartbeat(self, now: float) -> None:
        """Publishes that the process is alive. While nothing is stored, heartbeats would only fill the queue."""
        if now < self._beat_due:
            return
        self._beat_due = now + HEARTBEAT_INTERVAL
        _, events, _, pending, _ = self.queue.counts()
        if events > self._stored or events and not pending:
            self._stored = events
            self._beats += 1
            self._step(Event(_event.HOOK, self.labels(_context.Scope())), _event.ALIVE)

    def begin(self, target: Target, method: str, headers: Headers) -> Optional[Exchange]:
        """Starts and returns the exchange of a call; None if the hook is closed."""
        x = Exchange(self, target, method, headers)
        with self._lock:
            if self._closed:
                return None
            self._open[id(x)] = x
        return x

    def untrack(self, x: Exchange) -> None:
        """Removes x, which has ended."""
        with self._lock:
            self._open.pop(id(x), None)

    def begin_drain(self) -> bool:
        """Whether one more unread error response may be read in the background. If so, end_drain must follow."""
        with self._lock:
            if self._closed or self._drains >= MAX_DRAINS:
                return False
            self._drains += 1
            return True

    def end_drain(self) -> None:
        """Ends what begin_drain began."""
        with self._lock:
            self._drains -= 1

    def sweep(self) -> None:
        """Ends the calls whose responses were abandoned, and reports the newest count of uncaptured calls and that the process is alive."""
        while self.abandoned:
            self.abandoned.popleft().end(ABANDONED)
        now = clock.monotonic()
        self._report_uncaptured(now)
        self._heartbeat(now)

    def scope(self) -> _context.Scope:
        """The current scope."""
        return _context.current()

    def labels(self, scope: _context.Scope) -> Labels:
        """The labels of the process, overridden by the labels of the scope."""
        labels = scope.labels
        if labels is None or labels.instance is not self.instance:
            labels = scope.labels = self._labels(scope)
        return labels

    def _labels(self, scope: _context.Scope) -> Labels:
        labels, cfg = Labels(), self.config
        labels.instance, labels.sdk, labels.attrs = self.instance, self.sdk, self._attrs(scope)
        labels.service, labels.service_version, labels.environment = cfg.service, cfg.service_version, cfg.environment
        labels.agent = scope.agent or cfg.agent
        labels.stage, labels.conversation, labels.run = scope.stage, scope.conversation, scope.run
        user = scope.user
        if user and not cfg.keep_user:
            # 16 hex digits: enough to distinguish users, but not worth reversing without the key.
            user = hmac.new(cfg.user_key, _event.utf8(user), hashlib.sha256).hexdigest()[:16]
        labels.user = clip(user)
        return labels

    def _attrs(self, scope: _context.Scope) -> dict[str, str]:
        """The attributes of the process, overridden by those of the scope, up to MAX_ATTRS in all."""
        attrs = dict(scope.attrs)
        for key, value in sorted(self.config.attrs.items()):
            if len(attrs) < _event.MAX_ATTRS:
                attrs.setdefault(key, value)
        return attrs

    def traceparent(self) -> str:
        """The trace of a request without a traceparent header."""
        if self.config.traceparent is None:
            return ""
        try:
            return str(self.config.traceparent() or "")
        except Exception:
            self.count_error()
            return ""

    def code(self) -> str:
        """Where in the agent's code the current call is made."""
        if self._code is None:
            return ""
        try:
            return self._code.find(4)  # below begin
        except Exception:
            self.count_error()
            return ""

    def run_event(self, scope: _context.Scope, step: str) -> None:
        """Publishes the start or end of the run of the scope."""
        if scope.run:
            self._step(Event(_event.RUN, self.labels(scope)), step)

    def tool_event(self, scope: _context.Scope, call_id: str, step: str) -> None:
        """Publishes the start or end of a tool, unless the exchange is unknown, because call ids alone are not unique."""
        if call_id and scope.last is not None and scope.last.exchange:
            ev = Event(_event.TOOL, self.labels(scope))
            ev.tool_call_id, ev.exchange = clip(call_id), scope.last.exchange
            self._step(ev, step)

    def _step(self, ev: Event, step: str) -> None:
        with self._lock:
            if self._closed:
                return
        self._push_step(ev, step)

    def _push_step(self, ev: Event, step: str) -> None:
        ev.step, ev.time = step, clock.time_ns()
        self.queue.push(ev, None, 0, False)

    def stats(self) -> Stats:
        """The current counters."""
        published, events, dropped, pending, used = self.queue.counts()
        with self._lock:
            return Stats(published, events, dropped, pending, len(self._open), used, self._errors, self.hosts.unrecorded, self.queue.uncaptured[0])

    def flush(self, timeout: float) -> bool:
        """Waits until NATS has stored all exchanges that ended before. Returns False after timeout seconds."""
        return self.queue.flush(timeout)

    def close(self) -> bool:
        """Ends the recording of active calls, publishes pending events within Config.flush_timeout, and stops."""
        with self._lock:
            if self._closed:
                return True
            self._closed = True
            active, sender = list(self._open.values()), self._sender
        deadline = clock.monotonic() + self.config.flush_timeout
        self._wait_for_drains(self.config.flush_timeout / 2)
        self.sweep()
        for x in active:
            x.end(EXIT)
        self._report_uncaptured(float("inf"))
        if self._beats:
            self._push_step(Event(_event.HOOK, self.labels(_context.Scope())), _event.ENDED)
        stored = self.flush(max(0.0, deadline - clock.monotonic()) if sender is not None else 0)
        self.report.lost(Unsent(0, 0) if stored else self.queue.unsent(), self.queue.dropped, self.config.flush_timeout)
        if sender is not None:
            sender.stop()
            sender.join(_CLOSE_GRACE)
        return stored

    def _wait_for_drains(self, timeout: float) -> None:
        """Waits for the error responses that are being read."""
        limit = clock.monotonic() + timeout
        while self._drains and clock.monotonic() < limit:
            sleep(0.005)


def _current_error() -> str:
    """The current exception and where it was raised. A traceback would read the source files."""
    error = sys.exc_info()[1]
    lines, trace = [], error.__traceback__ if error is not None else None
    while trace is not None:
        lines.append(f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{error!r} at {' > '.join(lines)}"
