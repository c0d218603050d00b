"""Converts an event to its published form: decoded, redacted, shaped. Runs on the sender's thread, once per event."""

from __future__ import annotations

import json
from typing import Optional

from . import _event
from ._capture import ERROR_READ, MAX_BODY, MAX_ERROR
from ._config import Config, log
from ._decode import DecodeError, decode, decode_some
from ._endings import ending_of
from ._event import UNREAD, Event
from ._original import sleep
from ._queue import Item, Queue
from ._redact import masked, masked_attr, masked_error, truncate
from ._shape.shaper import Shaper

# Memory for shaping a body of n bytes.
_SHAPE_MOST = 8  # times n: the maximum length of a shape, because "" becomes ~0: and a hash
_SHAPE_USUAL = 2  # times n: used when memory is short
_SHAPE_SCRATCH = 4  # times n: for decoded and joined texts
_SHAPE_MIN = 4 << 10  # minimum, for short bodies

_YIELD_TIME = 50e-6  # seconds
_BACKLOG = 256  # pending events above which the sender does not pause


class _WithheldError(Exception):
    pass


class Preparer:
    """Prepares events according to Config."""

    def __init__(self, queue: Queue, config: Config) -> None:
        self._queue = queue
        self._redact = config.redact
        self._shaper: Optional[Shaper] = Shaper(config.shape_key, self.yield_gil) if config.capture == _event.SHAPE else None

    def yield_gil(self) -> None:
        """Releases the interpreter lock, because a thread that only computes makes other threads wait for 5 ms."""
        if self._queue.pending < _BACKLOG:
            sleep(_YIELD_TIME)

    def prepare(self, it: Item) -> None:
        """Replaces the body of the event and accounts for its memory."""
        ev = it.ev
        labels = ev.labels
        if not labels.masked:  # once for all events of a context
            labels.attrs, labels.masked = {k: masked_attr(v) for k, v in labels.attrs.items()}, True
        incomplete = bool(ev.error)
        ev.error = masked_error(ev.error)
        if ev.error == UNREAD and _complete(ev):
            ev.error = ""
        if not ev.body:
            if ev.content_encoding in ("br", "deflate"):
                ev.content_encoding = ""
            return
        if self._redact is None and self._shaper is None and not _is_error(ev) and ev.content_encoding not in ("br", "deflate"):
            return
        try:
            body = self._publishable(it, incomplete)
            if not self._queue.resize(it, len(body)):
                raise _WithheldError("no memory for the redacted body")
        except Exception as e:  # its text may contain message content
            log.warning("llmtap: withholding a body: %s", e if isinstance(e, (DecodeError, _WithheldError)) else type(e).__name__)
            ev.body, ev.capture = None, _event.NONE
            if ev.content_encoding in ("br", "deflate"):
                ev.content_encoding = ""
            return
        ev.body, ev.content_encoding = body, ""

    def _publishable(self, it: Item, incomplete: bool) -> bytes:
        ev = it.ev
        try:
            body = _decoded(ev, incomplete)
        except DecodeError:
            if self._shaper is None:
                raise
            return self._shaper.opaque(bytes(ev.body or b""))
        if self._redact is not None:
            body = self._redact(body)
            if not isinstance(body, (bytes, bytearray)):
                raise _WithheldError("redact did not return bytes")
            body = bytes(body)
        if _truncated_error(ev):
            return masked(truncate(body, MAX_ERROR))[:MAX_ERROR]
        if self._shaper is None:
            return masked(body) if _is_error(ev) else body
        return self._shape(self._shaper, it, body)

    def _shape(self, shaper: Shaper, it: Item, body: bytes) -> bytes:
        """The shape of a body. Reserves the memory first; if there is not enough, returns only the length and hash of the body."""
        if it.ev.capture == _event.CUT or it.pair is None:
            return shaper.opaque(body)
        n = len(body)
        limit = n * _SHAPE_MOST + _SHAPE_MIN
        if not self._queue.reserve_free(limit + n * _SHAPE_SCRATCH):
            limit = n * _SHAPE_USUAL + _SHAPE_MIN
            if not self._queue.reserve(limit + n * _SHAPE_SCRATCH):
                return shaper.opaque(body)
        try:
            shape = shaper.request if it.ev.kind == _event.REQUEST else shaper.response
            return shape(it.pair.dialect, body, limit)
        finally:
            self._queue.reserve(-(limit + n * _SHAPE_SCRATCH))


def _is_error(ev: Event) -> bool:
    """Whether ev is an error response, whose text is masked in every mode."""
    return ev.kind == _event.RESPONSE and ev.status >= 400


def _truncated_error(ev: Event) -> bool:
    """Whether only the first bytes of an error response are published. A compressed part could not be decompressed."""
    return _is_error(ev) and ev.capture not in (_event.FULL, _event.CUT)


def _decoded(ev: Event, incomplete: bool) -> bytes:
    """The decoded body of ev. If the body is incomplete, the part that arrived."""
    body = bytes(ev.body or b"")
    if not ev.content_encoding:
        return body
    if _truncated_error(ev):
        text, error = decode_some(ev.content_encoding, body, ERROR_READ)
        return truncate(text, len(text) - 1) if error and text else text
    if incomplete and ev.content_encoding != "zstd":
        # A complete response may still lack its checksum.
        text, _ = decode_some(ev.content_encoding, body, MAX_BODY + 1)
    else:
        text = decode(ev.content_encoding, body, MAX_BODY + 1)
    if len(text) > MAX_BODY:
        raise DecodeError(f"decode {ev.content_encoding} body: longer than {MAX_BODY} bytes")
    return text


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _complete(ev: Event) -> bool:
    """Whether the agent has read all of a response although it closed the body before its end. A client that decodes JSON stops
    at the last brace; a client that decompresses a stream itself stops at the terminal event."""
    body = bytes(ev.body or b"")
    if ev.content_encoding:
        body, _ = decode_some(ev.content_encoding, body, MAX_BODY)
    ending = ending_of(ev.content_type)
    if ending is not None:
        return ending.feed(body) >= 0 or ending.near()
    try:
        json.loads(body.decode("utf-8", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True
