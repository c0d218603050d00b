"""gRPC channels to providers are counted and reported, because their calls are not captured."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Callable

import grpc
import pytest
from conftest import Nats
from provider import ANSWER, CLIENTS, Provider

import llmtap


def sync_channel(target: str) -> None:
    grpc.insecure_channel(target).close()


def secure_channel(target: str) -> None:
    grpc.secure_channel(target, grpc.ssl_channel_credentials()).close()


@pytest.mark.parametrize("open_channel", [sync_channel, secure_channel])
def test_uncaptured(nats_server: Nats, open_channel: Callable[[str], None], caplog: pytest.LogCaptureFixture) -> None:
    llmtap.instrument(url=nats_server.url, service="svc", hosts=["127.0.0.1:1"])
    for target in ("127.0.0.1:1", "dns:///api.x.ai:443", "us-central1-aiplatform.googleapis.com", "storage.googleapis.com", "127.0.0.1:2"):
        open_channel(target)
    stats = llmtap.stats()
    assert (stats.uncaptured, stats.errors, stats.open, stats.unrecorded) == (3, 0, 0, 0)
    llmtap.uninstrument()
    reports = [m for m in nats_server.messages() if m.subject.startswith("llmtap.v1.hook.svc.")]
    assert len(reports) == len(nats_server.messages()) and 1 <= len(reports) <= 3
    assert reports[-1].headers["Llmtap-Uncaptured"] == "3" and not reports[-1].data
    for host in ("127.0.0.1:1", "api.x.ai:443", "us-central1-aiplatform.googleapis.com"):
        assert len([m for m in caplog.messages if f"calls to {host} with grpc are" in m]) == 1


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
async def open_channel():
    await grpc.aio.insecure_channel("api.x.ai:443").close()
grpc.insecure_channel("api.x.ai:443").close()
import asyncio
asyncio.run(open_channel())
assert llmtap.stats().uncaptured == 2, llmtap.stats()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nats_down(stopped_nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    """A report that was not stored is no lost call."""
    llmtap.instrument(url=stopped_nats.url, service="svc", flush_timeout=0.1)
    sync_channel("api.x.ai:443")
    llmtap.uninstrument()
    assert not [m for m in caplog.messages if "discarded" in m]


def test_not_counted(nats_server: Nats) -> None:
    sync_channel("api.x.ai:443")  # no hook
    llmtap.instrument(url=nats_server.url, service="svc")
    llmtap.uninstrument()
    assert not hasattr(grpc.insecure_channel, "_llmtap")


@pytest.mark.parametrize("client", list(CLIENTS))
def test_captured_clients_are_not_counted(nats_server: Nats, provider: Provider, client: str) -> None:
    call: Any = CLIENTS[client]
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[provider.host])
    assert call(provider.url("ok")) == (200, ANSWER)
    assert llmtap.flush(10) and llmtap.stats().uncaptured == 0
    assert [m["Llmtap-Status"] for m in nats_server.messages()] == ["", "200"]  # once, however many layers are patched
