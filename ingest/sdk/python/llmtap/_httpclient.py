"""Records calls over Python's own http.client, which urllib, urllib3 and botocore use, at the bytes of its connections."""

from __future__ import annotations

import errno
import functools
import http.client
import sys
import threading
import time
from typing import Any, Callable, Iterator, Optional

from ._exchange import DRAIN_BYTES, DRAIN_TIMEOUT, Exchange, headers_of
from ._patch import Patches, hook_of

_MAX_HEAD = 64 << 10  # bytes of the headers of a request
_MAX_LINE = 256  # bytes of the line before a chunk

# Errors of a server that responds before it has read the request. Clients ignore them and read the response.
_EARLY_RESPONSE = (errno.EPIPE, errno.ESHUTDOWN, errno.ECONNRESET)

# Modules that hold locks while they run.
_LOCKING = frozenset(f"{__package__}.{name}" for name in ("_exchange", "_capture", "_queue", "_hook", "_hosts", "_sender"))


class _Captured(threading.local):
    """Marks the threads whose calls over http.client another client captures."""

    depth = 0  # of the calls of such clients


_captured = _Captured()


def patch(patches: Patches) -> None:
    """Patches http.client."""
    connection = http.client.HTTPConnection
    patches.replace(connection, "putrequest", _putrequest)
    patches.replace(connection, "send", _send)
    patches.replace(connection, "getresponse", _getresponse)
    patches.replace(connection, "close", _close)


def captured(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns call, whose calls over http.client are not recorded here."""

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _captured.depth += 1
        try:
            return call(*args, **kwargs)
        finally:
            _captured.depth -= 1

    return wrapped


def _putrequest(original: Callable[..., Any]) -> Callable[..., Any]:
    def putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        result = original(self, method, url, *args, **kwargs)
        _end(self, None)
        if method == "POST" and not _captured.depth and hook_of() is not None:
            self._llmtap_call = _Request()
        return result

    return putrequest


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(self: Any, data: Any) -> Any:
        call: Optional[_Request] = self.__dict__.get("_llmtap_call")
        if call is None or call.sending:  # in send, the connection may be opened through a proxy
            return original(self, data)
        call.sending = True
        try:
            return original(self, call.sent(self, data))
        except BaseException as e:
            call.error = e
            if getattr(e, "errno", None) not in _EARLY_RESPONSE:
                _end(self, e)
            raise
        finally:
            call.sending = False

    return send


def _getresponse(original: Callable[..., Any]) -> Callable[..., Any]:
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        call: Optional[_Request] = self.__dict__.pop("_llmtap_call", None)
        if call is None or call.x is None:
            return original(self, *args, **kwargs)
        call.x.request_end()
        try:
            response = original(self, *args, **kwargs)
        except TypeError:  # urllib3 1.26 tries a parameter of Python 2 first
            self._llmtap_call = call
            raise
        except BaseException as e:
            call.x.failed(e)
            raise
        _responded(call.x, response)
        return response

    return getresponse


def _close(original: Callable[..., Any]) -> Callable[..., Any]:
    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        call: Optional[_Request] = self.__dict__.get("_llmtap_call")
        if call is not None and not call.sending:
            _end(self, None)
        return original(self, *args, **kwargs)

    return close


def _end(connection: Any, error: Optional[BaseException]) -> None:
    """Ends the exchange of a request without a response."""
    call: Optional[_Request] = connection.__dict__.pop("_llmtap_call", None)
    if call is not None and call.x is not None:
        call.x.failed(error or call.error or ConnectionError("the connection was closed before the response"))


class _Request:
    """A request that is being sent."""

    def __init__(self) -> None:
        self.x: Optional[Exchange] = None
        self.error: Optional[BaseException] = None
        self.sending = False
        self._head: Optional[bytearray] = bytearray()  # None after the headers
        self._chunks: Optional[_Chunks] = None
        self._left = -1  # bytes of the body that have not been sent, if known

    def sent(self, connection: Any, data: Any) -> Any:
        """Records data, and returns what to send: data itself, or a copy that records while it is read."""
        try:
            if hasattr(data, "read"):
                return data if self.x is None else _File(data, self)
            p = _bytes(data)
            if p is not None:
                self._write(connection, p)
            elif self.x is not None and not isinstance(data, str) and hasattr(data, "__iter__"):
                return self._pieces(data)
        except Exception:
            _count_error()
        return data

    def _pieces(self, data: Any) -> Iterator[Any]:
        for p in data:
            self.read(p)
            yield p

    def _write(self, connection: Any, p: bytes) -> None:
        if self._head is None:
            self.read(p)
            return
        self._head += p
        head, found, body = bytes(self._head).partition(b"\r\n\r\n")
        if found:
            self._head = None
            self._begin(connection, head, body)
        elif len(self._head) > _MAX_HEAD:
            connection.__dict__.pop("_llmtap_call", None)

    def _begin(self, connection: Any, head: bytes, body: bytes) -> None:
        """Starts the exchange, if the host is one to record."""
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [(name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]
        headers = headers_of(pairs)
        hook = hook_of()
        target = hook.hosts.target(_url(connection, first.split(" ")[1]), headers) if hook is not None else None
        x = hook.begin(target, "POST", headers) if hook is not None and target is not None else None
        if x is None:
            connection.__dict__.pop("_llmtap_call", None)
            return
        self.x = x
        if any(name.lower() == "transfer-encoding" and "chunked" in value.lower() for name, value in pairs):
            self._chunks = _Chunks()
        else:
            length = headers.get("content-length", ["0"])[0]
            self._left = int(length) if length.isdigit() else -1
        if self._chunks is None and self._left == len(body):
            x.request(body or None)
            return
        x.body_pending()
        if body:
            self.read(body)

    def read(self, p: Any) -> None:
        """Records the next bytes of the body."""
        x = self.x
        if x is None:
            return
        try:
            p = _bytes(p)
            if p is None:
                return  # http.client refuses it
            if self._chunks is not None:
                x.request_read(self._chunks.feed(p))
                ended = self._chunks.done
            else:
                x.request_read(p)
                self._left -= len(p)
                ended = self._left == 0
            if ended:
                x.request_end()
        except Exception:
            _count_error()


class _File:
    """Records a file while http.client reads it."""

    def __init__(self, file: Any, request: _Request) -> None:
        self._file, self._request = file, request

    def read(self, *args: Any) -> Any:
        p = self._file.read(*args)
        if isinstance(p, str):
            p = p.encode("iso-8859-1")  # as http.client does for a text file, which this object is not
        self._request.read(p)
        return p

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Chunks:
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


def _bytes(data: Any) -> Optional[bytes]:
    """The bytes of a buffer of any type, such as an array; None if data is no buffer."""
    if isinstance(data, bytes):
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        return None


def _url(connection: Any, url: str) -> str:
    """The URL of a request to url, a path or the URL for a proxy."""
    if url[:1] != "/":
        return url
    tunnel = getattr(connection, "_tunnel_host", None)
    host, port = (tunnel, connection._tunnel_port) if tunnel else (connection.host, connection.port)
    secure = tunnel or isinstance(connection, http.client.HTTPSConnection)
    name = f"[{host}]" if ":" in host else host
    default = 443 if secure else 80
    return f"http{'s' if secure else ''}://{name}{'' if port in (None, default) else f':{port}'}{url}"


def _responded(x: Exchange, response: Any) -> None:
    try:
        x.responded(response.status, headers_of(response.headers.items()))
        if x.ended:
            return
        if response.fp is None:
            x.eof()
            return
        response.fp = _Tee(response.fp, x, _Chunks() if response.chunked else None, response.length)
        base: Any = type(response)
        response.__class__ = _watched(base)
    except Exception:
        x.hook.count_error()
        x.closed()


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

    def __init__(self, fp: Any, x: Exchange, chunks: Optional[_Chunks], length: Optional[int]) -> None:
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
            self._x = _ENDED

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
        except Exception:
            x.hook.count_error()
            x.closed()

    def _drain(self) -> bool:
        """Begins to read an unread error response in the background, and then closes it: urllib raises errors without reading their
        texts, which explain the failure. Returns False if it does not."""
        x = self._x
        if not x.has_unread_error() or not x.hook.drains.acquire(blocking=False):
            return False
        self._drained = True
        try:
            threading.Thread(target=self._read_rest, name="llmtap-drain", daemon=True).start()
        except RuntimeError:  # the process is exiting
            self._drained = False
            x.hook.drains.release()
        return self._drained

    def _read_rest(self) -> None:
        x, limit = self._x, time.monotonic() + DRAIN_TIMEOUT
        try:
            while not x.ended and x.got < DRAIN_BYTES and time.monotonic() < limit:
                self._fp.raw._sock.settimeout(DRAIN_TIMEOUT)
                data = self._fp.read1(DRAIN_BYTES)
                self._got(data, not data)
        except Exception:
            pass  # the server did not send the rest
        finally:
            x.hook.drains.release()
            x.closed()
            self._fp.close()


class _Ended:
    """Replaces an abandoned exchange."""

    ended = True


_ENDED: Any = _Ended()


def _interrupts_hook() -> bool:
    """Whether the garbage collector interrupted code of the hook in this thread, which may hold locks."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") in _LOCKING:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _count_error() -> None:
    hook = hook_of()
    if hook is not None:
        hook.count_error()
