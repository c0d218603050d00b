"""Records requests at its adapter and at the response of urllib3, where bytes are encoded."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Iterator, Optional

from ._exchange import ENDED, Exchange, headers_of
from ._httpclient import captured
from ._patch import Patches, hook_of


def patch(patches: Patches) -> None:
    """Patches requests if it is installed."""
    try:
        adapters = importlib.import_module("requests.adapters")
    except ImportError:
        return
    patches.replace(adapters.HTTPAdapter, "send", _send)


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    recorded = captured(original)

    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        x = _begin(request)
        if x is None:
            return recorded(self, request, *args, **kwargs)
        try:
            response = recorded(self, request, *args, **kwargs)
        except BaseException as e:
            x.failed(e)
            raise
        finally:
            body = getattr(request, "body", None)
            if isinstance(body, _Body):
                request.body = body.llmtap_body
        _responded(x, response)
        return response

    return send


def _begin(request: Any) -> Optional[Exchange]:
    """Starts and returns the exchange of a request; None if the request is not recorded."""
    hook = hook_of()
    if hook is None or request.method != "POST":
        return None
    try:
        target = hook.hosts.target(request.url, request.headers)
        if target is None:
            return None
        x = hook.begin(target, request.method, headers_of(request.headers.items()))
        if x is None:
            return None
    except Exception:
        hook.count_error()
        return None
    try:
        body = request.body
        if body is None or isinstance(body, (bytes, bytearray)):
            x.request(None if body is None else bytes(body))
        elif isinstance(body, str):
            x.request(body.encode())
        else:
            x.body_pending()
            if not hasattr(body, "read"):  # requests reads length and position of files in many ways
                request.body = _Body(body, x)
    except Exception:
        x.broken()
    return x


class _Body:
    """Records a body that is sent in pieces."""

    def __init__(self, body: Any, x: Exchange) -> None:
        self.llmtap_body, self._x = body, x

    def __iter__(self) -> Iterator[Any]:
        for p in self.llmtap_body:
            self._x.request_read(p if isinstance(p, bytes) else str(p).encode())
            yield p
        self._x.request_end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.llmtap_body, name)


def _responded(x: Exchange, response: Any) -> None:
    try:
        raw = response.raw
        x.responded(response.status_code, headers_of(response.headers.items()))
        if not x.ended:
            raw._llmtap_x = x
            base: Any = type(raw)
            raw.__class__ = _tee(base)
    except Exception:
        x.broken()


@functools.cache
def _tee(base: Any) -> Any:
    """Returns a subclass of a response of urllib3 that records its bytes while they are read."""
    if not hasattr(base, "_handle_chunk") or not (hasattr(base, "_raw_read") or hasattr(base, "_fp_read")):
        raise TypeError(f"{base!r} lacks the read methods of urllib3")

    class Response(base):  # type: ignore[misc]
        _llmtap_x: Any
        _llmtap_chunk = False  # reading the length of a chunk: on an error urllib3 closes before it raises

        def _llmtap_read(self, read: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            x: Exchange = self._llmtap_x
            try:
                data = read(*args, **kwargs)
            except BaseException as e:
                x.failed(e)
                raise
            if data:
                x.read(data)
            amt = args[0] if args else kwargs.get("amt")
            if amt is None and not kwargs.get("read1") or not data and amt != 0:
                x.eof()
            return data

        if hasattr(base, "_raw_read"):

            def _raw_read(self, *args: Any, **kwargs: Any) -> Any:
                return self._llmtap_read(super()._raw_read, args, kwargs)

        else:  # before urllib3 2

            def _fp_read(self, *args: Any, **kwargs: Any) -> Any:
                return self._llmtap_read(super()._fp_read, args, kwargs)

        def _handle_chunk(self, amt: Any) -> Any:
            x: Exchange = self._llmtap_x
            try:
                data = super()._handle_chunk(amt)
            except BaseException as e:
                x.failed(e)
                raise
            x.read(data)
            return data

        def _update_chunk_length(self) -> None:
            x: Exchange = self._llmtap_x
            self._llmtap_chunk = True
            try:
                super()._update_chunk_length()
            except BaseException as e:
                x.failed(e)
                raise
            finally:
                self._llmtap_chunk = False
            if self.chunk_left == 0:
                x.eof()

        def close(self) -> None:
            x: Exchange = self._llmtap_x
            if not x.ended and not self._llmtap_chunk:
                x.closed()
            super().close()

        def release_conn(self) -> Any:
            result = super().release_conn()
            x: Exchange = self._llmtap_x
            if not x.ended and self._fp is None and not self._llmtap_chunk:
                x.closed()
            return result

        def __del__(self) -> None:
            x: Exchange = self._llmtap_x
            if not x.ended:
                # Not end(): the garbage collector may have interrupted a thread that holds the lock.
                x.hook.abandoned.append(x)
                self._llmtap_x = ENDED
            super().__del__()

    Response.__name__, Response.__qualname__ = base.__name__, base.__qualname__
    return Response
