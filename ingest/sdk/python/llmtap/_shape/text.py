"""Texts of JSON strings, and their hashes."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Callable

from .._redact import truncate

BAD, MULTI = b":bad", b":multi"  # suffixes for texts that should be one JSON value but are not

_MAX_KNOWN = 40  # bytes of texts with cached hashes: keys and words of schemas recur
_MAX_KNOWN_TEXTS = 1 << 12
_YIELD_EVERY = 48  # hashes between calls of yield_gil

_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))', re.DOTALL)
_ANY_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_PLAIN = {b'"': b'"', b"\\": b"\\", b"/": b"/", b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_LONE = "\ufffd".encode()


def _nothing() -> None:
    pass


class Hasher:
    """Keyed hashes of texts."""

    def __init__(self, key: bytes, yield_gil: Callable[[], None] = _nothing) -> None:
        self._mac = hmac.new(key, b"", hashlib.sha256)
        self._known: dict[bytes, bytes] = {}
        self._yield_gil = yield_gil  # called regularly, to let other threads run
        self._work = 0

    def digest(self, text: bytes) -> bytes:
        """16 hex digits of the HMAC of a text."""
        known = self._known.get(text)
        if known is not None:
            return known
        self._work += 1
        if self._work >= _YIELD_EVERY:
            self._work = 0
            self._yield_gil()
        m = self._mac.copy()
        m.update(text)
        h = m.hexdigest()[:16].encode()
        if len(text) <= _MAX_KNOWN:
            if len(self._known) >= _MAX_KNOWN_TEXTS:
                self._known.clear()
            self._known[text] = h
        return h

    def shape(self, text: bytes) -> bytes:
        """~<bytes>:<hash>."""
        return b"~%d:%s" % (len(text), self.digest(text))


def string_end(b: bytes, start: int) -> int:
    """The index of the closing quote of the string whose text begins at start, or -1."""
    i = b.find(b'"', start)
    while i > start and b[i - 1] == 0x5C:
        j = i - 1
        while j > start and b[j - 1] == 0x5C:
            j -= 1
        if (i - j) & 1 == 0:
            break
        i = b.find(b'"', i + 1)
    return i


def decode(raw: bytes) -> bytes:
    """Decodes the content of a string. A lone surrogate becomes U+FFFD; invalid escapes are copied unchanged."""
    if b"\\" not in raw:
        return raw
    try:
        text: str = json.loads(f'"{raw.decode()}"', strict=False)
        return text.encode()
    except ValueError:  # invalid JSON that a lenient parser accepts
        return _ESCAPE.sub(_unescape, raw)


def _unescape(m: re.Match[bytes]) -> bytes:
    letter, high, low, code = m.groups()
    if letter:
        return _PLAIN[letter]
    if high:
        r = 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
        return chr(r).encode()
    r = int(code, 16)
    return _LONE if 0xD800 <= r <= 0xDFFF else chr(r).encode()


def strict_string(b: bytes, i: int) -> tuple[bytes, int]:
    """The text and the end of the string that starts after a quote. The end is -1 if the string is invalid."""
    end = string_end(b, i)
    if end < 0:
        return b"", -1
    raw = b[i:end]
    if _CONTROL.search(raw):
        return b"", -1
    if b"\\" not in raw:
        return raw, end + 1
    try:
        text: str = json.loads(f'"{raw.decode()}"')
        return text.encode(), end + 1
    except ValueError:
        if any(m.end() - m.start() == 1 for m in _ANY_ESCAPE.finditer(raw)):
            return b"", -1
        return _ESCAPE.sub(_unescape, raw), end + 1


_MAX_TEXT = 4 << 10  # maximum length of the retained text of an error


def clip(raw: bytes) -> bytes:
    """The first bytes of the content of a string, not ending inside a character or a word."""
    if len(raw) <= _MAX_TEXT:
        return raw
    i = 0
    while True:
        n = _width(raw, i)
        if i + n > _MAX_TEXT:
            return truncate(raw, i)
        i += n


def _width(raw: bytes, i: int) -> int:
    c = raw[i]
    if c == 0x5C:
        m = _ESCAPE.match(raw, i)
        return m.end() - i if m else 1
    if c < 0x80:
        return 1
    for n in (2, 3, 4):
        try:
            raw[i : i + n].decode()
            return n
        except UnicodeDecodeError:
            continue
    return 1
