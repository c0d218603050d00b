"""Counts calls to providers over gRPC, WebSockets, HTTP/3 and urllib3-future, which are not captured."""

from __future__ import annotations

import functools
import re
import sys
from types import ModuleType
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

from ._httpclient import is_captured
from ._patch import Patches, hook_of

GRPC, WEBSOCKET, HTTP3 = "grpc", "websocket", "http3"

# Methods of gRPC that call a model: those of Gemini, of Vertex AI and of xAI, and of servers of one's own. The same services have others.
_CALLS = re.compile("(GenerateContent|Predict|/GetCompletion|/GetCompletionChunk|/StartDeferredCompletion|/Generate|/GenerateStream)$")


def patch(patches: Patches) -> None:
    """Patches the libraries, each when the agent imports it: an import takes 0.1 s, and few agents need them."""
    for name in _LIBRARIES:
        if name in sys.modules:
            _LIBRARIES[name](patches, sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(patches))


class _Finder:
    """Finds the libraries with the other finders. Programs also look for them without importing them."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any = None, target: Optional[ModuleType] = None) -> Any:
        if name not in _LIBRARIES:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self._patches)
                return spec
        return None


class _Loader:
    """Patches a library after its own loader has loaded it."""

    def __init__(self, loader: Any, patches: Patches) -> None:
        self._loader, self._patches = loader, patches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        hook = hook_of()
        if hook is None:
            return
        try:
            _LIBRARIES[module.__name__](self._patches, module)
        except Exception:
            hook.count_error()


def _patch_grpc(patches: Patches, grpc: Any) -> None:
    for module in (grpc, getattr(grpc, "aio", None)):
        for name in ("secure_channel", "insecure_channel"):
            if hasattr(module, name):
                patches.replace(module, name, _channel)


def _channel(original: Callable[..., Any]) -> Callable[..., Any]:
    def channel(target: Any, *args: Any, **kwargs: Any) -> Any:
        opened = original(target, *args, **kwargs)
        address = str(target).rpartition("/")[2]  # of dns:///api.x.ai:443
        if _records("https://" + address):
            _become(opened, _counting_channel, address)
        return opened

    return channel


def _become(instance: Any, subclass: Callable[[Any], Any], address: str) -> None:
    """Makes an object of grpc one of a subclass of its class."""
    try:
        instance._llmtap_address = address
        instance.__class__ = subclass(type(instance))
    except Exception as e:
        hook = hook_of()
        if hook is not None and not isinstance(e, (AttributeError, TypeError)):  # of an unknown version of grpc
            hook.count_error()


def _subclass(base: Any, wrap: Callable[[Any], Any], *names: str) -> Any:
    """A subclass of base with the same name whose methods are wrapped."""
    methods = {name: functools.wraps(getattr(base, name))(wrap(getattr(base, name))) for name in names if hasattr(base, name)}
    return type(base.__name__, (base,), {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__, **methods})


@functools.cache
def _counting_channel(base: Any) -> Any:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def make(self: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
            call = original(self, method, *args, **kwargs)
            if _CALLS.search(str(method)):
                _become(call, _counting_call, self._llmtap_address)
            return call

        return make

    return _subclass(base, wrap, "unary_unary", "unary_stream", "stream_unary", "stream_stream")


@functools.cache
def _counting_call(base: Any) -> Any:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            _count("https://" + self._llmtap_address, GRPC)
            return original(self, *args, **kwargs)

        return call

    return _subclass(base, wrap, "__call__", "with_call", "future")


def _patch_websockets(patches: Patches, module: Any) -> None:
    def count(self: Any, request: Any) -> None:
        count_websocket(_url_of(getattr(self, "uri", None) or self.wsuri))

    patches.replace(module.ClientProtocol, "send_request", _before(count))


def _patch_websockets_legacy(patches: Patches, module: Any) -> None:
    patches.replace(module.WebSocketClientProtocol, "handshake", _before(lambda _, wsuri, *__, **___: count_websocket(_url_of(wsuri))))


def _patch_websocket_client(patches: Patches, module: Any) -> None:
    patches.replace(module.WebSocket, "connect", _before(lambda _, url, **__: count_websocket(str(url))))


def _url_of(uri: Any) -> str:
    """The URL of a WebSocketURI."""
    host = f"[{uri.host}]" if ":" in uri.host else uri.host
    return f"{'wss' if uri.secure else 'ws'}://{host}:{uri.port}"


def _patch_http3(patches: Patches, module: Any) -> None:
    def count(_: Any, stream_id: int, headers: Any, end_stream: bool = False) -> None:
        values = dict(headers)
        if values.get(b":method") == b"POST":
            _count("https://" + values[b":authority"].decode("latin-1"), HTTP3)

    patches.replace(module.H3Connection, "send_headers", _before(count))


def _patch_urllib3_future(patches: Patches, module: Any) -> None:
    def count(self: Any, method: str, url: str, *_: Any, **__: Any) -> None:
        if method == "POST" and not is_captured():
            _count(f"http{'s' * (self.default_port == 443)}://{self.host}:{self.port}", HTTP3 if self._svn == "HTTP/3.0" else "urllib3-future")

    for name in ("HfaceBackend", "AsyncHfaceBackend"):
        if hasattr(module, name):
            patches.replace(getattr(module, name), "putrequest", _before(count))


def _before(count: Callable[..., None]) -> Callable[[Any], Any]:
    """Makes methods that call count first, with their arguments."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            hook = hook_of()
            try:
                if hook is not None:
                    count(*args, **kwargs)
            except Exception:
                hook.count_error()  # type: ignore[union-attr]
            return original(*args, **kwargs)

        return method

    return make


def count_websocket(url: str) -> None:
    """Counts a connection."""
    _count("http" + url[2:], WEBSOCKET)


def _records(url: str) -> bool:
    """Whether calls to a URL would be recorded over HTTP."""
    hook = hook_of()
    if hook is None:
        return False
    try:
        u = urlsplit(url)
        port = str(u.port or "")
        return hook.hosts.records(u.scheme, (u.hostname or "").lower(), "" if port == ("443" if u.scheme == "https" else "80") else port)
    except ValueError:  # an address of grpc may be no host, such as ipv4:10.0.0.7:443
        return False


def _count(url: str, transport: str) -> None:
    hook = hook_of()
    if hook is not None and _records(url):
        hook.uncaptured(urlsplit(url).netloc.rpartition("@")[2], transport)


_LIBRARIES: dict[str, Callable[[Patches, Any], None]] = {
    "grpc": _patch_grpc,
    "websockets.client": _patch_websockets,
    "websockets.legacy.client": _patch_websockets_legacy,
    "websocket._core": _patch_websocket_client,
    "aioquic.h3.connection": _patch_http3,
    # niquests uses urllib3-future, which may be installed as urllib3.
    **dict.fromkeys((a + b for a in ("urllib3", "urllib3_future") for b in (".backend.hface", ".backend._async.hface")), _patch_urllib3_future),
}
