"""Records httpx and httpx2 at their HTTP transports, where bytes are encoded. Each request of a redirect, an authentication or a
retry is a separate call."""

from __future__ import annotations

import asyncio
import importlib
import threading
from typing import Any, AsyncIterator, Callable, Iterator, Optional

from ._exchange import DRAIN_BYTES, DRAIN_TIMEOUT, DRAINS, Exchange, cancelled, headers_of
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
        hook.count_error()
    return x


def _responded(x: Exchange, request: Any, response: Any, tee: Any) -> None:
    try:
        x.responded(response.status_code, headers_of(response.headers.raw))
        if not x.ended:
            response.stream = tee(response.stream, x, response.extensions)
    except Exception:
        x.hook.count_error()
        x.closed()


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
        def __init__(self, stream: Any, x: Exchange, extensions: Any) -> None:
            self._stream, self._x, self._extensions = stream, x, extensions
            self._drained = False

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
            if self._drained:
                return
            if self._x.ended:
                self._stream.close()
                return
            if _drainable(self._x, self._extensions) and self._x.hook.drains.acquire(blocking=False):
                self._drained = True
                try:
                    threading.Thread(target=self._drain, name="llmtap-drain", daemon=True).start()
                    return
                except RuntimeError:  # the process is exiting
                    self._x.hook.drains.release()
            self._x.closed(cancelled())
            self._stream.close()

        def _drain(self) -> None:
            """Reads a limited part of an unread error response, because its text explains the failure."""
            x = self._x
            limit = threading.Timer(DRAIN_TIMEOUT, _shutdown, [self._extensions])
            limit.daemon = True
            try:
                limit.start()
                size = 0
                for p in self:
                    size += len(p)
                    if size > DRAIN_BYTES:
                        break
            except Exception:
                pass  # the exchange has ended
            finally:
                limit.cancel()
                x.hook.drains.release()
                x.closed()
                try:
                    self._stream.close()
                except Exception:
                    pass

        def __del__(self) -> None:
            if not self._x.ended:
                self._x.hook.abandoned.append(self._x)

    class AsyncResponse(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, x: Exchange, extensions: Any) -> None:
            self._stream, self._x, self._extensions = stream, x, extensions
            self._drained = False

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
            if self._drained:
                return
            if self._x.ended:
                await self._stream.aclose()
                return
            is_cancelled = cancelled()
            if not is_cancelled and _drainable(self._x, self._extensions) and self._x.hook.drains.acquire(blocking=False):
                self._drained = True
                try:
                    DRAINS.add(asyncio.get_running_loop().create_task(self._drain()))
                    return
                except RuntimeError:  # not an asyncio event loop
                    self._drained = False
                    self._x.hook.drains.release()
            self._x.closed(is_cancelled)
            await self._stream.aclose()

        async def _drain(self) -> None:
            x = self._x
            try:
                await asyncio.wait_for(self._rest(), DRAIN_TIMEOUT)
            except Exception:
                pass  # the exchange has ended
            finally:
                x.hook.drains.release()
                x.closed()
                task = asyncio.current_task()
                if task is not None:
                    DRAINS.discard(task)
                try:
                    await self._stream.aclose()
                except Exception:
                    pass

        async def _rest(self) -> None:
            size = 0
            async for p in self:
                size += len(p)
                if size > DRAIN_BYTES:
                    break

        def __del__(self) -> None:
            if not self._x.ended:
                self._x.hook.abandoned.append(self._x)

    tees = _Tees()
    tees.request, tees.response, tees.async_request, tees.async_response = Request, Response, AsyncRequest, AsyncResponse
    tees.byte_stream = httpx.ByteStream
    return tees


def _drainable(x: Exchange, extensions: Any) -> bool:
    return x.has_unread_error() and extensions.get("http_version") != b"HTTP/2"


def _shutdown(extensions: Any) -> None:
    """Ends a read that takes too long by closing the socket."""
    try:
        extensions["network_stream"].get_extra_info("socket").shutdown(2)
    except Exception:
        pass
