"""Decodes content encodings with a size limit."""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Iterator

from ._event import Body


class DecodeError(Exception):
    """A body is invalid in its encoding, or no decoder is available."""


def decode(encoding: str, body: Body, limit: int) -> bytes:
    """Decodes up to limit bytes of body. Raises DecodeError if it is invalid or truncated."""
    text, error = decode_some(encoding, body, limit)
    if error:
        raise DecodeError(f"decode {encoding} body: {error}")
    return text


def decode_some(encoding: str, body: Body, limit: int) -> tuple[bytes, str]:
    """Decodes up to limit bytes of body. Returns what was decoded before an error, and the error."""
    out = bytearray()
    error = ""
    try:
        for piece in _pieces(encoding, bytes(body), limit):
            out += piece
            if len(out) >= limit:
                return bytes(out[:limit]), ""
    except Exception as e:  # decoders raise different exceptions
        error = f"{type(e).__name__}: {e}"
    return bytes(out), error


def _pieces(encoding: str, body: bytes, limit: int) -> Iterator[bytes]:
    if encoding == "gzip":
        yield from _inflate(body, 31, limit)
    elif encoding == "deflate":
        # The standard requires a zlib header; some servers omit it.
        zlib_header = len(body) >= 2 and body[0] & 0xF == 8 and (body[0] << 8 | body[1]) % 31 == 0
        yield from _inflate(body, 15 if zlib_header else -15, limit)
    elif encoding == "br":
        yield from _feed(_brotli(), body)
    elif encoding == "zstd":
        yield from _zstd(body)
    else:
        raise DecodeError("unknown encoding")


def _inflate(body: bytes, wbits: int, limit: int) -> Iterator[bytes]:
    while True:
        d = zlib.decompressobj(wbits)
        rest = body
        while rest and not d.eof:
            yield d.decompress(rest, 1 << 20)
            rest = d.unconsumed_tail
        if not d.eof:
            yield d.flush(limit)
        if not d.eof:
            raise DecodeError("truncated")
        body = d.unused_data
        if not body or wbits != 31:
            return


_PIECE = 4 << 10  # encoded bytes to decode at a time, to limit the expansion


def _feed(decompressor: Any, body: bytes) -> Iterator[bytes]:
    process = getattr(decompressor, "process", None) or decompressor.decompress
    for at in range(0, len(body), _PIECE):
        yield process(body[at : at + _PIECE])
    finished = getattr(decompressor, "is_finished", None)
    if finished is not None and not finished():
        raise DecodeError("truncated")


def _brotli() -> Any:
    """A decompressor of the installed brotli package."""
    for name in ("brotli", "brotlicffi"):
        try:
            return importlib.import_module(name).Decompressor()
        except ImportError:
            continue
    raise DecodeError("no brotli package is installed")


def _zstd(body: bytes) -> Iterator[bytes]:
    try:
        reader = importlib.import_module("zstandard").ZstdDecompressor().stream_reader(body, read_across_frames=True)
    except ImportError:
        raise DecodeError("no zstandard package is installed") from None
    while True:
        piece = reader.read(1 << 20)
        if not piece:
            return
        yield piece
