"""Counts calls to providers over Python's own http.client, which is not captured. urllib, urllib3 and botocore use it, too."""

from __future__ import annotations

import functools
import http.client
import threading
from typing import Any, Callable

from ._patch import Patches, hook_of


class _Captured(threading.local):
    """Marks the threads whose calls over http.client another client captures."""

    depth = 0  # of the calls of such clients


_captured = _Captured()


def patch(patches: Patches) -> None:
    """Patches http.client."""
    patches.replace(http.client.HTTPConnection, "putrequest", _putrequest)


def captured(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns call, whose calls over http.client are not counted."""

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
        if method == "POST" and not _captured.depth:
            _count(self, url)
        return original(self, method, url, *args, **kwargs)

    return putrequest


def _count(connection: Any, url: Any) -> None:
    hook = hook_of()
    if hook is None:
        return
    try:
        if url[:1] == "/":  # otherwise the URL for a proxy
            tunnel = getattr(connection, "_tunnel_host", None)
            host, port = (tunnel, connection._tunnel_port) if tunnel else (connection.host, connection.port)
            secure = tunnel or isinstance(connection, http.client.HTTPSConnection)
            name = f"[{host}]" if ":" in host else host
            default = 443 if secure else 80
            url = f"http{'s' if secure else ''}://{name}{'' if port in (None, default) else f':{port}'}{url}"
        host = hook.hosts.provider(url)
        if host:
            hook.uncaptured(host, type(connection).__module__)
    except Exception:
        hook.count_error()
