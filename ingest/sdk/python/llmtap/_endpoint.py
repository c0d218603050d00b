"""Sends queued events to a receiver over HTTP (POST /v1/events), oldest first, and retains each until NATS has stored it."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any, Callable, NamedTuple, Optional
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from . import _event
from ._config import EVENTS_PATH, Config, log
from ._event import Event
from ._original import Empty, SimpleQueue, Thread, clock, create_connection, sleep
from ._prepare import Preparer
from ._queue import MAX_IN_FLIGHT, Item, Queue
from ._report import Refused, Reporter

MAX_PAYLOAD = 1 << 20  # bytes of a payload, unless a single event is longer
_MAX_ANSWER = 4 << 20  # bytes of an answer

_CONNECT_TIMEOUT, _TIMEOUT = 5.0, 30.0
_MAX_IDLE = 30.0  # seconds after which a connection is not used again: servers and load balancers close idle ones
_MIN_BACKOFF, _MAX_BACKOFF, _MAX_RETRY_AFTER = 0.05, 1.0, 30.0
_TICK = 0.01  # seconds from the first event after a pause to its payload, to collect more events
_SLICE = 16  # events to encode before the agent's threads may run
_SWEEP = 1.0  # seconds between checks for abandoned responses

# Answers of llmtap after which the events of a payload are dropped. Any other status may change: with the receiver's state, the
# token or the URL.
_DROPPING = (400, 415, 422)
_TOO_LARGE = 413


class Answer(NamedTuple):
    """A final answer of the endpoint."""

    status: int
    error: str
    rejected: dict[int, str]  # by index in the payload


class EndpointSender(Thread):
    """Sends one payload at a time. After a failure it starts again with the oldest event; JetStream drops stored ones by their ids."""

    def __init__(self, events: Queue, config: Config, report: Reporter, sdk: str, sweep: Callable[[], None], count_error: Callable[[], None]) -> None:
        super().__init__()
        self._queue, self._report, self._sweep, self._count_error = events, report, sweep, count_error
        self._on_published = config.on_published
        self._preparer = Preparer(events, config)
        self._wakeups: SimpleQueue[None] = SimpleQueue()  # put is reentrant: a signal handler may make calls
        self._asleep = self._stopping = self._single = False
        self._backoff = _MIN_BACKOFF
        self._connection = _Connection(config, sdk)

    def wake(self) -> None:
        """Wakes the sender. Called by the agent's threads."""
        if self._asleep:
            self._asleep = False
            self._wakeups.put(None)

    def stop(self) -> None:
        """Makes the thread exit soon."""
        self._stopping = True
        self._wakeups.put(None)

    def run(self) -> None:
        """Sends until stop()."""
        while not self._stopping:
            try:
                self._turn()
                continue
            except (Refused, OSError, http.client.HTTPException) as e:
                error: Exception = e
            except Exception as e:  # an internal error must not end the sender
                self._count_error()
                error = e
            self._connection.close()
            self._report.failed(error, self._queue.pending > 0)
            self._queue.requeue()
            self._pause(max(self._backoff, min(getattr(error, "after", 0), _MAX_RETRY_AFTER)))
            self._backoff = min(2 * self._backoff, _MAX_BACKOFF)
        self._connection.close()

    def _turn(self) -> None:
        """Waits for events and sends a payload of the oldest ones."""
        self._sweep()
        items, payload = self._next()
        if not items:
            self._idle()
            return
        answer = self._connection.post(payload)
        if answer.status == _TOO_LARGE and len(items) > 1:
            self._single = True
            self._queue.requeue()
            return
        self._single = False
        all_dropped = answer.status != 200 and not answer.rejected
        for i, it in enumerate(items):
            reason = f"HTTP {answer.status}: {answer.error}" if all_dropped else answer.rejected.get(i)
            if reason is None:
                it.acks = 0
            else:
                log.warning("llmtap: the endpoint rejects an exchange, dropping it: %s", reason)
                self._queue.reject(it)
        _, published = self._queue.ack()
        for exchange in published:
            self._published(exchange)
        self._backoff = _MIN_BACKOFF
        self._report.succeeded(self._queue.dropped)

    def _next(self) -> tuple[list[Item], bytes]:
        """The oldest items and their payload."""
        items: list[Item] = []
        lines: list[bytes] = []
        size = 0
        while size < MAX_PAYLOAD and not (self._single and items):
            it = self._queue.next(MAX_IN_FLIGHT)
            if it is None:
                break
            if not it.prepared:
                self._preparer.prepare(it)
                it.prepared = True
            items.append(it)
            lines.append(encode(it.ev))
            size += len(lines[-1])
            if len(items) % _SLICE == 0:
                self._preparer.yield_gil()
        return items, b"\n".join(lines)

    def _idle(self) -> None:
        """Waits for an event, at most _SWEEP seconds."""
        self._asleep = True
        # An event pushed since the last check did not wake the sender.
        if not (self._stopping or self._queue.has_queued):
            try:
                self._wakeups.get(timeout=_SWEEP)
            except Empty:
                pass
        self._asleep = False
        if self._queue.has_queued and not (self._stopping or self._queue.has_waiters):
            sleep(_TICK)

    def _pause(self, seconds: float) -> None:
        """Waits for the given time, even if events are pushed."""
        until = clock.monotonic() + seconds
        while not self._stopping and (rest := until - clock.monotonic()) > 0:
            try:
                self._wakeups.get(timeout=rest)
            except Empty:
                return

    def _published(self, exchange: str) -> None:
        if self._on_published is not None:
            try:
                self._on_published(exchange)
            except Exception:
                log.error("llmtap: on_published raised", exc_info=True)


class _Connection:
    """A connection to the endpoint. It writes its requests itself, because http.client's methods may be hooked."""

    def __init__(self, config: Config, agent: str) -> None:
        base = urlsplit(config.endpoint)
        self._tls = base.scheme == "https"
        self._host, self._port = base.hostname or "", base.port or (443 if self._tls else 80)
        path = base.path.rstrip("/")
        self._path = path if path.endswith(EVENTS_PATH) else path + EVENTS_PATH
        self._head = f"Host: {base.netloc}\r\nUser-Agent: llmtap-{agent}\r\nContent-Type: application/x-ndjson\r\n"
        if config.token:
            self._head += f"Authorization: Bearer {config.token}\r\n"
        self._target = self._path
        self._proxy_head = ""
        self._config = config
        self._conn: Optional[http.client.HTTPConnection] = None
        self._used = 0.0

    def post(self, payload: bytes) -> Answer:
        """Sends a payload. Raises Refused, OSError or HTTPException if it must be sent again."""
        if self._conn is not None and clock.monotonic() - self._used > _MAX_IDLE:
            self.close()
        reused = self._conn is not None
        try:
            return self._post(payload)
        except (ConnectionError, ssl.SSLError):
            self.close()
            if not reused:
                raise
        return self._post(payload)  # the server had closed the connection

    def _post(self, payload: bytes) -> Answer:
        if self._conn is None:
            self._conn = self._connect()
        sock = self._conn.sock
        head = f"POST {self._target} HTTP/1.1\r\n{self._head}{self._proxy_head}Content-Length: {len(payload)}\r\n\r\n"
        sock.sendall(head.encode("latin-1", "replace"))
        failure: Optional[OSError] = None
        try:
            sock.sendall(payload)
        except ConnectionError as e:
            failure = e  # the server may have answered before it had read everything
        response = http.client.HTTPResponse(sock, method="POST")
        try:
            try:
                response.begin()
            except (OSError, http.client.HTTPException) as e:
                raise failure or e from None
            body = response.read(_MAX_ANSWER)
            done = response.isclosed() or not response.read(1)
            after = response.headers.get("Retry-After", "")
            if response.will_close or failure or not done:
                self.close()
        finally:
            response.close()
        self._used = clock.monotonic()
        return _answer(response.status, response.reason, body, after)

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._host, self._port
        proxy = self._proxy()
        if proxy is not None:
            host, port = proxy.hostname or "", proxy.port or 80
        conn: http.client.HTTPConnection
        if self._tls:
            conn = http.client.HTTPSConnection(host, port, timeout=_CONNECT_TIMEOUT, context=self._config.tls())
        else:
            conn = http.client.HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT)
        vars(conn)["_create_connection"] = create_connection
        if proxy is not None:
            self._through(conn, proxy)
        conn.connect()
        conn.sock.settimeout(_TIMEOUT)
        return conn

    def _proxy(self) -> Any:
        """The parsed URL of the proxy in the environment, if any."""
        url = getproxies().get("https" if self._tls else "http", "")
        if not url or self._host == "localhost" or self._host.startswith("127.") or self._host == "::1" or proxy_bypass(self._host):
            return None
        return urlsplit(url if "://" in url else "http://" + url)

    def _through(self, conn: http.client.HTTPConnection, proxy: Any) -> None:
        login = {}
        if proxy.username:
            user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            login = {"Proxy-Authorization": "Basic " + base64.b64encode(user.encode()).decode()}
        if self._tls:
            conn.set_tunnel(self._host, self._port, login)
            return
        self._target = f"http://{self._host}:{self._port}{self._path}"
        self._proxy_head = "".join(f"{k}: {v}\r\n" for k, v in login.items())

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        conn, self._conn = self._conn, None
        if conn is not None:
            try:
                conn.close()
            except Exception:  # it is not used any more
                pass


def _answer(status: int, reason: str, body: bytes, after: str) -> Answer:
    """The answer in a response. Raises Refused unless it is final."""
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        value = {}
    error = str(value.get("error") or "")
    if "accepted" in value and (status == 200 or status in _DROPPING) or status == _TOO_LARGE:
        rejected = value.get("rejected")
        found = {r["event"]: str(r.get("error")) for r in rejected if isinstance(r, dict) and "event" in r} if isinstance(rejected, list) else {}
        return Answer(status, error or reason, found)
    if status == 200:
        raise Refused(status, "the answer is not that of llmtap")
    text = error or body[:200].decode("utf-8", "replace").strip() or reason
    raise Refused(status, text, float(after) if after.isdigit() else 0)


def encode(ev: Event) -> bytes:
    """The event as an object of POST /v1/events, on one line. Go's Event.AppendJSON is the reference."""
    labels = ev.labels
    o: dict[str, Any] = {"kind": ev.kind, "time": _event.rfc3339(ev.time)}
    texts = {"exchange": ev.exchange}
    if ev.kind == _event.REQUEST:
        texts.update(url=ev.url, method=ev.method, api_version=ev.api_version, account=ev.account, code=ev.code, traceparent=ev.traceparent)
        if ev.retry > 0:
            o["retry"] = ev.retry
    elif ev.kind == _event.RESPONSE:
        o["status"] = ev.status
        o["duration_ms"], o["first_byte_ms"] = _millis(ev.duration), _millis(ev.first_byte)
        texts.update(error=ev.error, provider_request_id=ev.provider_request_id, rate_limits=ev.rate_limits)
    elif ev.kind == _event.RUN:
        texts["run_status"] = ev.step
    elif ev.kind == _event.TOOL:
        texts.update(tool_call_id=ev.tool_call_id, tool_status=ev.step)
    elif ev.kind == _event.HOOK:
        texts.update(hook_status=ev.step)
    texts.update(
        service=labels.service, service_version=labels.service_version, environment=labels.environment, agent=labels.agent,
        stage=labels.stage, conversation=labels.conversation, run=labels.run, user=labels.user, instance=labels.instance, sdk=labels.sdk,
        capture=ev.capture, content_type=ev.content_type, content_encoding=ev.content_encoding,
    )  # fmt: skip
    o.update((k, v) for k, v in texts.items() if v)
    o.update((k, n) for k, n in (("seq", ev.seq), ("dropped", ev.dropped), ("uncaptured", ev.uncaptured), ("uncaptured_by", ev.uncaptured_by)) if n)
    if labels.attrs:
        o["attrs"] = {k: labels.attrs[k] for k in sorted(labels.attrs)[: _event.MAX_ATTRS]}
    if ev.degraded:
        o["degraded"] = True
    if ev.body:
        body = bytes(ev.body)
        try:
            o["body"] = body.decode("utf-8")
        except UnicodeDecodeError:
            o["body_base64"] = base64.b64encode(body).decode("ascii")
    return _event.utf8(json.dumps(o, ensure_ascii=False, separators=(",", ":")))


def _millis(ns: int) -> Any:
    """A duration in milliseconds with nanosecond precision, as a number."""
    text = _event.millis(ns)
    return float(text) if "." in text else int(text)
