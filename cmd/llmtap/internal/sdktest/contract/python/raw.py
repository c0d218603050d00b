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
