"""Each client observes the same as without the hook, and each call becomes two messages."""

from __future__ import annotations

import array
import http.client
import io
import re
from typing import Any, Callable

import pytest
from conftest import Message, Nats
from provider import ANSWER, BODY, CLIENTS, ERROR, EVENTS, GARBAGE, Call, Provider

import llmtap

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(params=list(CLIENTS))
def client(request: Any) -> Call:
    return CLIENTS[request.param]


def start(nats: Nats, provider: Provider, capture: str = "full", **more: Any) -> None:
    llmtap.instrument(url=nats.url, service="svc", service_version="1.2.3", capture=capture, hosts=[provider.host], **more)


def halves(nats: Nats) -> tuple[Message, Message]:
    assert llmtap.flush(10)
    assert llmtap.stats().errors == 0
    request, response = nats.messages()
    return request, response


def test_unary(nats_server: Nats, provider: Provider, client: Call) -> None:
    start(nats_server, provider, agent="planner-agent", environment="test")
    with llmtap.context(conversation="conv-1", stage="规划", run="run-1", user="anna@example.com", attrs={"tenant": "t1", "Not A Key": "x"}):
        assert client(provider.url("ok")) == (200, ANSWER)
    request, response = halves(nats_server)
    assert (request.data, response.data) == (BODY, ANSWER)
    exchange = request["Llmtap-Exchange"]
    assert re.fullmatch(ID, exchange)
    ms, when = r"\d+(\.\d{1,6})?", r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z"
    both = {
        "Llmtap-Time": when,
        "Llmtap-Exchange": exchange,
        "Llmtap-Service": "svc",
        "Llmtap-Service-Version": "1.2.3",
        "Llmtap-Environment": "test",
        "Llmtap-Agent": "planner-agent",
        "Llmtap-Stage": "%E8%A7%84%E5%88%92",
        "Llmtap-Conversation": "conv-1",
        "Llmtap-Run": "run-1",
        "Llmtap-User": "[0-9a-f]{16}",
        "Llmtap-Instance": ID.replace("-7", "-4"),
        "Llmtap-Attr-tenant": "t1",
        "Llmtap-Capture": "full",
        "Llmtap-Origin": "hook",
        "Content-Type": "application/json",
        "Llmtap-Sdk": r"python/\d+\.\d+\.\d+",
    }
    of_request = {
        "Nats-Msg-Id": exchange + r"\.q\.1",
        "Llmtap-Seq": "1",
        "Llmtap-Url": f"http://{provider.host}/ok/v1/chat/completions",
        "Llmtap-Method": "POST",
        "Llmtap-Account": "[0-9a-f]{8}",
        "Llmtap-Retry": "1",
        "Llmtap-Code": r"(tests/)?provider\.py:\d+ \S+",
    }
    of_response = {
        "Nats-Msg-Id": exchange + r"\.s\.1",
        "Llmtap-Seq": "2",
        "Llmtap-Status": "200",
        "Llmtap-Duration-Ms": ms,
        "Llmtap-First-Byte-Ms": ms,
    }
    for message, own in ((request, of_request), (response, of_response)):
        want = {**both, **own}
        assert message.headers.keys() == want.keys()
        for key, pattern in want.items():
            assert re.fullmatch(pattern, message.headers[key]), (key, message.headers[key])
    assert request.subject == f"llmtap.v1.request.svc.{request.subject[-2:]}" and response.subject[-2:] == request.subject[-2:]


@pytest.mark.parametrize("how", ["read", "stream"])
@pytest.mark.parametrize("what", ["ok", "big", "garbage", "stream", "gzip", "br", "deflate", "gzipstream"])
def test_bytes(nats_server: Nats, provider: Provider, client: Call, what: str, how: str) -> None:
    want = {"big": ANSWER[:-1] + b" " * (2 << 20) + b"}", "garbage": GARBAGE, "stream": b"".join(EVENTS), "gzipstream": b"".join(EVENTS)}.get(
        what, ANSWER
    )
    start(nats_server, provider)
    assert client(provider.url(what), how=how) == (200, want)
    assert llmtap.flush(10)
    messages = nats_server.messages()
    assert messages[0].data == BODY
    data = b"".join(m.data for m in messages[1:])
    assert messages[-1]["Llmtap-Error"] == ""
    if what == "big":
        assert [m["Llmtap-Part"] for m in messages[1:]] == [f"{i}/5" for i in range(1, 6)]
        assert {m["Llmtap-Body-Bytes"] for m in messages[1:]} == {str(len(want))}
        assert {m["Llmtap-Seq"] for m in messages[1:]} == {"2"}
    if messages[1]["Content-Encoding"] == "gzip":
        import gzip

        data = gzip.decompress(data)
    assert data == want


@pytest.mark.parametrize("capture", ["full", "shape", "none"])
@pytest.mark.parametrize("status", [400, 429, 500])
def test_errors(nats_server: Nats, provider: Provider, client: Call, capture: str, status: int) -> None:
    start(nats_server, provider, capture)
    assert client(provider.url(str(status))) == (status, ERROR)
    _, response = halves(nats_server)
    assert response["Llmtap-Status"] == str(status) and response["Llmtap-Provider-Request-Id"] == "req_1"
    assert response.data == ERROR.replace(b"sk-aB3dE5gH7jK9mN1pQrS2", b"sk-***")


@pytest.mark.parametrize("capture", ["shape", "none"])
def test_capture(nats_server: Nats, provider: Provider, client: Call, capture: str) -> None:
    start(nats_server, provider, capture)
    assert client(provider.url("gzip")) == (200, ANSWER)
    request, response = halves(nats_server)
    for m in (request, response):
        assert m["Llmtap-Capture"] == capture
        assert "你好".encode() not in m.data and "规划".encode() not in m.data
    if capture == "none":
        assert (request.data, response.data) == (b"", b"")
    else:
        assert request.data.startswith(b'{"model":"gpt-5","messages":[{"role":"user","content":"~6:') and response["Content-Encoding"] == ""
        assert response.data.startswith(b'{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","content":"~16:')


def test_reset(nats_server: Nats, provider: Provider, client: Call) -> None:
    start(nats_server, provider)
    with pytest.raises(Exception):  # noqa: B017
        client(provider.url("reset"))
    _, response = halves(nats_server)
    assert response["Llmtap-Status"] == "0" and response["Llmtap-Error"] and "cancelled" not in response["Llmtap-Error"]
    assert "topsecret" not in str(response)


def test_no_connection(nats_server: Nats, client: Call, request: Any) -> None:
    llmtap.instrument(url=nats_server.url, service="svc", capture="full", hosts=["127.0.0.1:1"])
    with pytest.raises(Exception):  # noqa: B017
        client("http://127.0.0.1:1/v1/chat/completions?key=topsecret")
    sent, response = halves(nats_server)
    if request.node.callspec.params["client"] in ("http.client", "urllib", "urllib3"):  # connects before it passes the body on
        assert sent.data == b"" and sent["Llmtap-Degraded"] == "1"
    else:
        assert sent.data == BODY
    assert response["Llmtap-Status"] == "0" and response["Llmtap-Error"]
    assert "topsecret" not in str(response)


@pytest.mark.parametrize("what", ["hang", "slow"])
def test_timeout(nats_server: Nats, provider: Provider, client: Call, what: str) -> None:
    start(nats_server, provider)
    with pytest.raises(Exception):  # noqa: B017
        client(provider.url(what), timeout=0.4, how="stream")
    _, response = halves(nats_server)
    why = response["Llmtap-Error"].lower()
    assert "timeout" in why or "timed out" in why
    assert response["Llmtap-Status"] == ("0" if what == "hang" else "200")
    assert response.data == (b"" if what == "hang" else b"".join(EVENTS[:2]))


def test_cut(nats_server: Nats, provider: Provider, client: Call) -> None:
    """A stream whose connection breaks off."""
    start(nats_server, provider)
    with pytest.raises(Exception):  # noqa: B017
        client(provider.url("cut"), how="stream")
    _, response = halves(nats_server)
    assert response.data == b"".join(EVENTS[:2]) and response["Llmtap-Status"] == "200" and response["Llmtap-Error"]


def test_closed(nats_server: Nats, provider: Provider, client: Call) -> None:
    """A stream that the agent closes early."""
    start(nats_server, provider)
    status, got = client(provider.url("slow"), how="close")
    _, response = halves(nats_server)
    assert status == 200 and got.startswith(EVENTS[0])
    assert response["Llmtap-Error"] == "closed before the end of the body" and response.data.startswith(EVENTS[0])


@pytest.mark.parametrize("what", ["400", "errorstream"])
def test_unread_error(nats_server: Nats, provider: Provider, client: Call, what: str, request: Any) -> None:
    """SDKs that retry discard error responses unread, but their text is the evidence."""
    start(nats_server, provider)
    client(provider.url(what), how="unread")
    llmtap.uninstrument()
    messages = nats_server.messages()
    assert len(messages) == 2
    if request.node.callspec.params["client"] != "requests":  # urllib3 releases the connection immediately
        assert messages[1].data == ERROR.replace(b"sk-aB3dE5gH7jK9mN1pQrS2", b"sk-***")


def test_redirect(nats_server: Nats, provider: Provider, client: Call) -> None:
    """Each request of a redirect is a call."""
    start(nats_server, provider)
    assert client(provider.url("redirect")) == (200, ANSWER)
    assert llmtap.flush(10)
    assert [m["Llmtap-Status"] for m in nats_server.messages()] == ["", "307", "", "200"]


def test_body_in_pieces(nats_server: Nats, provider: Provider) -> None:
    def pieces() -> Any:
        yield BODY[:10]
        yield BODY[10:]

    start(nats_server, provider)
    for name in ("httpx", "httpx2", "requests"):
        assert CLIENTS[name](provider.url("ok"), body=pieces()) == (200, ANSWER)
    assert llmtap.flush(10)
    messages = nats_server.messages()
    assert [m.data for m in messages[::2]] == [BODY] * 3
    assert not any(m["Llmtap-Degraded"] for m in messages)


BODIES: dict[str, Callable[[], Any]] = {
    "bytearray": lambda: bytearray(BODY),
    "memoryview": lambda: memoryview(BODY),
    "array": lambda: array.array("B", BODY),
    "pieces": lambda: iter([BODY[:10], bytearray(BODY[10:20]), array.array("B", BODY[20:])]),
    "file": lambda: io.BytesIO(BODY),
    "text file": lambda: io.StringIO(BODY.decode("latin-1")),
}


@pytest.mark.parametrize("kind", list(BODIES))
@pytest.mark.parametrize("name", ["http.client", "urllib3"])
def test_bodies(nats_server: Nats, provider: Provider, name: str, kind: str) -> None:
    """Bodies of every type that http.client sends."""
    start(nats_server, provider)
    assert CLIENTS[name](provider.url("ok"), body=BODIES[kind]()) == (200, ANSWER)
    request, _ = halves(nats_server)
    want = {BODY, BODY.decode("latin-1").encode()} if (name, kind) == ("urllib3", "text file") else {BODY}  # urllib3 2 encodes as UTF-8
    assert request.data in want and not request["Llmtap-Degraded"]


@pytest.mark.parametrize("kind", list(BODIES))
def test_bodies_sent(nats_server: Nats, provider: Provider, kind: str) -> None:
    """The same, sent by the agent itself."""
    start(nats_server, provider)
    connection = http.client.HTTPConnection(provider.host, timeout=10)
    connection.putrequest("POST", "/ok/v1/chat/completions")
    connection.putheader("Content-Length", str(len(BODY)))
    connection.endheaders()
    connection.send(BODIES[kind]())
    assert connection.getresponse().read() == ANSWER
    connection.close()
    request, _ = halves(nats_server)
    assert request.data == BODY and not request["Llmtap-Degraded"]


def test_other_calls(nats_server: Nats, provider: Provider, client: Call) -> None:
    """Other hosts and methods are not recorded."""
    import httpx

    llmtap.instrument(url=nats_server.url, service="svc", hosts=["llm.example.com"])
    assert client(provider.url("ok")) == (200, ANSWER)
    llmtap.uninstrument()
    start(nats_server, provider)
    assert httpx.get(provider.url("ok")).status_code == 200
    assert llmtap.stats().pending == 0 and llmtap.flush(1)
    assert nats_server.messages() == []


def test_redact(nats_server: Nats, provider: Provider, client: Call) -> None:
    def redact(body: bytes) -> bytes:
        if b"choices" in body:
            raise ValueError("an error of the agent")
        return body.replace("你好".encode(), b"[greeting]")

    start(nats_server, provider, redact=redact)
    assert client(provider.url("ok")) == (200, ANSWER)
    request, response = halves(nats_server)
    assert request.data == BODY.replace("你好".encode(), b"[greeting]")
    assert response.data == b"" and response["Llmtap-Capture"] == "none"
