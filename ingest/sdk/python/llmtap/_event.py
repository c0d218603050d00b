"""Subjects and headers of the messages. Package ingest/sdk/go/event is the reference."""

from __future__ import annotations

import hashlib
import random
import re
import time
from typing import Optional, Union

from ._original import clock

MAX_HEADER_VALUE = 512  # bytes of one value, after percent-encoding
MAX_ATTRS = 32
MAX_PARTS = 1024
MAX_DURATION_NS = 1_000_000 * 10**9
MAX_SERVICE_NAME = 32
UNKNOWN_SERVICE = "unknown"

REQUEST, RESPONSE, RUN, TOOL, HOOK = "request", "response", "run", "tool", "hook"
ALIVE, ENDED = "alive", "ended"  # steps of a hook; "" in a report of uncaptured calls
FULL, SHAPE, NONE, CUT = "full", "shape", "none", "cut"
STARTED, OK, ERROR = "started", "ok", "error"
# Values of Llmtap-Error set by the hook; other values are texts of errors.
UNREAD = "closed before the end of the body"
ABANDONED = "neither read to its end nor closed"
EXIT = "the process exited before the response ended"
CANCELLED = "cancelled by the agent"

Body = Union[bytes, bytearray]

_ATTR_KEY = re.compile(r"[a-z0-9._-]{1,64}\Z")
_PLAIN = re.compile(r"[!-$&-~](?:[ -$&-~]*[!-$&-~])?\Z")
_NOT_TOKEN = re.compile(r"[^A-Za-z0-9_-]")


class Labels:
    """The labels of an event and the instance of the hook. Immutable once used by an event: the common headers are encoded once. Only the
    sender masks attrs before that."""

    __slots__ = (
        "service", "service_version", "environment", "agent", "stage", "conversation", "run", "user", "attrs", "instance", "sdk",
        "masked", "_route", "_headers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.service = self.service_version = self.environment = self.agent = ""
        self.stage = self.conversation = self.run = self.user = self.instance = self.sdk = ""
        self.attrs: dict[str, str] = {}
        self.masked = False
        self._route = self._headers = ""

    def route(self) -> str:
        """The end of the subjects: <service>.<shard>."""
        if not self._route:
            self._route = f"{service_token(self.service)}.{self.shard():02x}"
        return self._route

    def shard(self) -> int:
        """The shard of the conversation or, without one, of (service, agent, instance)."""
        if self.conversation:
            return shard_of(self.conversation)
        return shard_of(self.service or UNKNOWN_SERVICE, self.agent, self.instance)

    def headers(self) -> str:
        """The common headers of the events."""
        if not self._headers:
            self._headers = (
                _text("Llmtap-Service", self.service)
                + _text("Llmtap-Service-Version", self.service_version)
                + _text("Llmtap-Environment", self.environment)
                + _text("Llmtap-Agent", self.agent)
                + _text("Llmtap-Stage", self.stage)
                + _text("Llmtap-Conversation", self.conversation)
                + _text("Llmtap-Run", self.run)
                + _text("Llmtap-User", self.user)
                + _text("Llmtap-Instance", self.instance)
                + "".join(_text("Llmtap-Attr-" + key, self.attrs[key]) for key in sorted(self.attrs)[:MAX_ATTRS])
                + "Llmtap-Origin: hook\r\n"
                + _text("Llmtap-Sdk", self.sdk)
            )
        return self._headers


class Event:
    """The request or response of an exchange, or the start or end of a run or tool. Times are in nanoseconds."""

    __slots__ = (
        "kind", "exchange", "time", "labels", "url", "method", "api_version", "account", "status", "error", "duration", "first_byte",
        "provider_request_id", "rate_limits", "retry", "code", "step", "tool_call_id", "seq", "dropped", "uncaptured", "uncaptured_by", "capture",
        "degraded", "content_type", "content_encoding", "traceparent", "body",
    )  # fmt: skip

    def __init__(self, kind: str, labels: Labels) -> None:
        self.kind, self.labels = kind, labels
        self.exchange = self.url = self.method = self.api_version = self.account = self.error = self.provider_request_id = self.code = ""
        self.rate_limits = ""
        self.step = self.tool_call_id = self.capture = self.content_type = self.content_encoding = self.traceparent = self.uncaptured_by = ""
        self.time = self.status = self.duration = self.first_byte = self.retry = self.seq = self.dropped = self.uncaptured = 0
        self.degraded = False
        self.body: Optional[Body] = None

    def message_id(self, part: int) -> str:
        """The id by which JetStream drops a resent message."""
        if self.kind == RUN:
            return message_id_header(self.labels.run + "." + self.step)
        if self.kind == TOOL:
            return message_id_header(self.tool_call_id + "." + self.exchange + "." + self.step)
        if self.kind == HOOK and self.step:
            return message_id_header(f"{self.labels.instance}.{self.step}.{self.seq}")
        if self.kind == HOOK:
            return message_id_header(f"{self.labels.instance}.hook.{self.uncaptured}")
        return f"{self.exchange}.{'s' if self.kind == RESPONSE else 'q'}.{part}"

    def subject(self) -> str:
        """llmtap.v1.<kind>.<service>.<shard>."""
        return f"llmtap.v1.{self.kind}.{self.labels.route()}"

    def headers(self) -> str:
        """All headers in wire format except Nats-Msg-Id, Llmtap-Part and Llmtap-Body-Bytes, which depend on the part."""
        h = f"Llmtap-Time: {rfc3339(self.time)}\r\n"
        if self.exchange:
            h += f"Llmtap-Exchange: {self.exchange}\r\n"
        if self.kind == REQUEST:
            h += _text("Llmtap-Url", self.url) + _text("Llmtap-Method", self.method) + _text("Llmtap-Api-Version", self.api_version)
            h += _text("Llmtap-Account", self.account)
            if self.retry > 0:
                h += f"Llmtap-Retry: {self.retry}\r\n"
            h += _text("Llmtap-Code", self.code)
            h += _text("Traceparent", self.traceparent)
        elif self.kind == RESPONSE:
            h += f"Llmtap-Status: {self.status}\r\n"
            h += _text("Llmtap-Error", self.error)
            h += f"Llmtap-Duration-Ms: {millis(self.duration)}\r\nLlmtap-First-Byte-Ms: {millis(self.first_byte)}\r\n"
            h += _text("Llmtap-Provider-Request-Id", self.provider_request_id) + _text("Llmtap-Rate-Limits", self.rate_limits)
        elif self.kind == RUN:
            h += f"Llmtap-Run-Status: {self.step}\r\n"
        elif self.kind == TOOL:
            h += _text("Llmtap-Tool-Call-Id", self.tool_call_id) + f"Llmtap-Tool-Status: {self.step}\r\n"
        elif self.step:
            h += f"Llmtap-Hook-Status: {self.step}\r\n"
        h += self.labels.headers()
        if self.seq:
            h += f"Llmtap-Seq: {self.seq}\r\n"
        if self.dropped:
            h += f"Llmtap-Dropped: {self.dropped}\r\n"
        if self.uncaptured:
            h += f"Llmtap-Uncaptured: {self.uncaptured}\r\n" + _text("Llmtap-Uncaptured-By", self.uncaptured_by)
        if self.capture:
            h += f"Llmtap-Capture: {self.capture}\r\n"
        if self.degraded:
            h += "Llmtap-Degraded: 1\r\n"
        return h + _text("Content-Type", self.content_type) + _text("Content-Encoding", self.content_encoding)


def _text(key: str, value: str) -> str:
    """A header line; empty if there is no value."""
    return f"{key}: {escape(value)}\r\n" if value else ""


def valid_attr_key(key: str) -> bool:
    """Whether key matches [a-z0-9._-]{1,64}."""
    return _ATTR_KEY.match(key) is not None


def utf8(s: str) -> bytes:
    """Encodes s. Retains the bytes of a character that clip has split, and replaces lone surrogates with question marks."""
    try:
        return s.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return s.encode("utf-8", "replace")


def clip(s: str) -> str:
    """Truncates s to the length of a header value, so that longer values use no memory in the queue."""
    if len(s) * 4 <= MAX_HEADER_VALUE:
        return s
    b = utf8(s)
    return s if len(b) <= MAX_HEADER_VALUE else b[:MAX_HEADER_VALUE].decode("utf-8", "surrogateescape")


def escape(s: str) -> str:
    """Percent-encodes everything but printable ASCII and truncates to MAX_HEADER_VALUE bytes, not inside an escape or a character."""
    if len(s) <= MAX_HEADER_VALUE and _PLAIN.match(s):
        return s
    b = utf8(s)
    out: list[str] = []
    size = 0
    last = len(b) - 1
    i = 0
    while i <= last:
        c = b[i]
        if 0x20 < c < 0x7F and c != 0x25 or c == 0x20 and 0 < i < last:
            if size == MAX_HEADER_VALUE:
                break
            out.append(chr(c))
            size += 1
            i += 1
            continue
        width = _width(b, i)
        if size + 3 * width > MAX_HEADER_VALUE:
            break
        out.extend(f"%{x:02X}" for x in b[i : i + width])
        size += 3 * width
        i += width
    v = "".join(out)
    return v if i > last else v.rstrip(" ")


def _width(b: bytes, i: int) -> int:
    """The length of the character at i; 1 for an invalid byte."""
    for n in (2, 3, 4):
        try:
            b[i : i + n].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return n if b[i] >= 0x80 else 1
    return 1


def message_id_header(message_id: str) -> str:
    """The id as a header value. Longer ids are hashed, not truncated, because ids differ in their ends."""
    b = utf8(message_id)
    plain = sum(1 if 0x20 < c < 0x7F and c != 0x25 or c == 0x20 and 0 < i < len(b) - 1 else 3 for i, c in enumerate(b))
    if plain <= MAX_HEADER_VALUE:
        return escape(message_id)
    return "sha256:" + hashlib.sha256(b).hexdigest()


def service_token(name: str) -> str:
    """name if it is valid in a subject, otherwise a cleaned name with 6 hex digits of its hash."""
    if not name:
        return UNKNOWN_SERVICE
    b = utf8(name)
    clean = _NOT_TOKEN.sub("_", b.decode("utf-8", "replace"))
    if clean == name and len(b) <= MAX_SERVICE_NAME:
        return name
    return f"{clean[: MAX_SERVICE_NAME - 7]}-{_fnv1a(_FNV_OFFSET, b) & 0xFFFFFF:06x}"


_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619


def _fnv1a(h: int, b: bytes) -> int:
    for c in b:
        h = (h ^ c) * _FNV_PRIME & 0xFFFFFFFF
    return h


def shard_of(*parts: str) -> int:
    """The low byte of the FNV-1a hash of the parts, separated by a zero byte."""
    return _fnv1a(_FNV_OFFSET, b"\0".join(utf8(p) for p in parts)) & 0xFF


_second = (0, "1970-01-01T00:00:00")  # the last formatted second


def rfc3339(ns: int) -> str:
    """Formats a time with nanoseconds, in UTC, without trailing zeros."""
    global _second
    seconds, rest = divmod(ns, 10**9)
    known, whole = _second
    if seconds != known:
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        _second = (seconds, whole)
    return whole + f".{rest:09d}".rstrip("0").rstrip(".") + "Z"


def millis(ns: int) -> str:
    """Formats a duration in milliseconds with nanosecond precision."""
    whole, rest = divmod(min(max(ns, 0), MAX_DURATION_NS), 10**6)
    return (f"{whole}.{rest:06d}".rstrip("0").rstrip(".")) if rest else str(whole)


def uuid7(r: random.Random) -> str:
    """A new exchange id, a UUIDv7. Reading random bytes from the system for each id would release the interpreter lock in the middle
    of the agent's call."""
    n = (clock.time_ns() // 10**6 & 0xFFFFFFFFFFFF) << 80 | r.getrandbits(80)
    h = f"{n & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62:032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
