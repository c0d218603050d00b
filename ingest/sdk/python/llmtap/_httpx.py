"""Records httpx and httpx2 at their HTTP transports, where bytes are encoded. Each request of a redirect, an authentication or a
retry is a separate call."""

from __future__ import annotations

import asyncio
import copy
import importlib
import threading
from typing import Any, AsyncIterator, Callable, Iterator, Optional

from ._exchange import DRAIN_BYTES, DRAIN_TIMEOUT, ENDED, Exchange, cancelled, headers_of, in_asyncio, in_background
from ._original import clock
from ._patch import Patches, hook_of


def patch(patches: Patches, module: str) -> None:
    """Patches the transports of httpx, or of a module with the same interface, if it is installed."""
    try:
        httpx = importlib.import_module(module)
    except ImportError:
        return
    tees = _tees(httpx)
    patches.replace(httpx.HTTPTransport, "handle_request", lambda original: _sync(original, tees))
    patches.replace(httpx.AsyncHTTPTransport, "handle_async_request", lambda original: _async(original, tees))


class _Tees:
    """The classes that record bodies. They are subclasses of the classes of a module."""

    request: Any
    response: Any
    async_request: Any
    async_response: Any
    byte_stream: Any


def _begin(request: Any, tees: _Tees, asynchronous: bool) -> Optional[Exchange]:
    """Starts and returns the exchange of a request; None if the request is not recorded."""
    hook = hook_of()
    if hook is None or request.method != "POST":
        return None
    try:
        target = hook.hosts.target(str(request.url), request.headers)
        if target is None:
            return None
        x = hook.begin(target, request.method, headers_of(request.headers.raw))
        if x is None:
            return None
    except Exception:
        hook.count_error()
        return None
    try:
        if isinstance(request.stream, tees.byte_stream):
            x.request(b"".join(request.stream))
        else:
            x.body_pending()
            request.stream = (tees.async_request if asynchronous else tees.request)(request.stream, x)
    except Exception:
        x.broken()
    return x


def _responded(x: Exchange, request: Any, response: Any, tee: Any) -> None:
    try:
        x.responded(response.status_code, headers_of(response.headers.raw))
        if not x.ended:
            response.stream = tee(response.stream, x)
    except Exception:
        x.broken()


def _restore_body(request: Any) -> None:
    """Restores the body of the request, which may be sent again."""
    body = getattr(request.stream, "_llmtap_body", None)
    if body is not None:
        request.stream = body


def _sync(original: Callable[..., Any], tees: _Tees) -> Callable[..., Any]:
    def handle_request(self: Any, request: Any) -> Any:
        x = _begin(request, tees, False)
        if x is None:
            return original(self, request)
        try:
            response = original(self, request)
        except BaseException as e:
            x.failed(e)
            raise
        finally:
            _restore_body(request)
        _responded(x, request, response, tees.response)
        return response

    return handle_request


def _async(original: Callable[..., Any], tees: _Tees) -> Callable[..., Any]:
    async def handle_async_request(self: Any, request: Any) -> Any:
        x = _begin(request, tees, True)
        if x is None:
            return await original(self, request)
        try:
            response = await original(self, request)
        except BaseException as e:
            x.failed(e)
            raise
        finally:
            _restore_body(request)
        _responded(x, request, response, tees.async_response)
        return response

    return handle_async_request


def _tees(httpx: Any) -> _Tees:
    class Request(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, body: Any, x: Exchange) -> None:
            self._llmtap_body, self._x = body, x

        def __iter__(self) -> Iterator[bytes]:
            for p in self._llmtap_body:
                self._x.request_read(p)
                yield p
            self._x.request_end()

        def close(self) -> None:
            self._llmtap_body.close()

    class AsyncRequest(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, body: Any, x: Exchange) -> None:
            self._llmtap_body, self._x = body, x

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for p in self._llmtap_body:
                self._x.request_read(p)
                yield p
            self._x.request_end()

        async def aclose(self) -> None:
            await self._llmtap_body.aclose()

    class Response(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, x: Exchange) -> None:
            self._stream, self._x = stream, x

        def __iter__(self) -> Iterator[bytes]:
            x = self._x
            try:
                for p in self._stream:
                    x.read(p)
                    yield p
            except GeneratorExit:
                raise
            except BaseException as e:
                x.failed(e)
                raise
            x.eof()

        def close(self) -> None:
            x = self._x
            connection = None if x.ended else _taken(x, self._stream)
            if connection is None:
                if not x.ended:
                    x.closed(cancelled())
                self._stream.close()
                return
            self._x = ENDED
            try:
                self._stream.close()
            finally:
                _start_drain(x, connection)

        def __del__(self) -> None:
            if not self._x.ended:
                self._x.hook.abandoned.append(self._x)

    class AsyncResponse(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, x: Exchange) -> None:
            self._stream, self._x = stream, x

        async def __aiter__(self) -> AsyncIterator[bytes]:
            x = self._x
            try:
                async for p in self._stream:
                    x.read(p)
                    yield p
            except GeneratorExit:
                raise
            except BaseException as e:
                x.failed(e)
                raise
            x.eof()

        async def aclose(self) -> None:
            x, is_cancelled = self._x, cancelled()
            connection = None if x.ended or is_cancelled or not in_asyncio() else _taken(x, self._stream)
            if connection is None:
                if not x.ended:
                    x.closed(is_cancelled)
                await self._stream.aclose()
                return
            self._x = ENDED
            try:
                await self._stream.aclose()
            finally:
                in_background(_async_drain(x, connection))

        def __del__(self) -> None:
            if not self._x.ended:
                self._x.hook.abandoned.append(self._x)

    tees = _Tees()
    tees.request, tees.response, tees.async_request, tees.async_response = Request, Response, AsyncRequest, AsyncResponse
    tees.byte_stream = httpx.ByteStream
    return tees


class _Closed:
    """Replaces the socket of a connection whose rest is read in the background."""

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:
        return None


def _taken(x: Exchange, stream: Any) -> Any:
    """Takes the connection of an unread error response from its pool, which will only close a substitute, and returns it. Its text explains
    the failure. Returns None if the response is none, or over HTTP/2, or of an unknown version of httpcore."""
    try:
        connection = stream._httpcore_stream._stream._connection
        if not x.has_unread_error() or not hasattr(connection, "_h11_state") or not x.hook.begin_drain():
            return None
        taken = copy.copy(connection)
        connection._network_stream = _Closed()
        return taken
    except AttributeError:
        return None


def _record(x: Exchange, event: Any) -> bool:
    """Records a part of the rest. Returns whether to read more."""
    data = getattr(event, "data", None)
    if data is None:
        x.eof()
    else:
        x.read(bytes(data))
    return not x.ended and x.got < DRAIN_BYTES


def _start_drain(x: Exchange, connection: Any) -> None:
    try:
        threading.Thread(target=_drain, args=(x, connection), name="llmtap-drain", daemon=True).start()
    except RuntimeError:  # the process is exiting
        x.drained()
        connection.close()


def _drain(x: Exchange, connection: Any) -> None:
    limit = clock.monotonic() + DRAIN_TIMEOUT
    try:
        while _record(x, connection._receive_event(timeout=max(0.0, limit - clock.monotonic()))):
            pass
    except Exception:
        pass  # the server did not send the rest
    x.drained()
    connection.close()


async def _async_drain(x: Exchange, connection: Any) -> None:
    limit = clock.monotonic() + DRAIN_TIMEOUT
    try:
        while _record(x, await connection._receive_event(timeout=max(0.0, limit - clock.monotonic()))):
            pass
    except (Exception, asyncio.CancelledError):
        pass  # the server did not send the rest, or the agent's event loop ends
    x.drained()
    try:
        await connection.aclose()
    except Exception:
        pass
