"""NATS outages, full memory, forks, threads and process exit."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import httpx
import pytest
from conftest import HERE, Message, Nats
from provider import ANSWER, BODY, CLIENTS, EVENTS, Provider, wait_until

import llmtap
from llmtap import _hook


def start(nats: Nats, provider: Provider, **more: Any) -> None:
    llmtap.instrument(**{"url": nats.url, "service": "svc", "capture": "full", "hosts": [provider.host], **more})


def call(provider: Provider, what: str = "ok") -> None:
    CLIENTS["httpx"](provider.url(what))


def gapless(messages: list[Message]) -> None:
    assert [int(m["Llmtap-Seq"]) for m in messages] == list(range(1, len(messages) + 1))


def test_nats_down_at_start(stopped_nats: Nats, provider: Provider) -> None:
    start(stopped_nats, provider)
    for _ in range(20):
        call(provider)
    assert not llmtap.flush(0.05) and llmtap.stats().pending == 40
    stopped_nats.start()
    assert llmtap.flush(20)
    messages = stopped_nats.messages()
    assert len(messages) == 40
    gapless(messages)


def test_nats_restarts(stopped_nats: Nats, provider: Provider) -> None:
    """No event is lost, duplicated or out of order."""
    stopped_nats.start()
    start(stopped_nats, provider)
    for _ in range(3):
        for _ in range(10):
            call(provider)
        assert llmtap.flush(20)
        stopped_nats.stop()
        for _ in range(10):
            call(provider)
        stopped_nats.start()
    assert llmtap.flush(20)
    messages = stopped_nats.messages()
    assert len(messages) == 120 and llmtap.stats()[:3] == (60, 120, 0)
    gapless(messages)


def test_nats_cut_off(nats_server: Nats, provider: Provider) -> None:
    """A server that is cut off from the network does not close the connection. The hook goes on with the next server."""
    cut = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def forward(source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(1 << 16):
            if not cut.is_set():
                target.sendall(data)
        target.close()

    def accept() -> None:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", nats_server.port))
        for ends in (client, server), (server, client):
            threading.Thread(target=forward, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    address = f"127.0.0.1:{nats_server.port}"
    cut_off = nats_server.url.replace(address, f"127.0.0.1:{listener.getsockname()[1]}")
    start(nats_server, provider, url=f"{cut_off},{nats_server.url}")
    call(provider)
    assert llmtap.flush(20)
    cut.set()
    call(provider)
    assert llmtap.flush(30)
    listener.close()
    assert len(nats_server.messages()) == 4


def test_full_memory(stopped_nats: Nats, provider: Provider) -> None:
    """The oldest exchanges are dropped, both halves; each is counted, and sequence numbers show the gaps."""
    start(stopped_nats, provider, memory_limit=1 << 20)
    body = b'{"x":"' + b"x" * 50_000 + b'"}'
    for _ in range(60):
        CLIENTS["httpx"](provider.url("ok"), body=body)
        assert llmtap.stats().bytes <= 1 << 20
    dropped = llmtap.stats().dropped
    assert 35 < dropped < 60
    stopped_nats.start()
    assert llmtap.flush(20)
    messages = stopped_nats.messages()
    # One exchange may have been in flight.
    assert len(messages) == 2 * (60 - dropped) and messages[-1]["Llmtap-Seq"] == "120"
    assert messages[-1]["Llmtap-Dropped"] == str(dropped)
    assert {m["Llmtap-Exchange"] for m in messages[::2]} == {m["Llmtap-Exchange"] for m in messages[1::2]}
    s = llmtap.stats()
    assert (s.published, s.dropped, s.pending, s.bytes, s.open) == (60 - dropped, dropped, 0, 0, 0)


def test_too_large_for_the_memory(nats_server: Nats, provider: Provider) -> None:
    start(nats_server, provider, memory_limit=1 << 20)
    call(provider, "big")
    call(provider)
    assert llmtap.flush(10)
    messages = nats_server.messages()
    assert len({m["Llmtap-Exchange"] for m in messages if m["Llmtap-Status"]}) == 1
    assert messages[-1]["Llmtap-Dropped"] == "1" and messages[-1].data == ANSWER


def test_cut(nats_server: Nats, provider: Provider) -> None:
    """A body over 16 MiB is stubbed to its first and last 256 KiB."""
    start(nats_server, provider)
    body = b"<" + b"a" * (17 << 20) + b">"
    CLIENTS["httpx"](provider.url("ok"), body=body, timeout=60)
    CLIENTS["httpx"](provider.url("ok"), body=iter([body[i : i + 99_999] for i in range(0, len(body), 99_999)]), timeout=60)
    assert llmtap.flush(10)
    messages = nats_server.messages()
    requests = [m for m in messages if m["Llmtap-Url"]]
    assert {m["Llmtap-Capture"] for m in requests} == {"cut"}
    half = 256 << 10
    assert [m.data for m in requests] == [body[:half] + body[-half:]] * 2


def test_many_threads(nats_server: Nats, provider: Provider) -> None:
    start(nats_server, provider)

    def work(n: int) -> None:
        for i in range(20):
            with llmtap.context(conversation=f"c{n}", stage=f"s{i}"):
                call(provider)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert llmtap.flush(20)
    messages = nats_server.messages()
    assert len(messages) == 320 and llmtap.stats().published == 160
    gapless(messages)
    for n in range(8):
        stages = [m["Llmtap-Stage"] for m in messages if m["Llmtap-Conversation"] == f"c{n}" and m["Llmtap-Url"]]
        assert stages == [f"s{i}" for i in range(20)]


def test_cancelled(nats_server: Nats, provider: Provider) -> None:
    """A cancellation by the agent is distinguished from a timeout of the client."""
    start(nats_server, provider)

    async def main() -> None:
        async with httpx.AsyncClient() as c:
            received = b""

            async def post(what: str) -> None:
                nonlocal received
                async with c.stream("POST", provider.url(what), content=BODY) as r:
                    async for chunk in r.aiter_raw():
                        received += chunk

            for what, until in ("hang", b""), ("slow", b"".join(EVENTS[:2])):
                before = llmtap.stats()
                task = asyncio.ensure_future(post(what))
                while llmtap.stats().pending + llmtap.stats().events < before.pending + before.events + 1 or received != until:
                    await asyncio.sleep(0.005)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    assert llmtap.flush(10)
    responses = nats_server.messages()[1::2]
    assert [m["Llmtap-Error"] for m in responses] == ["cancelled by the agent"] * 2
    assert responses[1].data == b"".join(EVENTS[:2])


def test_abandoned(nats_server: Nats, provider: Provider) -> None:
    """A response that is neither read nor closed ends when the garbage collector finds it."""
    start(nats_server, provider)
    c = httpx.Client()
    r = c.send(c.build_request("POST", provider.url("slow"), content=BODY), stream=True)
    assert llmtap.stats().open == 1
    del r
    c._transport = c._mounts = None  # type: ignore[assignment]
    import gc

    gc.collect()
    assert wait_until(lambda: llmtap.stats().open == 0)
    assert llmtap.flush(10)
    assert nats_server.messages()[1]["Llmtap-Error"] == "neither read to its end nor closed"


def test_run_and_tools(nats_server: Nats, provider: Provider) -> None:
    start(nats_server, provider)
    with llmtap.tool("call_0"):
        pass  # before any call: not published
    with llmtap.run() as run_id, llmtap.context(conversation="c"):
        call(provider)
        with llmtap.tool("call_1"):
            pass
        with pytest.raises(ZeroDivisionError), llmtap.tool("call_2"):
            1 / 0  # noqa: B018

        @llmtap.tool(argument="tool_call_id")
        def work(path: str, tool_call_id: str) -> str:
            return path

        assert work("x", "call_3") == "x"
    with pytest.raises(ValueError), llmtap.run("run-2"):
        raise ValueError

    @llmtap.run()
    async def agent() -> None:
        pass

    asyncio.run(agent())
    assert llmtap.flush(10)
    messages = nats_server.messages()
    exchange = messages[1]["Llmtap-Exchange"]
    steps = [(m["Llmtap-Tool-Call-Id"] or "run", m["Llmtap-Tool-Status"] or m["Llmtap-Run-Status"]) for m in messages if not m["Llmtap-Capture"]]
    assert steps == [
        ("run", "started"),
        ("call_1", "started"),
        ("call_1", "ok"),
        ("call_2", "started"),
        ("call_2", "error"),
        ("call_3", "started"),
        ("call_3", "ok"),
        ("run", "ok"),
        ("run", "started"),
        ("run", "error"),
        ("run", "started"),
        ("run", "ok"),
    ]
    assert {m["Llmtap-Exchange"] for m in messages if m["Llmtap-Tool-Status"]} == {exchange}
    assert {m["Llmtap-Run"] for m in messages[:10]} == {run_id}
    assert messages[0]["Nats-Msg-Id"] == f"{run_id}.started" and messages[3]["Nats-Msg-Id"] == f"call_1.{exchange}.started"


def test_labels_travel(nats_server: Nats, provider: Provider) -> None:
    start(nats_server, provider)
    ctx = llmtap.context(stage="outer", conversation="c1")

    @llmtap.context(stage="generator")
    def generator() -> Any:
        call(provider)
        yield 1

    @ctx
    def decorated() -> None:
        call(provider)

    async def main() -> None:
        await asyncio.gather(*[asyncio.to_thread(in_stage, f"t{i}") for i in range(3)])

    def in_stage(stage: str) -> None:
        with ctx, llmtap.context(stage=stage):
            call(provider)

    with ctx:
        call(provider)
        with llmtap.context(stage="inner"):
            call(provider)
            thread = threading.Thread(target=llmtap.bind(lambda: call(provider)))
            thread.start()
            thread.join()
            thread = threading.Thread(target=lambda: call(provider))
            thread.start()
            thread.join()
        call(provider)
    decorated()
    list(generator())
    call(provider)
    asyncio.run(main())
    assert llmtap.flush(10)
    stages = [m["Llmtap-Stage"] for m in nats_server.messages() if m["Llmtap-Url"]]
    assert stages[:8] == ["outer", "inner", "inner", "", "outer", "outer", "generator", ""]
    assert sorted(stages[8:]) == ["t0", "t1", "t2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork(nats_server: Nats, provider: Provider) -> None:
    start(nats_server, provider)
    call(provider)
    assert llmtap.flush(10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            call(provider)
            call(provider)
            ok = llmtap.flush(10) and llmtap.stats()[:2] == (2, 4)
            status = 0 if ok else 2
        finally:
            os._exit(status)
    call(provider)
    assert os.waitpid(child, 0)[1] == 0
    assert llmtap.flush(10) and llmtap.stats()[:2] == (2, 4)
    by: dict[str, list[Message]] = {}
    for m in nats_server.messages():
        by.setdefault(m["Llmtap-Instance"], []).append(m)
    assert sorted(len(ms) for ms in by.values()) == [4, 4]
    for ms in by.values():
        gapless(ms)


def test_workers(nats_server: Nats, provider: Provider) -> None:
    """Workers of multiprocessing publish before they exit, although they exit without atexit."""
    start(nats_server, provider)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=call, args=(provider,)) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(30)
    assert len({m["Llmtap-Instance"] for m in nats_server.messages()}) == 3
    assert len(nats_server.messages()) == 6


AGENT = """
    import atexit, time
    atexit.register(lambda: print(time.monotonic() - began))  # before the hook registers, hence called after it
    import sys, httpx, llmtap
    llmtap.instrument(url=sys.argv[1], service="svc", capture="full", hosts=[sys.argv[2]])
    httpx.post("http://" + sys.argv[2] + "/ok/v1/chat/completions", content=b"{}")
    c = httpx.Client()
    r = c.send(c.build_request("POST", "http://" + sys.argv[2] + "/slow/v1/chat/completions", content=b"{}"), stream=True)
    next(r.iter_raw())
    began = time.monotonic()
"""


def run_agent(url: str, provider: Provider) -> float:
    """Returns how many seconds the hook took at the exit."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(AGENT), url, provider.host], env=env, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return float(done.stdout)


def test_exit(nats_server: Nats, provider: Provider) -> None:
    run_agent(nats_server.url.replace("127.0.0.1", "localhost"), provider)
    messages = nats_server.messages()
    assert [m["Llmtap-Error"] for m in messages] == ["", "", "", "the process exited before the response ended"]
    gapless(messages)


def test_exit_without_nats(provider: Provider) -> None:
    """The exit waits for flush_timeout and no longer."""
    assert 2 <= run_agent("nats://127.0.0.1:1", provider) < 15


def test_uninstrument(nats_server: Nats, provider: Provider) -> None:
    before = httpx.HTTPTransport.handle_request
    start(nats_server, provider)
    assert httpx.HTTPTransport.handle_request is not before
    start(nats_server, provider)  # changes nothing
    call(provider)
    llmtap.uninstrument()
    assert httpx.HTTPTransport.handle_request is before
    call(provider)
    assert len(nats_server.messages()) == 2
    start(nats_server, provider)
    call(provider)
    assert llmtap.flush(10) and len(nats_server.messages()) == 4


def test_on_published(nats_server: Nats, provider: Provider) -> None:
    told: list[str] = []

    def on_published(exchange: str) -> None:
        told.append(exchange)
        if len(told) == 1:
            raise ValueError("the agent's")

    start(nats_server, provider, on_published=on_published)
    for _ in range(5):
        call(provider)
    llmtap.uninstrument()
    assert told == [m["Llmtap-Exchange"] for m in nats_server.messages()[::2]]


def test_internal_errors(nats_server: Nats, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error of the hook is counted and does not affect the call of the agent."""
    from llmtap import _capture, _exchange, _hosts, _queue

    start(nats_server, provider)

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("an internal error")

    methods = [
        (_hosts.Hosts, "target"),
        (_exchange.Exchange, "request"),
        (_exchange.Exchange, "responded"),
        (_capture.Capture, "write"),
        (_queue.Queue, "push"),
    ]
    for owner, name in methods:
        with monkeypatch.context() as m:
            m.setattr(owner, name, broken)
            before = llmtap.stats().errors
            for client in CLIENTS.values():
                assert client(provider.url("ok")) == (200, ANSWER)
            in_pieces = 3 if name == "request" else 0  # clients over http.client send the headers first
            assert llmtap.stats().errors >= before + len(CLIENTS) - in_pieces, name
            assert llmtap.stats().open == 0, name  # the calls are forgotten


def test_no_files(nats_server: Nats, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's threads read no files after instrument()."""
    opened: list[Any] = []
    start(nats_server, provider, capture="shape")
    monkeypatch.setattr("builtins.open", lambda *args, **kwargs: opened.append(args))
    with llmtap.context(attrs={"long": "x" * 5000}):
        for what in ("ok", "400", "reset"):
            with contextlib.suppress(httpx.HTTPError):
                call(provider, what)
    assert llmtap.flush(10) and not opened
    assert llmtap.stats().errors == 0 and nats_server.messages()[3].data.startswith(b'{"error": {"message": "bad key sk-***')


def test_heartbeats(nats_server: Nats, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process says that it is alive, after its first event, and that it ends."""
    monkeypatch.setattr(_hook, "HEARTBEAT_INTERVAL", 0.2)
    start(nats_server, provider)
    time.sleep(0.5)
    assert not nats_server.messages()
    call(provider)
    assert llmtap.flush(5)
    wait_until(lambda: len(nats_server.messages()) >= 4, 10)
    llmtap.uninstrument()
    messages = nats_server.messages()
    gapless(messages)
    beats = [m for m in messages if m.subject.startswith("llmtap.v1.hook.svc.")]
    assert [m["Llmtap-Hook-Status"] for m in beats] == ["alive"] * (len(messages) - 3) + ["ended"]
    assert len({m["Nats-Msg-Id"] for m in beats}) == len(beats) and not any(m.data for m in beats)
