"""Records calls over Python's own http.client, which urllib, urllib3 and botocore use, at the bytes of its connections."""

from __future__ import annotations

import contextvars
import errno
import functools
import http.client
from typing import Any, Callable, Iterator, Optional

from ._exchange import Exchange, headers_of
from ._httpresponse import Chunks, responded
from ._patch import Patches, hook_of

_MAX_HEAD = 64 << 10  # bytes of the headers of a request

# Errors of a server that responds before it has read the request. Clients ignore them and read the response.
_EARLY_RESPONSE = (errno.EPIPE, errno.ESHUTDOWN, errno.ECONNRESET)


# Whether another client captures the calls over http.client of this thread, or of this greenlet.
_captured: contextvars.ContextVar[bool] = contextvars.ContextVar("llmtap_captured", default=False)


def patch(patches: Patches) -> None:
    """Patches http.client."""
    connection = http.client.HTTPConnection
    patches.replace(connection, "putrequest", _putrequest)
    patches.replace(connection, "send", _send)
    patches.replace(connection, "getresponse", _getresponse)
    patches.replace(connection, "close", _close)


def is_captured() -> bool:
    """Whether another client captures the current call."""
    return _captured.get()


def captured(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns call, whose calls over http.client are not recorded here."""

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        token = _captured.set(True)
        try:
            return call(*args, **kwargs)
        finally:
            _captured.reset(token)

    return wrapped


def _putrequest(original: Callable[..., Any]) -> Callable[..., Any]:
    def putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        result = original(self, method, url, *args, **kwargs)
        _end(self, None)
        if method == "POST" and not _captured.get() and hook_of() is not None:
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
        responded(call.x, response)
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
        self._chunks: Optional[Chunks] = None
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
            self._failed()
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
            self._chunks = Chunks()
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
            self._failed()

    def _failed(self) -> None:
        hook = hook_of()
        if self.x is not None:
            self.x.broken()
        elif hook is not None:
            hook.count_error()


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
