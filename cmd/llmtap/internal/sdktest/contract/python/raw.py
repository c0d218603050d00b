"""Calls with the HTTP libraries and the exact bytes of a case. Each function returns what the agent observes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Callable

Call = dict[str, Any]
Result = dict[str, Any]


def result(status: int = 0, body: bytes = b"", error: str = "") -> Result:
    return {"status": status, "body": base64.b64encode(body).decode(), "error": error}


def sync_httpx(c: Call) -> Result:
    import httpx

    status, body = 0, b""
    try:
        with httpx.Client(timeout=c["timeout"], verify=False) as client:
            if c["how"] == "read":
                r = client.post(c["url"], content=c["body"], headers=c["headers"])
                return result(r.status_code, r.content)
            with client.stream("POST", c["url"], content=c["body"], headers=c["headers"]) as r:
                status = r.status_code
                for p in r.iter_bytes():
                    body += p
                    if c["how"] == "close":
                        break
        return result(status, body)
    except Exception as e:
        return result(status, body, repr(e))


async def async_httpx(c: Call) -> Result:
    import httpx

    got = {"status": 0, "body": b""}

    async def work(first: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=c["timeout"], verify=False) as client:
            if c["how"] == "read":
                r = await client.post(c["url"], content=c["body"], headers=c["headers"])
                got.update(status=r.status_code, body=r.content)
                return
            async with client.stream("POST", c["url"], content=c["body"], headers=c["headers"]) as r:
                got["status"] = r.status_code
                async for p in r.aiter_bytes():
                    got["body"] += p
                    first.set()
                    if c["how"] == "close":
                        break

    return await cancellable(c, work, got)


async def by_aiohttp(c: Call) -> Result:
    import aiohttp

    got = {"status": 0, "body": b""}

    async def work(first: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=c["timeout"], sock_read=c["timeout"])
        async with aiohttp.ClientSession(timeout=timeout) as s, s.post(c["url"], data=c["body"], headers=c["headers"]) as r:
            got["status"] = r.status
            if c["how"] == "read":
                got["body"] = await r.read()
                return
            async for p in r.content.iter_any():
                got["body"] += p
                first.set()
                if c["how"] == "close":
                    break

    return await cancellable(c, work, got)


async def cancellable(c: Call, work: Callable[[asyncio.Event], Any], got: dict[str, Any]) -> Result:
    """Runs work; cancels it after the first piece if how is "cancel"."""
    first = asyncio.Event()
    task = asyncio.ensure_future(work(first))
    error = ""
    try:
        if c["how"] == "cancel":
            await first.wait()
            task.cancel()
        await task
    except (Exception, asyncio.CancelledError) as e:
        error = repr(e)
    return result(got["status"], got["body"], error)


def by_requests(c: Call) -> Result:
    import requests

    status, body = 0, b""
    try:
        with requests.Session() as s:
            s.trust_env = False
            if c["how"] == "read":
                r = s.post(c["url"], data=c["body"], headers=c["headers"], timeout=c["timeout"])
                return result(r.status_code, r.content)
            with s.post(c["url"], data=c["body"], headers=c["headers"], timeout=c["timeout"], stream=True) as r:
                status = r.status_code
                for p in r.iter_content(None):
                    body += p
                    if c["how"] == "close":
                        break
        return result(status, body)
    except Exception as e:
        return result(status, body, repr(e))


def by_http_client(c: Call) -> Result:
    import http.client
    from urllib.parse import urlsplit

    u = urlsplit(c["url"])
    connection = http.client.HTTPConnection(u.hostname or "", u.port, timeout=c["timeout"])
    status, body = 0, b""
    try:
        connection.request("POST", c["url"].partition(u.netloc)[2], c["body"], c["headers"])
        r = connection.getresponse()
        status = r.status
        if c["how"] == "read":
            return result(status, decoded(r.headers, r.read()))
        while p := r.read1(64 << 10):
            body += p
            if c["how"] == "close":
                break
        if r.length and c["how"] == "stream":
            raise http.client.IncompleteRead(body, r.length)  # read1 does not raise it
        return result(status, decoded(r.headers, body))
    except Exception as e:
        return result(status, body, repr(e))
    finally:
        connection.close()


def decoded(headers: Any, body: bytes) -> bytes:
    """The body of a client that does not decode."""
    import gzip
    import zlib

    import brotli

    decoders: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "br": brotli.decompress, "deflate": zlib.decompress}
    decode = decoders.get(headers.get("content-encoding"))
    return decode(body) if decode and body else body


def by_urllib3(c: Call) -> Result:
    import urllib3

    status, body = 0, b""
    try:
        with urllib3.PoolManager(timeout=c["timeout"], retries=False) as pool:
            r = pool.request("POST", c["url"], body=c["body"], headers=c["headers"], preload_content=c["how"] == "read")
            status = r.status
            if c["how"] == "read":
                return result(status, r.data)
            try:
                for p in r.stream(decode_content=True):
                    body += p
                    if c["how"] == "close":
                        break
            finally:
                r.close()
        return result(status, body)
    except Exception as e:
        return result(status, body, repr(e))
