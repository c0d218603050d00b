"""Calls over http.client are counted and reported, not captured."""

from __future__ import annotations

import http.client
import urllib.request
from typing import Any, Callable

import pytest
from conftest import Nats
from provider import ANSWER, BODY, CLIENTS, Provider, wait_until

import llmtap


def over_http_client(url: str) -> bytes:
    host, _, path = url.partition("://")[2].partition("/")
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("POST", "/" + path, BODY, {"Content-Type": "application/json"})
        return connection.getresponse().read()
    finally:
        connection.close()


def over_urllib(url: str) -> bytes:
    request = urllib.request.Request(url, BODY, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return bytes(response.read())


def over_urllib3(url: str) -> bytes:
    urllib3 = pytest.importorskip("urllib3")
    return bytes(urllib3.PoolManager().request("POST", url, body=BODY, headers={"Content-Type": "application/json"}).data)


@pytest.mark.parametrize("call", [over_http_client, over_urllib, over_urllib3])
def test_uncaptured(nats_server: Nats, provider: Provider, call: Callable[[str], bytes], caplog: pytest.LogCaptureFixture) -> None:
    url = provider.url("ok")
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[provider.host])
    for _ in range(3):
        assert call(url) == ANSWER
    stats = llmtap.stats()
    assert (stats.uncaptured, stats.errors, stats.open, stats.unrecorded) == (3, 0, 0, 0)
    llmtap.uninstrument()
    reports = [m for m in nats_server.messages() if m.subject.startswith("llmtap.v1.hook.svc.")]
    assert len(reports) == len(nats_server.messages()) and 1 <= len(reports) <= 3
    assert reports[-1].headers["Llmtap-Uncaptured"] == "3" and not reports[-1].data
    client = {over_urllib3: "urllib3.connection"}.get(call, "http.client")
    assert len([m for m in caplog.messages if f"calls to {provider.host} with {client} are" in m]) == 1


def test_nats_down(stopped_nats: Nats, provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    """A report that was not stored is no lost call."""
    llmtap.instrument(url=stopped_nats.url, service="svc", hosts=[provider.host], flush_timeout=0.1)
    over_http_client(provider.url("ok"))
    llmtap.uninstrument()
    assert not [m for m in caplog.messages if "discarded" in m]


def test_not_counted(nats_server: Nats, provider: Provider) -> None:
    url = provider.url("ok")
    over_http_client(url)  # no hook
    llmtap.instrument(url=nats_server.url, service="svc")
    over_http_client(url)  # unknown host
    assert llmtap.stats().uncaptured == 0
    llmtap.uninstrument()
    assert "_llmtap" not in vars(http.client.HTTPConnection.putrequest)


@pytest.mark.parametrize("client", list(CLIENTS))
def test_captured_clients_are_not_counted(nats_server: Nats, provider: Provider, client: str) -> None:
    call: Any = CLIENTS[client]
    llmtap.instrument(url=nats_server.url, service="svc", hosts=[provider.host])
    assert call(provider.url("ok")) == (200, ANSWER)
    assert llmtap.flush(10) and llmtap.stats().uncaptured == 0
    over_http_client(provider.url("ok"))
    assert call(provider.url("ok")) == (200, ANSWER)
    assert wait_until(lambda: any(m.headers.get("Llmtap-Uncaptured") == "1" and ".response." in m.subject for m in nats_server.messages()))
