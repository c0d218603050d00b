"""Records the bytes of the responses of http.client."""

from __future__ import annotations

import functools
import http.client
import sys
import threading
from typing import Any, Callable, Optional

from ._exchange import DRAIN_BYTES, DRAIN_TIMEOUT, ENDED, Exchange, headers_of
from ._original import clock

_MAX_LINE = 256  # bytes of the line before a chunk

# Modules that hold locks while they run.
_LOCKING = frozenset(f"{__package__}.{name}" for name in ("_exchange", "_capture", "_queue", "_hook", "_hosts", "_sender"))


def responded(x: Exchange, response: Any) -> None:
    """Begins the response of x and records its bytes while they are read."""
    try:
        x.responded(response.status, headers_of(response.headers.items()))
        if x.ended:
            return
        if response.fp is None:
            x.eof()
            return
        response.fp = _Tee(response.fp, x, Chunks() if response.chunked else None, response.length)
        base: Any = type(response)
        response.__class__ = _watched(base)
    except Exception:
        x.broken()


@functools.cache
def _watched(base: Any) -> Any:
    """Returns a subclass of a response of http.client that notices if the agent abandons it."""

    class Response(base):  # type: ignore[misc]
        def __del__(self) -> None:
            fp = self.__dict__.get("fp")
            if isinstance(fp, _Tee):
                fp.abandon()
            super().__del__()

    Response.__name__, Response.__qualname__ = base.__name__, base.__qualname__
    return Response


class _Tee:
    """Records the bytes of a response while http.client or urllib3 reads them, with the framing of chunks."""

    def __init__(self, fp: Any, x: Exchange, chunks: Optional[Chunks], length: Optional[int]) -> None:
        self._fp, self._x, self._chunks, self._length = fp, x, chunks, length
        self._drained = False  # the rest is read in the background

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fp, name)

    def read(self, n: Optional[int] = -1) -> Any:
        data = self._call(self._fp.read, n)
        self._got(data, n is None or n < 0 or len(data) < n)
        return data

    def read1(self, n: int = -1) -> Any:
        data = self._call(self._fp.read1, n)
        self._got(data, not data and n != 0)
        return data

    def readline(self, limit: int = -1) -> Any:
        data = self._call(self._fp.readline, limit)
        self._got(data, not data and limit != 0)
        return data

    def readinto(self, b: Any) -> Any:
        n = self._call(self._fp.readinto, b)
        view = memoryview(b).cast("B")
        self._got(bytes(view[:n]), n < len(view))
        return n

    def close(self) -> None:
        x = self._x
        if self._drained:
            return
        if not x.ended:
            if _interrupts_hook():
                x.hook.abandoned.append(x)
            elif self._drain():
                return
            else:
                x.closed()
        self._fp.close()

    def abandon(self) -> None:
        """Ends the exchange, whose response is being collected as garbage."""
        x = self._x
        if not x.ended and not self._drained and (_interrupts_hook() or not self._drain()):
            x.hook.abandoned.append(x)
            self._x = ENDED

    def _call(self, read: Callable[..., Any], *args: Any) -> Any:
        try:
            return read(*args)
        except BaseException as e:
            if not self._x.ended:
                self._x.failed(e)
            raise

    def _got(self, data: bytes, eof: bool) -> None:
        """Records data. eof means that the server has closed the connection."""
        x = self._x
        if x.ended:
            return
        try:
            if self._chunks is None:
                x.read(data)
                missing = self._length is not None and x.got < self._length
            else:
                x.read(self._chunks.feed(data))
                missing = not self._chunks.done
                eof = eof or not missing
            if eof and missing:
                x.failed(http.client.IncompleteRead(b""))
            elif eof:
                x.eof()
        except ValueError as e:  # an invalid chunk
            x.failed(e)
        except Exception:
            x.broken()

    def _drain(self) -> bool:
        """Begins to read an unread error response in the background, and then closes it: urllib raises errors without reading their
        texts, which explain the failure. Returns False if it does not."""
        x = self._x
        if not x.has_unread_error() or not x.hook.begin_drain():
            return False
        self._drained = True
        try:
            threading.Thread(target=self._read_rest, name="llmtap-drain", daemon=True).start()
        except RuntimeError:  # the process is exiting
            self._drained = False
            x.hook.end_drain()
        return self._drained

    def _read_rest(self) -> None:
        x, limit = self._x, clock.monotonic() + DRAIN_TIMEOUT
        try:
            sock = self._fp.raw._sock
            # Clients close the connection after the response. If the agent keeps it, the next response is not ours.
            while not sock._closed and clock.monotonic() < limit:
                threading.Event().wait(0.002)  # not sleep, which would stop all greenlets
            while not x.ended and x.got < DRAIN_BYTES and (left := limit - clock.monotonic()) > 0:
                sock.settimeout(left)
                data = self._fp.read1(DRAIN_BYTES)
                self._got(data, not data)
        except Exception:
            pass  # the server did not send the rest
        finally:
            x.hook.end_drain()
            x.closed()
            self._fp.close()


def _interrupts_hook() -> bool:
    """Whether the garbage collector interrupted code of the hook in this thread, which may hold locks."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") in _LOCKING:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class Chunks:
    """Decodes a body in chunks."""

    def __init__(self) -> None:
        self.done = False
        self._line = b""
        self._left = 0  # bytes of the current chunk

    def feed(self, p: bytes) -> bytes:
        """The data in p. Raises ValueError."""
        data, at = [], 0
        while at < len(p) and not self.done:
            if self._left > 0:
                data.append(p[at : at + self._left])
                at += len(data[-1])
                self._left -= len(data[-1])
                continue
            end = p.find(b"\n", at)
            if end < 0:
                self._line += p[at:]
                if len(self._line) > _MAX_LINE:
                    raise ValueError("not a chunk")
                break
            line, self._line, at = (self._line + p[at:end]).strip(), b"", end + 1
            if line:  # otherwise the end of a chunk
                self._left = int(line.partition(b";")[0], 16)
                self.done = self._left == 0
        return b"".join(data)
