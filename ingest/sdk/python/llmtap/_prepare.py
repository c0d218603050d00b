"""Makes an event what may leave the process: decoded, redacted, shaped. It runs on the sender's thread, once for each event."""

from __future__ import annotations

import json
import time
from typing import Optional

from . import _event
from ._capture import ERROR_READ, MAX_BODY, MAX_ERROR
from ._config import Config, log
from ._decode import DecodeError, decode, decode_some
from ._endings import ending_of
from ._event import Event
from ._exchange import UNREAD
from ._queue import Item, Queue
from ._redact import cut, masked
from ._shape.shaper import Shaper

# Memory that shaping a body of n bytes takes.
_SHAPE_MOST = 8  # times n, the most that a shape is long: "" becomes ~0: and a hash
_SHAPE_USUAL = 2  # times n, when memory is short
_SHAPE_SCRATCH = 4  # times n, for texts that are decoded or joined
_SHAPE_MIN = 4 << 10  # for a short body

_REST = 50e-6  # seconds
_BACKLOG = 256  # events; above it there is no time to rest


class _WithheldError(Exception):
    pass


class Preparer:
    """What it does is what Config asks for."""

    def __init__(self, queue: Queue, config: Config) -> None:
        self._queue = queue
        self._redact = config.redact
        self._shaper: Optional[Shaper] = Shaper(config.shape_key, self.rest) if config.capture == _event.SHAPE else None

    def rest(self) -> None:
        """Lets the agent's threads run: a thread that only computes would keep each of them waiting for 5 ms."""
        if self._queue.backlog < _BACKLOG:
            time.sleep(_REST)

    def prepare(self, it: Item) -> None:
        """Changes the event of it, and accounts for its new body."""
        ev = it.ev
        broken_off = bool(ev.error)
        if ev.error == UNREAD and _whole(ev):
            ev.error = ""
        if not ev.body:
            if ev.content_encoding in ("br", "deflate"):
                ev.content_encoding = ""
            return
        if self._redact is None and self._shaper is None and not _is_error(ev) and ev.content_encoding not in ("br", "deflate"):
            return
        try:
            body = self._publishable(it, broken_off)
            if not self._queue.resize(it, len(body)):
                raise _WithheldError("no memory for the redacted body")
        except Exception as e:  # the redactor's too; its text may hold content
            log.warning("llmtap: a body is withheld: %s", e if isinstance(e, (DecodeError, _WithheldError)) else type(e).__name__)
            ev.body, ev.capture = None, _event.NONE
            if ev.content_encoding in ("br", "deflate"):
                ev.content_encoding = ""
            return
        ev.body, ev.content_encoding = body, ""

    def _publishable(self, it: Item, broken_off: bool) -> bytes:
        ev = it.ev
        try:
            body = _decoded(ev, broken_off)
        except DecodeError:
            if self._shaper is None:
                raise
            return self._shaper.opaque(bytes(ev.body or b""))
        if self._redact is not None:
            body = self._redact(body)
            if not isinstance(body, (bytes, bytearray)):
                raise _WithheldError("redact returns no bytes")
            body = bytes(body)
        if _start_of_error(ev):
            return masked(cut(body, MAX_ERROR))[:MAX_ERROR]
        if self._shaper is None:
            return masked(body) if _is_error(ev) else body
        return self._shape(self._shaper, it, body)

    def _shape(self, shaper: Shaper, it: Item, body: bytes) -> bytes:
        """The shape of a body. The memory for it is reserved first; where there is not enough, length and hash are all that stays."""
        if it.ev.capture == _event.CUT or it.ticket is None:
            return shaper.opaque(body)
        n = len(body)
        limit = n * _SHAPE_MOST + _SHAPE_MIN
        if not self._queue.spare(limit + n * _SHAPE_SCRATCH):
            limit = n * _SHAPE_USUAL + _SHAPE_MIN
            if not self._queue.reserve(limit + n * _SHAPE_SCRATCH):
                return shaper.opaque(body)
        try:
            shape = shaper.request if it.ev.kind == _event.REQUEST else shaper.response
            return shape(it.ticket.dialect, body, limit)
        finally:
            self._queue.reserve(-(limit + n * _SHAPE_SCRATCH))


def _is_error(ev: Event) -> bool:
    """ev is an error answer: its text is masked in every mode."""
    return ev.kind == _event.RESPONSE and ev.status >= 400


def _start_of_error(ev: Event) -> bool:
    """No more than the first bytes of an error answer are kept. Compressed, no reader could decompress them."""
    return _is_error(ev) and ev.capture not in (_event.FULL, _event.CUT)


def _decoded(ev: Event, broken_off: bool) -> bytes:
    """The body of ev without its encoding."""
    body = bytes(ev.body or b"")
    if not ev.content_encoding:
        return body
    if _start_of_error(ev):
        text, error = decode_some(ev.content_encoding, body, ERROR_READ)
        return cut(text, len(text) - 1) if error and text else text  # that is how far it goes
    if broken_off and ev.content_encoding != "zstd":
        # Broken off with the answer: what came is the evidence. An answer that lacks nothing may still lack its checksum.
        text, _ = decode_some(ev.content_encoding, body, MAX_BODY + 1)
    else:
        text = decode(ev.content_encoding, body, MAX_BODY + 1)
    if len(text) > MAX_BODY:
        raise DecodeError(f"decode a body: it is over {MAX_BODY} bytes")
    return text


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _whole(ev: Event) -> bool:
    """Whether the body of an answer that was closed before its end was read lacks nothing: a client that decodes JSON stops at the
    last brace, and one that decompresses a stream itself stops at its terminal event."""
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
