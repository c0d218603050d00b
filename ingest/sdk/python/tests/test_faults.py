"""Responses that fail: the agent observes the same with and without the hook, and its next call over the same pool of one connection does not
wait. The test prints what the hook adds to both calls."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import http.client
import re
import subprocess
import time
from collections.abc import Awaitable, Iterator
from typing import Any, Callable

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3
from provider import wait_until

import llmtap

ROUNDS = 4
TIMEOUT = 0.45  # of the clients
BODY, HEADERS = b"{}", {"content-type": "application/json"}
FAULTS = [f"{name}/{status}" for status in (500, 200) for name in ("ok", "drip", "stall", "reset", "close", "huge", "half-head", "chunks")]

# What an agent observes of a call, the seconds until then, of the next call, and its seconds.
Seen = tuple[str, float, str, float]


def outcome(f: Callable[[], Any]) -> str:
    """What f returns or raises, without addresses and ports."""
    try:
        text = repr(f())
    except Exception as e:
        text = f"{type(e).__name__}: {e}"
    return re.sub(r"0x[0-9a-f]+|:\d{4,5}|port=\d+", "", text)[:400]


async def async_outcome(f: Callable[[], Awaitable[Any]]) -> str:
    try:
        got = await f()
    except Exception as e:
        error = e

        def fail() -> None:
            raise error

        return outcome(fail)
    return outcome(lambda: got)


def timed(first: Callable[[], Any], second: Callable[[], Any]) -> Seen:
    began = time.perf_counter()
    one = outcome(first)
    between = time.perf_counter()
    two = outcome(second)
    return one, between - began, two, time.perf_counter() - between


def over_httpx(module: Any, how: str) -> Callable[[str, str], Seen]:
    def use(url: str, ok: str) -> Seen:
        with module.Client(timeout=TIMEOUT, verify=False, limits=module.Limits(max_connections=1)) as c:

            def first() -> Any:
                r = c.send(c.build_request("POST", url, content=BODY, headers=HEADERS), stream=True)
                if how == "read":
                    return r.status_code, r.read()
                r.close()
                return r.status_code, r.is_closed, outcome(r.read), [i.info() for i in c._transport._pool.connections]

            return timed(first, lambda: c.post(ok, content=BODY, headers=HEADERS).content)

    return use


def over_async_httpx(module: Any, how: str) -> Callable[[str, str], Seen]:
    async def use(url: str, ok: str) -> Seen:
        async with module.AsyncClient(timeout=TIMEOUT, verify=False, limits=module.Limits(max_connections=1)) as c:

            async def first() -> Any:
                r = await c.send(c.build_request("POST", url, content=BODY, headers=HEADERS), stream=True)
                if how == "read":
                    return r.status_code, await r.aread()
                await r.aclose()
                return r.status_code, r.is_closed, await async_outcome(r.aread), [i.info() for i in c._transport._pool.connections]

            async def second() -> Any:
                return (await c.post(ok, content=BODY, headers=HEADERS)).content

            return await async_timed(first, second)

    return lambda url, ok: asyncio.run(use(url, ok))


async def async_timed(first: Callable[[], Awaitable[Any]], second: Callable[[], Awaitable[Any]]) -> Seen:
    began = time.perf_counter()
    one = await async_outcome(first)
    between = time.perf_counter()
    two = await async_outcome(second)
    return one, between - began, two, time.perf_counter() - between


def over_aiohttp(how: str) -> Callable[[str, str], Seen]:
    async def use(url: str, ok: str) -> Seen:
        limits = aiohttp.ClientTimeout(sock_read=TIMEOUT, connect=5)
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as s:

            async def first() -> Any:
                r = await s.post(url, data=BODY, headers=HEADERS)
                if how == "read":
                    return r.status, await r.read()
                failed = outcome(r.raise_for_status) if how == "raise" else r.close() if how == "close" else r.release() and None
                if how == "raise" and r.status < 400:
                    r.release()
                return r.status, failed, r.closed, r.connection, len(connector._acquired), await async_outcome(r.text)

            async def second() -> Any:
                async with s.post(ok, data=BODY, headers=HEADERS) as r:
                    return await r.read()

            return await async_timed(first, second)

    return lambda url, ok: asyncio.run(use(url, ok))


def over_requests(how: str) -> Callable[[str, str], Seen]:
    def use(url: str, ok: str) -> Seen:
        with requests.Session() as s:
            s.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=1, pool_block=True))

            def first() -> Any:
                r = s.post(url, data=BODY, headers=HEADERS, timeout=TIMEOUT, stream=True)
                if how == "read":
                    return r.status_code, r.content
                r.close()
                return r.status_code, outcome(lambda: r.content)

            return timed(first, lambda: s.post(ok, data=BODY, headers=HEADERS, timeout=TIMEOUT).content)

    return use


def over_urllib3(how: str) -> Callable[[str, str], Seen]:
    def use(url: str, ok: str) -> Seen:
        with urllib3.PoolManager(maxsize=1, block=True, timeout=TIMEOUT, retries=False) as pool:

            def first() -> Any:
                r = pool.request("POST", url, body=BODY, headers=HEADERS, preload_content=False)
                if how == "read":
                    return r.status, r.read()
                r.close() if how == "close" else r.drain_conn()
                if how == "drain":
                    r.release_conn()
                return r.status, r.closed, outcome(r.read)

            return timed(first, lambda: pool.request("POST", ok, body=BODY, headers=HEADERS).data)

    return use


def over_http_client(how: str) -> Callable[[str, str], Seen]:
    def use(url: str, ok: str) -> Seen:
        host, path = url[len("http://") :].split("/", 1)
        c = http.client.HTTPConnection(host, timeout=TIMEOUT)

        def first() -> Any:
            c.request("POST", "/" + path, BODY, HEADERS)
            r = c.getresponse()
            if how == "read":
                return r.status, r.read()
            r.close()
            if how == "close":
                c.close()
            return r.status, r.closed, outcome(r.read)

        def second() -> Any:
            c.request("POST", "/" + ok.split("/", 3)[3], BODY, HEADERS)
            return c.getresponse().read()

        try:
            return timed(first, second)
        finally:
            c.close()

    return use


CLIENTS: dict[str, Callable[[str, str], Seen]] = {
    **{f"{m.__name__}, {how}": over_httpx(m, how) for m in (httpx, httpx2) for how in ("read", "close")},
    **{f"{m.__name__} async, {how}": over_async_httpx(m, how) for m in (httpx, httpx2) for how in ("read", "close")},
    **{f"aiohttp, {how}": over_aiohttp(how) for how in ("read", "release", "raise", "close")},
    **{f"requests, {how}": over_requests(how) for how in ("read", "close")},
    **{f"urllib3, {how}": over_urllib3(how) for how in ("read", "close", "drain")},
    **{f"http.client, {how}": over_http_client(how) for how in ("read", "close", "keep open")},
}


@pytest.fixture
def faulty(helper: str) -> Iterator[str]:
    """The address of the provider whose responses fail."""
    server = subprocess.Popen([helper, "faults"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None
    yield "127.0.0.1:" + server.stdout.readline().decode().strip()
    server.stdin.close()
    server.wait(10)
    server.stdout.close()


Pair = tuple[str, str]  # of a client and a fault


def observe(host: str, pairs: list[Pair]) -> dict[Pair, list[Seen]]:
    """What clients see of faults, ROUNDS times."""
    seen: dict[Pair, list[Seen]] = {}

    def work(client: str) -> None:
        for pair in pairs:
            if pair[0] == client:
                url, ok = (f"http://{host}/{f}/v1/chat/completions" for f in (pair[1], "ok/200"))
                seen[pair] = [CLIENTS[client](url, ok) for _ in range(ROUNDS)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # most of the time they wait
        list(pool.map(work, CLIENTS))
    return seen


def observe_hooked(host: str, pairs: list[Pair]) -> dict[Pair, list[Seen]]:
    llmtap.instrument(url="nats://127.0.0.1:1", service="svc", hosts=[host], capture="none", flush_timeout=0)
    seen = observe(host, pairs)
    assert wait_until(lambda: llmtap.stats().open == 0, 10)
    s = llmtap.stats()
    assert s.errors == 0 and s.pending == 4 * ROUNDS * len(pairs), s
    llmtap.uninstrument()
    return seen


def test_faults(faulty: str, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(client, fault) for client in CLIENTS for fault in FAULTS]
    without, hooked = observe(faulty, pairs), observe_hooked(faulty, pairs)
    with capsys.disabled():
        show(without, hooked)
    for _ in range(5):  # some outcomes are rare, and on a busy machine a call may time out
        pairs = [p for p in pairs if {b[::2] for b in without[p]} != {a[::2] for a in hooked[p]}]
        for seen, more in ((without, observe(faulty, pairs)), (hooked, observe_hooked(faulty, pairs))):
            for p in pairs:
                seen[p] += more[p]
    differing = [(p, d) for p in pairs for d in differences(without[p], hooked[p])]
    assert not differing, "\n".join(f"{p}: {d}" for p, d in differing)


def differences(without: list[Seen], hooked: list[Seen]) -> list[str]:
    """The outcomes that one side has in more than a quarter of its calls and the other side never."""
    counts = [collections.Counter(s[::2] for s in seen) for seen in (without, hooked)]
    return [
        f"{n} of {len(without)} calls {side} the hook, none {other}: {seen}"
        for mine, yours, side, other in ((*counts, "without", "with"), (*reversed(counts), "with", "without"))
        for seen, n in mine.items()
        if n > len(without) // 4 and not yours[seen]
    ]


def show(without: dict[Pair, list[Seen]], hooked: dict[Pair, list[Seen]]) -> None:
    """Prints the time that the hook adds to the calls and to those that follow, in milliseconds, of the pairs to which it adds the most."""
    rows = []
    for (client, fault), before in without.items():
        added = []
        for i in (1, 3):
            d = [1000 * (b - a) for a, b in zip(sorted(s[i] for s in before), sorted(s[i] for s in hooked[client, fault]))]
            added += [d[ROUNDS // 2], d[-1]]
        rows.append((max(added), f"{client:20} {fault:14}" + "".join(f"{a:{w}.1f}" for a, w in zip(added, (11, 7, 11, 7)))))
    print(f"\nadded by the hook, ms               call: p50  worst   next: p50  worst   (10 of {len(rows)})")
    for _, row in sorted(rows, reverse=True)[:10]:
        print(row)
