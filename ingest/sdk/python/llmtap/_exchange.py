"""A call in progress: its request is queued when it is sent, its response when it ends."""

from __future__ import annotations

import asyncio
import functools
import re
import sys
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Iterable, Optional, Protocol, TypeVar, cast
from urllib.parse import parse_qs

from . import _event
from ._account import account
from ._capture import ERROR_READ, MAX_BODY, Capture
from ._endings import Ending, ending_of
from ._event import UNREAD, Event, Labels
from ._hosts import Target
from ._original import Locked, RLock, clock
from ._queue import Pair
from ._redact import clip_error
from ._shape.detect import detect
from ._wire import KEY_HEADERS, PART_HEADERS, RATE_LIMITS

if TYPE_CHECKING:
    import random
    from collections import deque

    from ._config import Config
    from ._context import Scope
    from ._queue import Queue


class Recorder(Protocol):
    """What an exchange needs of the hook."""

    config: Config
    epoch: int
    queue: Queue
    random: random.Random
    abandoned: deque[Exchange]

    def scope(self) -> Scope: ...
    def labels(self, scope: Scope) -> Labels: ...
    def traceparent(self) -> str: ...
    def code(self) -> str: ...
    def untrack(self, x: Exchange) -> None: ...
    def count_error(self) -> None: ...
    def begin_drain(self) -> bool: ...
    def end_drain(self) -> None: ...


# Bounds on reading the rest of an error response that the agent closed unread. It is read from a connection that no longer belongs to the
# agent's pool, for which nobody waits.
DRAIN_BYTES = 64 << 10
DRAIN_TIMEOUT = 1.0
_drains: set[asyncio.Task[None]] = set()  # tasks that read it; event loops have only weak references to tasks

_VERSION_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta", "api-version")
_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid")
# Headers that say when to try again, and what they are called in an event.
_RETRY_AFTER = (("retry-after", "retry_after"), ("retry-after-ms", "retry_after_ms"))
_LIMIT = re.compile(r"[0-9A-Za-z.:+-]{1,32}\Z", re.ASCII)
_CANCELLATIONS = ("CancelledError", "Cancelled", "KeyboardInterrupt", "SystemExit")

F = TypeVar("F", bound=Callable[..., Any])

# Values of the headers in _NAMES, by name.
Headers = dict[str, list[str]]

_NAMES = (
    *_VERSION_HEADERS, *KEY_HEADERS, *PART_HEADERS, *_REQUEST_IDS,
    "content-type", "content-encoding", "content-length", "x-stainless-retry-count", "traceparent",
    *(name for row in RATE_LIMITS for name in row[1:] if name), *(name for name, _ in _RETRY_AFTER),
)  # fmt: skip
_READ: dict[Any, str] = {**{name: name for name in _NAMES}, **{name.encode(): name for name in _NAMES}}


def headers_of(pairs: Iterable[tuple[Any, Any]]) -> Headers:
    """The headers of a message that are in _NAMES. Names and values are str or bytes."""
    found: Headers = {}
    for key, value in pairs:
        name = _READ.get(key) or _READ.get(key.lower())
        if name is not None and value is not None:
            found.setdefault(name, []).append(value if isinstance(value, str) else bytes(value).decode("latin-1"))
    return found


def _first(headers: Headers, name: str) -> str:
    values = headers.get(name)
    return values[0] if values else ""


def _rate_limits(headers: Headers) -> str:
    """What a response says of its rate limits. Go's wire.FormatRateLimits is the reference."""
    found = [
        f"{kind}={_limit(headers, remaining)}/{_limit(headers, limit)}/{_limit(headers, reset)}"
        for kind, remaining, limit, reset in RATE_LIMITS
        if remaining in headers
    ]
    for name, key in _RETRY_AFTER:
        if name in headers and (value := _limit(headers, name)):
            found.append(f"{key}={value}")
    return " ".join(found)


def _limit(headers: Headers, name: str) -> str:
    value = _first(headers, name)
    return value if _LIMIT.match(value) else ""


def _guarded(f: F) -> F:
    """Wraps f: after an exception, the exchange is forgotten."""

    @functools.wraps(f)
    def guarded(self: Exchange, *args: Any) -> Any:
        try:
            return f(self, *args)
        except Exception:
            self.broken()

    return cast(F, guarded)


class Exchange(Locked):
    """Methods may be called from any thread and never raise. Durations are by a monotonic clock."""

    def __init__(self, hook: Recorder, target: Target, method: str, headers: Headers) -> None:
        self.hook = hook
        self.epoch = hook.epoch
        self._query = target.query
        self._time, self._start = clock.time_ns(), clock.monotonic_ns()
        self._lock = RLock()  # guards the fields below
        self._request_sent = False
        self.ended = self._broken = False
        self._sending = False  # the request body has not been read to its end
        self._stream: Optional[Ending] = None
        self._want = -1  # Content-Length of the response, if known
        self._got = 0
        scope = hook.scope()
        labels, capture = hook.labels(scope), hook.config.capture
        limit = 0 if capture == _event.NONE else MAX_BODY
        self._request_body, self._response_body = Capture(hook.queue, limit), Capture(hook.queue, limit)
        self.pair = Pair(detect(target.path))
        req = self._req = Event(_event.REQUEST, labels)
        req.exchange, req.time, req.capture = _event.uuid7(hook.random), self._time, capture
        req.url, req.method = target.url, method
        req.api_version = _api_version(headers, target.query)
        req.account = account(hook.config.user_key, headers, target.query)
        req.retry = _retry(headers)
        req.code = hook.code()
        req.traceparent = _first(headers, "traceparent") or hook.traceparent()
        _describe(req, self._request_body, headers)
        res = self._res = Event(_event.RESPONSE, labels)
        res.exchange, res.capture = req.exchange, capture
        if scope.last is not None:
            scope.last.exchange = req.exchange

    @property
    def status(self) -> int:
        """The status of the response; 0 before the response."""
        return self._res.status

    def request(self, body: Optional[bytes]) -> None:
        """Queues the request with its complete body."""
        with self._lock:
            if body and not self._request_sent:
                self._request_body.want = len(body)
                self._request_body.write(body)
            self._send_request()

    @_guarded
    def body_pending(self) -> None:
        """Records that the request has a body that has not been read yet."""
        with self._lock:
            self._sending = self._request_body.limit > 0
            if not self._sending:
                self._send_request()

    @_guarded
    def request_read(self, p: bytes) -> None:
        """Records bytes of the request body while the transport reads them."""
        with self._lock:
            if not self._request_sent:
                self._request_body.write(p)

    @_guarded
    def request_end(self) -> None:
        """Queues the request, whose body was read to its end."""
        with self._lock:
            self._sending = False
            self._send_request()

    def _send_request(self) -> None:
        if self._request_sent:
            return
        self._request_sent = True
        self._req.degraded = self._sending
        self._put(self._req, self._request_body)

    def _put(self, ev: Event, body: Capture) -> None:
        if body.cut:
            ev.capture = _event.CUT
        ev.body, reserved = body.take()
        self.hook.queue.push(ev, self.pair, reserved, body.lost)

    def responded(self, status: int, headers: Headers, decoded: bool = False) -> None:
        """Begins the response. decoded means that the bytes are already decoded, regardless of the headers."""
        with self._lock:
            if self.ended:
                return
            res, body = self._res, self._response_body
            res.first_byte = clock.monotonic_ns() - self._start
            res.status = status
            _describe(res, body, headers)
            if decoded and body.limit >= 0:
                res.content_encoding = ""
            for name in _REQUEST_IDS:
                res.provider_request_id = res.provider_request_id or _first(headers, name)
            res.rate_limits = _rate_limits(headers)
            if status >= 400 and body.limit >= 0 and self.hook.config.capture != _event.FULL:
                body.limit = ERROR_READ
            if not res.content_encoding:
                self._stream = ending_of(res.content_type)
            length = _first(headers, "content-length")
            if length.isdigit() and not (decoded and headers.get("content-encoding")):
                self._want = body.want = int(length)
            if self._want == 0 or status in (101, 204, 304):
                self._end("")

    def read(self, p: bytes) -> None:
        """Records bytes of the response while the agent reads them."""
        if not self.ended and p:
            self._read(p)

    @_guarded
    def _read(self, p: bytes) -> None:
        with self._lock:
            last = False
            if self._stream is not None:
                n = self._stream.feed(p)
                if n >= 0:
                    p, last = p[:n], True
            self._response_body.write(p)
            self._got += len(p)
            if last or self._got == self._want:
                self._end("")

    def eof(self) -> None:
        """Ends the response, which was read to its end."""
        self.end("")

    @_guarded
    def failed(self, error: BaseException) -> None:
        """Ends the exchange, whose call or read raised."""
        self.end(self._error_text(error))

    @_guarded
    def closed(self, cancelled: bool = False) -> None:
        """Ends the exchange when the agent closes the response."""
        with self._lock:
            if self._stream is not None and self._stream.near():
                self._end("")
            elif cancelled:
                self._end(_event.CANCELLED)
            elif self._stream is None and self._want < 0 and self._response_body.limit <= 0:
                self._end("")  # bodies are not recorded, so completeness is unknown
            else:
                self._end(UNREAD)

    def drained(self) -> None:
        """Ends the exchange after the rest of its response was read in the background, whole or not."""
        self.hook.end_drain()
        self.closed()

    @property
    def got(self) -> int:
        """Bytes of the response that were read."""
        return self._got

    def has_unread_error(self) -> bool:
        """Whether the response is an error that has not been read to its end."""
        return not self.ended and self._res.status >= 400

    def _error_text(self, error: BaseException) -> str:
        """The text of error to publish: truncated, to be masked, without the query of the URL, which may contain a key."""
        name = type(error).__name__
        if isinstance(error, asyncio.CancelledError) or name in _CANCELLATIONS:
            return _event.CANCELLED
        try:
            text = str(error)
        except Exception:
            text = ""
        text = f"{name}: {text}" if text else name
        if self._query:
            text = text.replace(self._query, "…")
        return clip_error(text)

    def broken(self) -> None:
        """Counts the current exception, an internal error. Drops the exchange, which ends."""
        hook = self.hook
        hook.count_error()
        with self._lock:
            if self._broken:
                return
            self._broken = self.ended = self._request_sent = True
            hook.untrack(self)
            if self.epoch != hook.epoch:
                return
            reserved = self._request_body.take()[1] + self._response_body.take()[1]
            try:
                hook.queue.push(self._res, self.pair, reserved, True)
            except Exception:
                hook.count_error()

    @_guarded
    def end(self, error_text: str) -> None:
        """Queues the response, only once. error_text is empty for a complete response."""
        with self._lock:
            self._end(error_text)

    def _end(self, error_text: str) -> None:
        if self.ended:
            return
        self.ended = True
        self.hook.untrack(self)
        if self.epoch != self.hook.epoch:
            return  # forked: the call belongs to the parent
        self._send_request()
        res = self._res
        res.duration = clock.monotonic_ns() - self._start
        res.time = self._time + res.duration
        res.error = error_text
        self._put(res, self._response_body)


class _Ended:
    """Replaces an exchange that somebody else ends."""

    ended = True


ENDED: Any = _Ended()


def _api_version(headers: Headers, query: str) -> str:
    """The values of the version headers."""
    versions = [v for name in _VERSION_HEADERS for v in headers.get(name, ())]
    if not versions and "api-version=" in query:  # Azure
        return "".join(parse_qs(query).get("api-version", [])[:1])
    return ", ".join(versions)


def _retry(headers: Headers) -> int:
    value = _first(headers, "x-stainless-retry-count")
    return int(value) if value.isdigit() and value.isascii() and len(value) < 10 else 0


def _describe(ev: Event, body: Capture, headers: Headers) -> None:
    """Copies the content type and encoding of a body from headers. A body in an unknown encoding is not captured."""
    ev.content_type = _first(headers, "content-type")
    encoding = ",".join(headers.get("content-encoding", ())).strip().lower()
    if encoding in ("", "identity"):
        return
    if encoding in ("gzip", "x-gzip"):
        ev.content_encoding = "gzip"
    elif encoding in ("zstd", "br", "deflate"):
        ev.content_encoding = encoding  # the sender decodes encodings that readers of events do not support
    else:
        body.limit, ev.capture = -1, _event.NONE


def in_asyncio() -> bool:
    """Whether an event loop of asyncio runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def in_background(work: Coroutine[Any, Any, None]) -> None:
    """Runs work on the running event loop. The agent may end the loop first."""
    task: Any = asyncio.get_running_loop().create_task(work)
    task._log_destroy_pending = False
    _drains.difference_update([t for t in _drains if t.get_loop().is_closed()])
    _drains.add(task)
    task.add_done_callback(_drains.discard)


def cancelled() -> bool:
    """Whether the current task is being cancelled or the program interrupted."""
    kind = sys.exc_info()[0]
    if kind is not None and (issubclass(kind, (asyncio.CancelledError, KeyboardInterrupt)) or kind.__name__ == "Cancelled"):
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    cancelling = getattr(task, "cancelling", None)  # Python 3.11 and later
    return bool(cancelling is not None and cancelling())
