"""What the hook logs about NATS: where, why, and how many exchanges are lost; nothing while it works."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap

import pytest
from conftest import HERE, Nats
from provider import Provider

from llmtap._config import Config
from llmtap._report import Reporter, Unsent, display

AGENT = """
    import os, signal, sys, threading, httpx, llmtap
    llmtap.instrument(url=sys.argv[1], service="svc", capture="full", hosts=[sys.argv[2]], flush_timeout=float(sys.argv[3]),
                      nats_options={"connect_timeout": 60})  # a busy machine may take longer than two seconds for the calls
    with llmtap.run("run-1") if "run" in sys.argv[4] else llmtap.context():
        for _ in range(3):
            httpx.post("http://" + sys.argv[2] + "/ok/v1/chat/completions", content=b"{}")
    if "kill" in sys.argv[4]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))  # as the README recommends
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait()
"""


def run_agent(url: str, provider: Provider, flush: float, how: str = "") -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONWARNINGS": "error"}
    args = [sys.executable, "-c", textwrap.dedent(AGENT), url, provider.host, str(flush), how]
    done = subprocess.run(args, env=env, capture_output=True, timeout=300)
    return done.returncode, done.stderr.decode()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_silent_on_success(nats_server: Nats, provider: Provider, how: str) -> None:
    code, log = run_agent(nats_server.url, provider, 20, how)
    assert (code, log) == (7 if how == "kill" else 0, "")
    assert len(nats_server.messages()) == 6


@pytest.mark.parametrize("how", ["exit", "kill", "run"])
def test_lost_exchanges(provider: Provider, how: str) -> None:
    port = free_port()
    code, log = run_agent(f"nats://user:secret@127.0.0.1:{port}", provider, 1, how)
    assert code == (7 if how == "kill" else 0)
    first, last = log.splitlines()
    assert first.startswith(f"llmtap: cannot publish to NATS at nats://127.0.0.1:{port}, retrying; calls are kept in memory: ConnectionRefusedError")
    what = "3 exchanges and 2 run and tool events" if how == "run" else "3 exchanges"
    where = f"NATS at nats://127.0.0.1:{port} has not stored them"
    assert last.startswith(f"llmtap: {what} discarded at exit, {where}: ConnectionRefused")
    assert last.endswith("fix: run llmtap up, or set LLMTAP_NATS_URL")
    assert "secret" not in log


def test_exit_before_the_first_connection(provider: Provider) -> None:
    with socket.socket() as silent:  # accepts connections and never responds
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        code, log = run_agent(url, provider, 0.05)
    assert code == 0
    assert log == (
        f"llmtap: 3 exchanges discarded at exit, NATS at {url} has not stored them: "
        "no connection within 0.05 s; fix: run llmtap up, or set LLMTAP_NATS_URL\n"
    )


def test_interval(caplog: pytest.LogCaptureFixture) -> None:
    r = Reporter(Config(url="nats://token@a:4222, b", service="svc"))
    now = 0.0
    while now < 7 * 60:  # logged at 0, 1 and 3 minutes
        r.failed(OSError("refused"), True, now)
        now += 1
    assert len(caplog.messages) == 3 and "token" not in caplog.text and "nats://a:4222,nats://b" in caplog.text
    while now < 12 * 3600:  # in the end once an hour
        r.failed(OSError("refused"), True, now)
        now += 60
    assert 14 <= len(caplog.messages) <= 18
    caplog.clear()
    r.succeeded(5, now)
    r.succeeded(5, now)
    assert caplog.messages == ["llmtap: connected to NATS at nats://a:4222,nats://b after 43200.0 s, publishing; 5 exchanges were dropped"]
    caplog.clear()
    r.lost(Unsent(0, 0), 5, 1)
    assert not caplog.messages
    r.lost(Unsent(0, 0), 7, 1)
    assert caplog.messages == ["llmtap: 2 exchanges were dropped because memory was full or NATS rejected them"]


def test_grace(caplog: pytest.LogCaptureFixture) -> None:
    """NATS and the agent may start at the same time."""
    r = Reporter(Config(url="nats://a", service="svc"))
    r.failed(OSError("refused"), False, 10)
    r.succeeded(0, 11)
    assert not caplog.messages
    r.failed(OSError("refused"), False, 20)
    r.failed(OSError("refused"), False, 22)
    r.failed(OSError("refused"), True, 23)
    assert len(caplog.messages) == 1


def test_texts(caplog: pytest.LogCaptureFixture) -> None:
    r = Reporter(Config(url="nats://a", service="svc"))
    r.failed(asyncio.TimeoutError(), True, 0)
    r.denied(Exception("nats: permissions violation for publish to x"))
    r.failed(asyncio.TimeoutError(), True, 100)
    r.lost(Unsent(1, 0), 0, 1)
    assert "timed out; fix: run llmtap up" in caplog.messages[0]
    for m in caplog.messages[1:]:
        assert "permissions violation for publish to x; fix: permit the user to publish to llmtap.v1.*.svc.*" in m
    assert "llmtap: 1 exchange discarded" in caplog.messages[2]


def test_display() -> None:
    assert display("nats://u:p@h:1, tls://t@[::1]:2,h") == "nats://h:1,tls://[::1]:2,nats://h"
