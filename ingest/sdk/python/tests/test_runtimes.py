"""Servers and tests that replace primitives of the standard library, before the hook is imported and after instrument(): every call is
published, at its real time, and the agent notices nothing."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import HERE, Nats
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from provider import Provider, wait_until

for package in ("blockbuster", "freezegun", "time_machine", "gevent", "eventlet", "pytest_socket", "langgraph_cli"):
    pytest.importorskip(package)

N = 12  # calls of an agent

# What replaces the primitives, in the agent.
PATCHES = {
    "blockbuster": "import blockbuster; blockbuster.BlockBuster().activate()",
    "freezegun": "import freezegun; freezegun.freeze_time('2001-01-01').start()",
    "time-machine": "import time_machine; time_machine.travel(0, tick=False).start()",
    "gevent": "import gevent.monkey; gevent.monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
    "pytest-socket": "import pytest_socket; pytest_socket.disable_socket()",
    "time.sleep": "import time; time.sleep = lambda seconds: 1 / 0",
    "none": "pass",
}

# The calls: some fail, and some responses are not read.
CALLS = {
    "http.client": """
        for i in range(N):
            connection.request("POST", ("/400" if i % 3 else "/ok") + PATH, b"{}", JSON)
            connection.getresponse().read()
    """,
    "asyncio": """
        import asyncio, aiohttp, httpx
        async def main():
            async with httpx.AsyncClient(verify=False) as c, aiohttp.ClientSession() as s:
                for i in range(N // 3):
                    await c.post(f"http://{host}/{'stream' if i % 2 else '400'}" + PATH, content=b"{}", headers=JSON)
                    try:
                        async with s.post(f"http://{host}/errorstream" + PATH, data=b"{}", headers=JSON, raise_for_status=True):
                            pass
                    except aiohttp.ClientResponseError:
                        pass
                    async with c.stream("POST", f"http://{host}/errorstream" + PATH, content=b"{}", headers=JSON):
                        pass
                while llmtap.stats().open:
                    await asyncio.sleep(0)
        asyncio.run(main())
    """,
    "green threads": """
        import threading, urllib.request, urllib.error, requests
        def work(i):
            if i % 2:
                requests.post(f"http://{host}/{'400' if i % 3 else 'ok'}" + PATH, data=b"{}", headers=JSON)
            else:
                try:
                    urllib.request.urlopen(urllib.request.Request(f"http://{host}/500" + PATH, b"{}", JSON)).read()
                except urllib.error.HTTPError as e:
                    e.read()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(N)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        while llmtap.stats().open:
            time.sleep(0.001)
    """,
}

KINDS = {"blockbuster": "asyncio", "freezegun": "http.client", "time-machine": "asyncio", "gevent": "green threads", "eventlet": "green threads"}


def agent(patch: str, first: bool) -> str:
    """An agent that imports the hook after the patch, or is patched after instrument()."""
    instrument = """
        import llmtap
        llmtap.instrument(service="svc", hosts=[host], capture="shape")
    """
    start = f"""
        import http.client, json, sys, time
        host, N, PATH, JSON = sys.argv[1], {N}, "/v1/chat/completions", {{"content-type": "application/json"}}
        connection = http.client.HTTPConnection(host)
        connection.connect()
    """
    if patch in ("gevent", "eventlet") and first:
        start = PATCHES[patch] + "\n" + textwrap.dedent(start)
    end = """
        assert llmtap.flush(20), llmtap.stats()
        print(json.dumps(llmtap.stats()._asdict()))
    """
    steps = [start, PATCHES[patch], instrument] if first else [start, instrument, PATCHES[patch]]
    return "\n".join(map(textwrap.dedent, (*steps, CALLS[KINDS.get(patch, "http.client")], end)))


def run(program: str, provider: Provider, **env: str) -> dict[str, Any]:
    """Runs an agent and returns its counters."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), **env}
    done = subprocess.run([sys.executable, "-c", program, provider.host], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "llmtap: " not in done.stderr and "Blocking" not in done.stderr, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def check(stats: dict[str, Any]) -> None:
    assert (stats["published"], stats["events"]) == (N, 2 * N)
    assert not any(stats[k] for k in ("dropped", "pending", "open", "bytes", "errors", "unrecorded"))


@pytest.mark.parametrize("first", [True, False], ids=["patched first", "patched later"])
@pytest.mark.parametrize("patch", list(PATCHES))
def test_nats(nats_server: Nats, provider: Provider, patch: str, first: bool) -> None:
    check(run(agent(patch, first), provider, LLMTAP_NATS_URL=nats_server.url))
    messages = nats_server.messages()
    assert len(messages) == 2 * N
    today = datetime.datetime.now(datetime.timezone.utc)
    for m in messages:
        when = datetime.datetime.fromisoformat(m["Llmtap-Time"][:19] + "+00:00")
        assert abs((today - when).total_seconds()) < 60
        assert float(m["Llmtap-Duration-Ms"] or 0) < 10_000
    errors = [m for m in messages if m["Llmtap-Status"] >= "400"]
    assert errors and all(b"sk-***" in m.data for m in errors)


class _Receiver(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        lines = self.rfile.read(int(self.headers["content-length"])).splitlines()
        self.server.events.extend(map(json.loads, lines))  # type: ignore[attr-defined]
        body = json.dumps({"accepted": len(lines), "rejected": [], "warnings": []}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    server.daemon_threads, server.events = True, []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A file with a certificate of 127.0.0.1, signed by itself, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "llmtap")])
    now, host = datetime.datetime.now(datetime.timezone.utc), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(hours=1))
    cert = builder.add_extension(x509.SubjectAlternativeName([host]), False).sign(key, hashes.SHA256())
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    path.write_bytes(
        cert.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.mark.parametrize("first", [True, False], ids=["patched first", "patched later"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("patch", list(PATCHES))
def test_endpoint(receiver: Any, certificate: pathlib.Path, provider: Provider, patch: str, scheme: str, first: bool) -> None:
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
    endpoint = f"{scheme}://127.0.0.1:{receiver.server_port}"
    check(run(agent(patch, first), provider, LLMTAP_ENDPOINT=endpoint, LLMTAP_CA_FILE=str(certificate)))
    assert len(receiver.events) == 2 * N


LOCKS = """
import gc
import llmtap
llmtap.instrument(service="svc", endpoint="http://127.0.0.1:1")
import eventlet
eventlet.monkey_patch()
from llmtap._original import Locked, RLock
locks = [type(o._lock) for o in gc.get_objects() if isinstance(o, Locked)]
assert locks and all(t is RLock for t in locks), locks
"""


def test_locks_stay() -> None:
    """eventlet replaces locks in attributes by those of greenlets, and the agent hung when the sender held one."""
    done = subprocess.run(
        [sys.executable, "-c", LOCKS], env={**os.environ, "PYTHONPATH": str(HERE.parent)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


GRAPH = """
import asyncio, os
import aiohttp, httpx, llmtap
from langgraph.graph import END, START, StateGraph

llmtap.instrument(service="svc", hosts=[os.environ["PROVIDER"]])
URL = "http://" + os.environ["PROVIDER"] + "/{}/v1/chat/completions"
JSON = {"content-type": "application/json"}

async def call(state: dict) -> dict:
    async with httpx.AsyncClient(verify=False) as c, aiohttp.ClientSession() as s:
        for what in ("ok", "400", "stream"):
            await c.post(URL.format(what), content=b"{}", headers=JSON)
            async with s.post(URL.format(what), data=b"{}", headers=JSON) as r:
                await r.read()
        async with c.stream("POST", URL.format("errorstream"), content=b"{}", headers=JSON):
            pass
        try:
            async with s.post(URL.format("reset"), data=b"{}", headers=JSON):
                pass
        except aiohttp.ClientError:
            pass
    return {"stats": []}

async def stats(state: dict) -> dict:
    while llmtap.stats().open:  # the unread error is read in the background
        await asyncio.sleep(0.01)
    flushed = await asyncio.to_thread(llmtap.flush, 20)
    return {"stats": [flushed, *llmtap.stats()]}

builder = StateGraph(dict)
builder.add_node("call", call)
builder.add_node("report", stats)
builder.add_edge(START, "call")
builder.add_edge("call", "report")
builder.add_edge("report", END)
graph = builder.compile()
"""


def test_langgraph_dev(nats_server: Nats, provider: Provider, tmp_path: pathlib.Path) -> None:
    """langgraph dev, which switches blockbuster on: its runtime forbids calls that block in threads with an event loop."""
    (tmp_path / "agent.py").write_text(GRAPH)
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}))
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "LLMTAP_NATS_URL": nats_server.url, "PROVIDER": provider.host}
    env.update(LANGSMITH_TRACING="false", LANGGRAPH_CLI_NO_ANALYTICS="1", NO_COLOR="1")
    args = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    log = tmp_path / "log.txt"
    with log.open("wb") as out:
        server = subprocess.Popen(args, cwd=tmp_path, env=env, stdout=out, stderr=out)
    try:
        url = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            try:
                return httpx.get(url + "/ok").status_code == 200
            except httpx.HTTPError:
                return False

        assert wait_until(ready, 90), log.read_text()
        for i in range(1, 11):
            answer = httpx.post(url + "/runs/wait", json={"assistant_id": "agent", "input": {"stats": []}}, timeout=300)
            flushed, published, events, dropped, pending, still_open, _, errors, *_ = answer.json()["stats"]
            assert (flushed, published, events, dropped, pending, still_open, errors) == (True, 8 * i, 16 * i, 0, 0, 0, 0), log.read_text()
    finally:
        server.terminate()
        server.wait(20)
    text = log.read_text()
    assert "Blocking" not in text and "llmtap:" not in text, text
    assert len(nats_server.messages()) == 160
