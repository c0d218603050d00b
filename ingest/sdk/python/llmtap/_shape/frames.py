"""AWS event streams. A frame is a prelude with a checksum, headers, a payload and a checksum."""

from __future__ import annotations

import struct
import zlib

from .paths import Table
from .stream import Streamer

_PRELUDE = 12  # length of the frame, length of the headers, CRC-32 of both
_MIN_FRAME = _PRELUDE + 4
_STRING = 7  # type of a header value
_MAX_HEADER = 4 << 10  # maximum length of the value of a retained header

_KEPT = (b":event-type", b":message-type", b":exception-type", b":content-type", b":error-code", b":error-message")
_SIZES = {0: 1, 1: 1, 2: 2, 3: 3, 4: 5, 5: 9, 8: 9, 9: 17}  # of a value and its type, by type


def is_frame(b: bytes, at: int = 0) -> bool:
    """Whether the prelude of a frame begins at index at."""
    if len(b) - at < _PRELUDE:
        return False
    size, headers, check = struct.unpack_from(">III", b, at)
    return bool(zlib.crc32(b[at : at + 8]) == check and size >= _MIN_FRAME and headers <= size - _MIN_FRAME)


class Frames(Streamer):
    """Shapes frames."""

    def frames(self, t: Table) -> None:
        """Shapes the complete frames of a stream. reframed encodes the result as frames."""
        at, body = 0, self.body
        while is_frame(body, at) and len(self.out) <= self.limit:
            size, headers = struct.unpack_from(">II", body, at)
            if size > len(body) - at:
                break
            f = body[at : at + size]
            if zlib.crc32(f[:-4]) != int.from_bytes(f[-4:], "big"):
                break
            payload = _PRELUDE + headers
            self.out += _headers(f[_PRELUDE:payload])
            end_of_headers = len(self.out)
            text = f[payload:-4]
            if text and not self.events(t, text, at + payload):
                self.out += self.bad_event(text)
            self.framed.append((end_of_headers, len(self.out)))
            at += size
        if not self.framed:
            self.out = bytearray(self.bad_event(body))

    def reframed(self) -> bytes:
        dst: list[bytes] = []
        start = 0
        for end_of_headers, end in self.framed:
            headers = bytes(self.out[start:end_of_headers])
            inside = headers + self.patched(end_of_headers, end)
            start = end
            head = struct.pack(">II", len(inside) + _MIN_FRAME, len(headers))
            frame = head + struct.pack(">I", zlib.crc32(head)) + inside
            dst += [frame, struct.pack(">I", zlib.crc32(frame))]
        return b"".join(dst)


def _headers(h: bytes) -> bytes:
    """The headers to retain."""
    kept = b""
    while h:
        n = 1 + h[0]
        if n >= len(h):
            break
        size = _value_size(h, n)
        if size < 0:
            break
        if h[1:n] in _KEPT and h[n] == _STRING and size - 3 <= _MAX_HEADER:
            kept += h[: n + size]
        h = h[n + size :]
    return kept


def _value_size(h: bytes, at: int) -> int:
    """The length of a header value with its type, -1 if it is truncated or unknown."""
    size = _SIZES.get(h[at], -1)
    if h[at] in (6, _STRING) and len(h) - at >= 3:
        size = 3 + int.from_bytes(h[at + 1 : at + 3], "big")
    return size if size <= len(h) - at else -1
