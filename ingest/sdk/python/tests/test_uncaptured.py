"""Calls over gRPC, WebSockets and HTTP/3 are counted and reported, because they are not captured."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator

import aiohttp
import grpc
import pytest
import websocket
import websockets
from aioquic.h3.connection import H3Connection
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from conftest import Nats
from provider import ANSWER, CLIENTS, Provider
from websockets.sync.client import connect
from websockets.sync.server import serve

import llmtap

CHAT = "/google.ai.generativelanguage.v1beta.GenerativeService/"


@pytest.fixture(scope="module")
def grpc_server() -> Iterator[str]:
    """The address of a server that answers every method with the request."""

    class Echo(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            if "Stream" in details.method:
                return grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request, request]))
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request)

    with ThreadPoolExecutor(2) as workers:
        server = grpc.server(workers, handlers=[Echo()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None)


@pytest.fixture(scope="module")
def websocket_server() -> Iterator[str]:
    """The address of a server that sends every message back."""
    with serve(lambda ws: [ws.send(m) for m in ws], "127.0.0.1", 0) as server, ThreadPoolExecutor(1) as worker:
        worker.submit(server.serve_forever)
        yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


def report(server: Nats) -> dict[str, str]:
    """The headers of the newest report, which has no body."""
    llmtap.uninstrument()
    reports = [m for m in server.messages() if m.subject.startswith("llmtap.v1.hook.svc.")]
    assert len(reports) == len(server.messages()) > 0 and not reports[-1].data
    return reports[-1].headers


def test_grpc(nats_server: Nats, grpc_server: str, caplog: pytest.LogCaptureFixture) -> None:
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[grpc_server])

    class Passing(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            return continuation(details, request)

    with grpc.insecure_channel("dns:///" + grpc_server) as channel:
        assert type(channel).__name__ == "Channel" and isinstance(channel, grpc._channel.Channel)
        unary = channel.unary_unary(CHAT + "GenerateContent")
        assert unary(b"1") == b"1" and unary.with_call(b"2")[0] == b"2" and unary.future(b"3").result() == b"3"
        assert list(channel.unary_stream(CHAT + "StreamGenerateContent")(b"4")) == [b"4", b"4"]
        assert grpc.intercept_channel(channel, Passing()).unary_unary(CHAT + "GenerateContent")(b"5") == b"5"
        assert channel.unary_unary(CHAT + "CountTokens")(b"6") == b"6"  # calls no model

    async def calls() -> None:
        async with grpc.aio.insecure_channel(grpc_server) as channel:
            assert await channel.unary_unary("/xai_api.Chat/GetCompletion")(b"7") == b"7"
            assert [p async for p in channel.unary_stream(CHAT + "StreamGenerateContent")(b"8")] == [b"8", b"8"]
            assert await channel.unary_unary("/xai_api.Chat/GetDeferredCompletion")(b"9") == b"9"

    asyncio.run(calls())
    stats = llmtap.stats()
    assert (stats.uncaptured, stats.errors, stats.open, stats.unrecorded) == (7, 0, 0, 0)
    headers = report(nats_server)
    assert (headers["Llmtap-Uncaptured"], headers["Llmtap-Uncaptured-By"]) == ("7", "grpc=7")
    assert len([m for m in caplog.messages if f"calls to {grpc_server} over grpc are not recorded" in m and "rest" in m]) == 1


def test_other_channels(nats_server: Nats, grpc_server: str) -> None:
    """Channels to other hosts stay as they are."""
    llmtap.instrument(url=nats_server.url, service="svc")
    for target in (grpc_server, "storage.googleapis.com", "ipv4:10.0.0.7:443", "unix:/tmp/x"):
        with grpc.insecure_channel(target) as channel:
            assert type(channel) is grpc._channel.Channel
    for target in ("dns:///api.x.ai:443", "us-central1-aiplatform.googleapis.com"):
        with grpc.secure_channel(target, grpc.ssl_channel_credentials()) as channel:
            assert type(channel) is not grpc._channel.Channel
    assert llmtap.stats().uncaptured == llmtap.stats().errors == 0


def sync_websocket(url: str) -> str:
    with connect(url) as ws:
        ws.send("hello")
        return str(ws.recv())


def async_websocket(url: str, connect: Any = websockets.connect) -> str:
    async def call() -> str:
        async with connect(url) as ws:
            await ws.send("hello")
            return str(await ws.recv())

    return asyncio.run(call())


def legacy_websocket(url: str) -> str:
    return async_websocket(url, pytest.importorskip("websockets.legacy.client").connect)


def aiohttp_websocket(url: str) -> str:
    async def call() -> str:
        async with aiohttp.ClientSession(url.replace("ws:", "http:")) as session, session.ws_connect("/v1/realtime") as ws:
            await ws.send_str("hello")
            return str(await ws.receive_str())

    return asyncio.run(call())


def websocket_client(url: str) -> str:
    ws = websocket.create_connection(url)
    ws.send("hello")
    answer = str(ws.recv())
    ws.close()
    return answer


@pytest.mark.parametrize("call", [sync_websocket, async_websocket, legacy_websocket, aiohttp_websocket, websocket_client])
def test_websocket(nats_server: Nats, websocket_server: str, call: Callable[[str], str]) -> None:
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[websocket_server])
    assert call(f"ws://{websocket_server}") == "hello"
    assert llmtap.stats().errors == 0
    headers = report(nats_server)
    assert (headers["Llmtap-Uncaptured"], headers["Llmtap-Uncaptured-By"]) == ("1", "websocket=1")
    llmtap.instrument(url=nats_server.url, service="svc")
    assert call(f"ws://{websocket_server}") == "hello" and llmtap.stats().uncaptured == 0


def test_http3(nats_server: Nats) -> None:
    llmtap.instrument(url=nats_server.url, service="svc")
    quic = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=["h3"]))
    h3 = H3Connection(quic)
    for host, method in ((b"api.openai.com", b"POST"), (b"api.openai.com", b"GET"), (b"example.com", b"POST")):
        request = [(b":method", method), (b":scheme", b"https"), (b":authority", host), (b":path", b"/v1/responses")]
        h3.send_headers(stream_id=quic.get_next_available_stream_id(), headers=request, end_stream=True)
    assert llmtap.stats().errors == 0
    headers = report(nats_server)
    assert (headers["Llmtap-Uncaptured"], headers["Llmtap-Uncaptured-By"]) == ("1", "http3=1")


def test_urllib3_future(nats_server: Nats, provider: Provider) -> None:
    urllib3_future = pytest.importorskip("urllib3_future")
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[provider.host])
    pool = urllib3_future.PoolManager()
    assert pool.request("POST", provider.url("ok"), body=b"{}").status == 200
    pool.request("GET", provider.url("ok"))

    async def call() -> int:
        async with urllib3_future.AsyncPoolManager() as pool:
            return int((await pool.request("POST", provider.url("ok"), body=b"{}")).status)

    assert asyncio.run(call()) == 200 and llmtap.stats().errors == 0
    headers = report(nats_server)
    assert (headers["Llmtap-Uncaptured"], headers.get("Llmtap-Uncaptured-By")) == ("2", None)


@pytest.mark.parametrize("before", ["", "importlib.util.find_spec('grpc')", "llmtap.uninstrument(); instrument()"])
def test_imported_later(before: str) -> None:
    """instrument() does not import grpc, and notices when the agent does, which may look for it first."""
    code = f"""
import importlib.util, sys, llmtap
def instrument():
    llmtap.instrument(url="nats://127.0.0.1:1", service="svc", flush_timeout=0)
instrument()
{before}
assert "grpc" not in sys.modules
import grpc
assert grpc.__spec__.loader is grpc.__loader__ and type(grpc.__loader__).__name__ == "SourceFileLoader"
with grpc.insecure_channel("api.x.ai:443") as channel:
    channel.unary_unary("/xai_api.Chat/GetCompletion").future(b"").cancel()
assert "websockets.client" not in sys.modules
import websockets.client
assert hasattr(websockets.client.ClientProtocol.send_request, "_llmtap")
assert llmtap.stats().uncaptured == 1 and llmtap.stats().errors == 0, llmtap.stats()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_nats_down(stopped_nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    """A report that was not stored is no lost call."""
    llmtap.instrument(url=stopped_nats.url, service="svc", flush_timeout=0.1)
    with grpc.insecure_channel("api.x.ai:443") as channel:
        channel.unary_unary("/xai_api.Chat/GetCompletion").future(b"").cancel()
    assert llmtap.stats().uncaptured == 1
    llmtap.uninstrument()
    assert not [m for m in caplog.messages if "discarded" in m]


def test_uninstrumented(nats_server: Nats, grpc_server: str) -> None:
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[grpc_server])
    with grpc.insecure_channel(grpc_server) as channel:
        llmtap.uninstrument()
        assert channel.unary_unary(CHAT + "GenerateContent")(b"1") == b"1"
    assert not hasattr(grpc.insecure_channel, "_llmtap")
    assert llmtap.stats().uncaptured == 0


@pytest.mark.parametrize("client", list(CLIENTS))
def test_captured_clients_are_not_counted(nats_server: Nats, provider: Provider, client: str) -> None:
    call: Any = CLIENTS[client]
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[provider.host])
    assert call(provider.url("ok")) == (200, ANSWER)
    assert llmtap.flush(10) and llmtap.stats().uncaptured == 0
    assert [m["Llmtap-Status"] for m in nats_server.messages()] == ["", "200"]  # once, however many layers are patched
