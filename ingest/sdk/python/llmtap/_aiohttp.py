"""Records aiohttp. A call begins when it requests a connection. The decoded response is recorded while it is read."""

from __future__ import annotations

import asyncio
import functools
import importlib
from typing import Any, AsyncIterator, Awaitable, Callable, Optional

from ._exchange import DRAIN_BYTES, DRAIN_TIMEOUT, ENDED, Exchange, cancelled, headers_of, in_asyncio, in_background
from ._original import clock
from ._patch import Patches, hook_of
from ._uncaptured import count_websocket


def patch(patches: Patches) -> None:
    """Patches aiohttp if it is installed."""
    try:
        aiohttp = importlib.import_module("aiohttp")
    except ImportError:
        return
    patches.replace(aiohttp.BaseConnector, "connect", _connect)
    patches.replace(aiohttp.ClientRequest, "send", _send)
    patches.replace(aiohttp.ClientResponse, "start", _start)


def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    async def connect(self: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        x = _begin(req)
        if x is None:
            return await original(self, req, *args, **kwargs)
        try:
            return await original(self, req, *args, **kwargs)
        except BaseException as e:
            x.failed(e)
            raise

    return connect


def _begin(req: Any) -> Optional[Exchange]:
    hook = hook_of()
    if hook is None:
        return None
    if req.method != "POST":
        if req.method == "GET" and req.headers.get("Upgrade") == "websocket":
            count_websocket(f"ws{'s' * (req.url.scheme in ('https', 'wss'))}://{req.url.authority}")
        return None
    try:
        target = hook.hosts.target(str(req.url), req.headers)
        if target is None:
            return None
        x = hook.begin(target, req.method, headers_of(req.headers.items()))
        req._llmtap_x = x
        if x is None:
            return None
    except Exception:
        hook.count_error()
        return None
    try:
        body = req.body
        value = getattr(body, "_value", body)
        if isinstance(value, (bytes, bytearray, memoryview)):
            x.request(bytes(value))
        elif getattr(body, "size", None) == 0:
            x.request(None)
        else:
            x.body_pending()  # published as degraded, without its body
    except Exception:
        x.broken()
    return x


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    async def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        x: Optional[Exchange] = self.__dict__.get("_llmtap_x")
        if x is None:
            return await original(self, *args, **kwargs)
        try:
            response = await original(self, *args, **kwargs)
        except BaseException as e:
            x.failed(e)
            raise
        response._llmtap_x = x
        return response

    return send


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    async def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        x: Optional[Exchange] = self.__dict__.get("_llmtap_x")
        if x is None:
            return await original(self, *args, **kwargs)
        decoded = getattr(getattr(self, "_session", None), "_auto_decompress", True)
        try:
            result = await original(self, *args, **kwargs)
        except BaseException as e:
            x.failed(e)
            raise
        _responded(x, self, decoded)
        return result

    return start


def _responded(x: Exchange, response: Any, decoded: bool) -> None:
    try:
        x.responded(response.status, headers_of(response.headers.items()), decoded)
        if x.ended:
            return
        if response.content.at_eof():
            x.eof()
            return
        response.content = _Content(response.content, x)
        base: Any = type(response)
        response.__class__ = _tee(base)
    except Exception:
        x.broken()


@functools.cache
def _tee(base: Any) -> Any:
    """Returns a subclass of a response that records its end."""

    class Response(base):  # type: ignore[misc]
        _llmtap_x: Any

        def close(self) -> None:
            self._llmtap_end()
            super().close()

        def release(self) -> Any:
            taken = _take(self._llmtap_x, self)
            if taken is None:
                self._llmtap_end()
                return super().release()
            self._llmtap_x = ENDED
            try:
                return super().release()
            finally:
                in_background(taken.drain(self))

        def _llmtap_end(self) -> None:
            x: Exchange = self._llmtap_x
            if not x.ended and isinstance(self.content, _Content):
                self.content.llmtap_closed()

        def __del__(self, *args: Any) -> None:
            x: Exchange = self._llmtap_x
            if not x.ended:
                # Not end(): the garbage collector may have interrupted a thread that holds the lock.
                x.hook.abandoned.append(x)
            super().__del__(*args)

    Response.__name__, Response.__qualname__ = base.__name__, base.__qualname__
    return Response


class _Taken:
    """The connection of an error response that has not arrived completely. It is taken from the pool, which closes this object
    instead of the transport, and the agent gets another reader, which is empty."""

    def __init__(self, x: Exchange, content: _Content, empty: Any, protocol: Any) -> None:
        self._x, self._protocol, self._transport = x, protocol, protocol.transport
        self._reader, content._reader = content._reader, empty
        protocol.transport = self

    def close(self) -> None:
        pass

    abort = close

    def is_closing(self) -> bool:
        return True

    def _released(self, response: Any) -> bool:
        """Whether the pool has closed this object. A response releases its connection later if the request is still being sent."""
        if response._connection is not None:
            return False
        self._protocol.transport = self._transport
        return True

    async def drain(self, response: Any) -> None:
        """Reads the rest."""
        x, limit = self._x, clock.monotonic() + DRAIN_TIMEOUT
        try:
            while not x.ended and x.got < DRAIN_BYTES:
                self._released(response)
                x.read(await asyncio.wait_for(self._reader.readany(), limit - clock.monotonic()))
                if self._reader.at_eof():
                    x.eof()
        except (Exception, asyncio.CancelledError):
            pass  # the server did not send the rest, or the agent's event loop ends
        x.drained()
        if self._released(response):
            self._transport.close()
        else:
            self._protocol.transport = self._transport  # which the pool will close


def _take(x: Exchange, response: Any) -> Optional[_Taken]:
    """Takes the connection of an unread error response; None if it is none, or has arrived, or is of an unknown version of aiohttp."""
    try:
        content, connection = response.content, response._connection
        if x.ended or connection is None or not isinstance(content, _Content) or not x.has_unread_error() or not in_asyncio() or cancelled():
            return None
        protocol, reader = connection.protocol, content._reader
        empty = type(reader)(protocol, 1 << 16, loop=asyncio.get_running_loop())
        if reader.exception() is not None or protocol.transport is None or not x.hook.begin_drain():
            return None
        return _Taken(x, content, empty, protocol)
    except (AttributeError, TypeError):
        return None


class _Content:
    """Records the stream of a response while it is read."""

    def __init__(self, reader: Any, x: Exchange) -> None:
        self._reader, self._x = reader, x

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def llmtap_closed(self) -> None:
        """Ends the exchange when the agent closes the response. Records what has arrived of an error, whose text explains the failure."""
        x, reader = self._x, self._reader
        try:
            if x.has_unread_error() and reader.exception() is None:
                x.read(b"".join(reader._buffer)[reader._buffer_offset :])
                if reader.is_eof():
                    x.eof()
        except AttributeError:
            pass  # of an unknown version of aiohttp
        x.closed(cancelled())

    async def _record(self, reading: Awaitable[Any]) -> Any:
        x = self._x
        try:
            data = await reading
        except BaseException as e:
            partial = getattr(e, "partial", None)
            if isinstance(partial, bytes):
                x.read(partial)
            x.failed(e)
            raise
        x.read(data[0] if isinstance(data, tuple) else data)
        if not x.ended and self._reader.at_eof():
            x.eof()
        return data

    async def read(self, n: int = -1) -> bytes:
        data: bytes = await self._record(self._reader.read(n))
        return data

    async def readany(self) -> bytes:
        data: bytes = await self._record(self._reader.readany())
        return data

    async def readexactly(self, n: int) -> bytes:
        data: bytes = await self._record(self._reader.readexactly(n))
        return data

    async def readline(self, *args: Any, **kwargs: Any) -> bytes:
        data: bytes = await self._record(self._reader.readline(*args, **kwargs))
        return data

    async def readuntil(self, *args: Any, **kwargs: Any) -> bytes:
        data: bytes = await self._record(self._reader.readuntil(*args, **kwargs))
        return data

    async def readchunk(self) -> tuple[bytes, bool]:
        data: tuple[bytes, bool] = await self._record(self._reader.readchunk())
        return data

    def read_nowait(self, n: int = -1) -> bytes:
        data: bytes = self._reader.read_nowait(n)
        self._x.read(data)
        if self._reader.at_eof():
            self._x.eof()
        return data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for p in self._pieces(self.readline):
            yield p

    async def iter_any(self) -> AsyncIterator[bytes]:
        async for p in self._pieces(self.readany):
            yield p

    async def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        async for p in self._pieces(lambda: self.read(n)):
            yield p

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        while True:
            piece = await self.readchunk()
            if piece == (b"", False):
                return
            yield piece

    async def _pieces(self, read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
        while True:
            p = await read()
            if not p:
                return
            yield p
