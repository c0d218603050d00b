"""A provider on loopback that selects the response by the path of the URL, and calls to it with every supported client."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import http.server
import json
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from typing import Any, Callable
from urllib.parse import urljoin, urlsplit

import aiohttp
import brotli
import httpx
import httpx2
import pytest
import requests
import urllib3

import llmtap

ANSWER = json.dumps(
    {"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "规划 done 😀"}}]}, ensure_ascii=False
).encode()
EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"' + w + b'"}}]}\n\n' for w in (b"a", b"b", "规划".encode())] + [b"data: [DONE]\n\n"]
GARBAGE = bytes(range(256)) * 8
ERROR = json.dumps({"error": {"message": "bad key sk-aB3dE5gH7jK9mN1pQrS2 in tool_calls", "code": None}}).encode()

_ENCODINGS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "br": brotli.compress, "deflate": zlib.compress}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(200, b"{}")

    def do_POST(self) -> None:
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while (n := int(self.rfile.readline(), 16)) > 0:
                self.rfile.read(n + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("content-length") or 0))
        what = self.path.split("/")[1]
        self.close_connection = what in ("reset", "cut", "slow", "hang")
        if what in _ENCODINGS:
            self._answer(200, _ENCODINGS[what](ANSWER), {"content-encoding": what})
        elif what == "gzipstream":
            self._stream([gzip.compress(b"".join(EVENTS))], {"content-encoding": "gzip"})
        elif what.isdigit():
            self._answer(int(what), ERROR, {"x-request-id": "req_1"})
        elif what == "big":
            self._answer(200, ANSWER[:-1] + b" " * (2 << 20) + b"}")
        elif what == "garbage":
            self._answer(200, GARBAGE, {"content-type": "application/octet-stream"})
        elif what == "stream":
            self._stream(EVENTS)
        elif what == "cut":
            self._stream(EVENTS[:2], end=False)
        elif what == "slow":
            self._stream(EVENTS[:2], end=False, hold=True)
        elif what == "errorstream":
            self._stream([ERROR], {"content-type": "application/json"}, status=429)
        elif what == "redirect":
            self._answer(307, b"", {"location": "/ok/v1/chat/completions"})
        elif what == "hang":
            self._set_reserved()
        elif what != "reset":
            self._answer(200, ANSWER)

    def _set_reserved(self) -> None:
        self.server.hold.wait(20)  # type: ignore[attr-defined]

    def _head(self, status: int, headers: dict[str, str], more: dict[str, str]) -> None:
        self.send_response(status)
        for k, v in {**headers, **more}.items():
            self.send_header(k, v)
        self.end_headers()

    def _answer(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self._head(status, {"content-type": "application/json", "content-length": str(len(body))}, more or {})
        self.wfile.write(body)

    def _stream(self, pieces: list[bytes], more: dict[str, str] | None = None, status: int = 200, end: bool = True, hold: bool = False) -> None:
        self._head(status, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}, more or {})
        for p in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(p), p))
            self.wfile.flush()
        if hold:
            self._set_reserved()
        if end:
            self.wfile.write(b"0\r\n\r\n")


class Provider:
    """The provider and the requests that it received."""

    def __init__(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.hold = self._server.hold = threading.Event()  # type: ignore[attr-defined]
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, what: str) -> str:
        return f"http://{self.host}/{what}/v1/chat/completions?key=topsecret"

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    p = Provider()
    yield p
    p.close()


BODY = b'{"model":"gpt-5","messages":[{"role":"user","content":"' + "你好".encode() + b'"}]}'
HEADERS = {"content-type": "application/json", "authorization": "Bearer topsecret", "x-stainless-retry-count": "1"}

# A call: (url, body, timeout, how) -> (status, body). how is "read", "stream" or "close": read all at once, in pieces, or one piece only.
Call = Callable[..., "tuple[int, bytes]"]


def _httpx(module: Any) -> Call:
    def call(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
        with module.Client(timeout=timeout, follow_redirects=True, verify=False) as c:
            if how == "read":
                r = c.post(url, content=body, headers=HEADERS)
                return r.status_code, r.content
            if how == "unread":
                with c.stream("POST", url, content=body, headers=HEADERS) as r:
                    pass
                wait_until(lambda: llmtap.stats().open == 0)
                return r.status_code, b""
            with c.stream("POST", url, content=body, headers=HEADERS) as r:
                pieces = r.iter_bytes()
                return r.status_code, next(pieces) if how == "close" else b"".join(pieces)

    return call


def _async_httpx(module: Any) -> Call:
    async def post(url: str, body: Any, timeout: float, how: str) -> tuple[int, bytes]:
        async with module.AsyncClient(timeout=timeout, follow_redirects=True, verify=False) as c:
            if how == "read":
                r = await c.post(url, content=body, headers=HEADERS)
                return r.status_code, r.content
            got = b""
            if how == "unread":
                async with c.stream("POST", url, content=body, headers=HEADERS) as r:
                    pass
                while llmtap.stats().open:
                    await asyncio.sleep(0.005)
                return r.status_code, got
            async with c.stream("POST", url, content=body, headers=HEADERS) as r:
                async for p in r.aiter_bytes():
                    got += p
                    if how == "close":
                        break
                return r.status_code, got

    def call(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
        return asyncio.run(_and_rest(post(url, body, timeout, how)))

    return call


async def _and_rest(call: Any) -> Any:
    """A call followed by a pause for background tasks, as in an agent whose event loop keeps running."""
    try:
        return await call
    finally:
        for _ in range(3):
            await asyncio.sleep(0.01)


def _requests(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
    with requests.Session() as s:
        if how == "read":
            r = s.post(url, data=body, headers=HEADERS, timeout=timeout)
            return r.status_code, r.content
        with s.post(url, data=body, headers=HEADERS, timeout=timeout, stream=True) as r:
            if how == "unread":
                return r.status_code, b""
            pieces = r.iter_content(None)
            return r.status_code, next(pieces) if how == "close" else b"".join(pieces)


def _aiohttp(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
    async def post() -> tuple[int, bytes]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as s, s.post(url, data=body, headers=HEADERS) as r:
            if how == "read":
                return r.status, await r.read()
            if how == "unread":
                r.release()
                while llmtap.stats().open:
                    await asyncio.sleep(0.005)
                return r.status, b""
            got = b""
            async for p in r.content.iter_any():
                got += p
                if how == "close":
                    break
            return r.status, got

    return asyncio.run(_and_rest(post()))


def _decoded(r: Any, body: bytes) -> bytes:
    decode: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "br": brotli.decompress, "deflate": zlib.decompress}
    encoding = r.headers["content-encoding"]
    return decode[encoding](body) if encoding and body else body


def _read(r: Any, how: str) -> bytes:
    """Reads a response of http.client, which does not decode."""
    if how == "unread":
        return b""
    if how == "close":
        return bytes(r.read1(64 << 10))
    return _decoded(r, r.read() if how == "read" else b"".join(iter(lambda: r.read(100), b"")))


def _http_client(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
    u = urlsplit(url)
    connection = http.client.HTTPConnection(u.hostname or "", u.port, timeout=timeout)
    try:
        while True:
            connection.request("POST", f"{u.path}?{u.query}", body, HEADERS)
            with connection.getresponse() as r:
                if r.status == 307:
                    u = u._replace(path=r.headers["location"])
                    r.read()
                    continue
                return r.status, _read(r, how)
    finally:
        connection.close()


def _urllib(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
    headers = {**HEADERS, "content-length": str(len(body))} if isinstance(body, bytes) else HEADERS
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=timeout) as r:
            return r.status, _read(r, how)
    except urllib.error.HTTPError as e:
        with e:
            if e.code == 307:  # urllib redirects no POST
                return _urllib(urljoin(url, e.headers["location"]), body, timeout, how)
            return e.code, _read(e, how)


def _urllib3(url: str, body: Any = BODY, timeout: float = 10, how: str = "read") -> tuple[int, bytes]:
    with urllib3.PoolManager(timeout=timeout, retries=urllib3.Retry(total=None, connect=0, read=0, redirect=3)) as pool:
        r = pool.request("POST", url, body=body, headers=HEADERS, preload_content=how == "read")
        try:
            if how == "close":
                return r.status, next(r.stream())
            return r.status, b"" if how == "unread" else r.data if how == "read" else b"".join(r.stream(decode_content=True))
        finally:
            r.close()


CLIENTS: dict[str, Call] = {
    "httpx": _httpx(httpx),
    "httpx-async": _async_httpx(httpx),
    "httpx2": _httpx(httpx2),
    "httpx2-async": _async_httpx(httpx2),
    "requests": _requests,
    "aiohttp": _aiohttp,
    "http.client": _http_client,
    "urllib": _urllib,
    "urllib3": _urllib3,
}


def wait_until(what: Callable[[], bool], timeout: float = 10) -> bool:
    """Waits for a condition that another thread fulfils."""
    limit = time.monotonic() + timeout
    while time.monotonic() < limit:
        if what():
            return True
        time.sleep(0.005)
    return False
