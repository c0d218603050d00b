"""Subjects, header values and ids equal those of package ingest/sdk/go/event; the configuration equals that of the Go hook."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Callable

import pytest
from conftest import Nats

import llmtap
from llmtap import _event
from llmtap._capture import STUB_HALF, Capture
from llmtap._client import FastClient, Outgoing
from llmtap._config import Config, resource_attributes
from llmtap._endings import LastLine, Terminal
from llmtap._hosts import Hosts
from llmtap._queue import Queue

ALPHABET = ["a", "Z", "0", "-", "_", ".", " ", "%", "~", "\x00", "\n", "é", "规", "😀", "\x7f", "ab", "svc"]


def test_subjects_and_values(ask: Callable[..., list[Any]]) -> None:
    r = random.Random(1)

    def text(most: int) -> str:
        return "".join(r.choices(ALPHABET, k=r.randrange(most)))

    questions = [{"service": text(40), "agent": text(5), "conversation": text(4), "instance": text(9), "text": text(9)} for _ in range(3000)]
    questions += [{"text": "x" * n + tail} for n in range(505, 520) for tail in ("", " ", "é", "规规", "  y", "%")]
    questions += [{**q, "uncaptured": n, "hookStatus": ("", "alive", "ended")[n % 3], "seq": n * n} for n, q in enumerate(questions[:300], 1)]
    for q, (subject, stage, message_id, _, uncaptured, status) in zip(questions, ask(questions, "event")):
        labels = _event.Labels()
        labels.service, labels.agent, labels.conversation = q.get("service", ""), q.get("agent", ""), q.get("conversation", "")
        labels.run = labels.stage = q["text"]
        labels.instance = q.get("instance", "")
        ev = _event.Event(_event.HOOK if "uncaptured" in q else _event.RUN, labels)
        ev.step, ev.uncaptured, ev.seq = q.get("hookStatus", _event.OK), q.get("uncaptured", 0), q.get("seq", 0)
        headers = dict(line.split(": ", 1) for line in ev.headers().splitlines())
        assert ev.subject() == subject, q
        got = headers.get("Llmtap-Stage", ""), headers.get("Llmtap-Uncaptured", ""), headers.get("Llmtap-Hook-Status", "")
        assert got == (stage, uncaptured, status), q
        assert ev.message_id(1) == message_id, q


def test_times() -> None:
    assert _event.rfc3339(1_700_000_000_000_000_000) == "2023-11-14T22:13:20Z"
    assert _event.rfc3339(1_700_000_000_120_000_000) == "2023-11-14T22:13:20.12Z"
    assert [_event.millis(n) for n in (0, -5, 1, 1_500_000, 2_000_000_000, 10**18)] == ["0", "0", "0.000001", "1.5", "2000", "1000000000"]


def test_ids() -> None:
    r = random.Random()
    ids = [_event.uuid7(r) for _ in range(1000)]
    assert len(set(ids)) == 1000 and all(i[14] == "7" and i[19] in "89ab" and len(i) == 36 for i in ids)


def test_target() -> None:
    target = Hosts().target("https://user:secret@api.openai.com:443/v1/a%2Fb?key=secret#x", {})
    assert target is not None and target.url == "https://api.openai.com:443/v1/a%2Fb"


def test_configuration() -> None:
    c = Config()
    c.complete(
        {
            "OTEL_SERVICE_NAME": "shop",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=other, service.version=1%2E2,deployment.environment=prod,gen_ai.agent.name=buyer,bad=%zz",
            "LLMTAP_NATS_URL": "nats://a:4222, tls://b",
            "LLMTAP_SHAPE_KEY": "k",
        }
    )
    assert (c.service, c.service_version, c.environment, c.agent, c.capture) == ("shop", "1.2", "prod", "buyer", "shape")
    assert list(c.servers()) == ["nats://a:4222", "tls://b"] and c.user_key == c.shape_key == b"k"
    assert resource_attributes("a=b=c,x, =y") == {"a": "b=c", "": "y"}
    c = Config(service="given")
    c.complete({"LLMTAP_SERVICE": "run", "OTEL_SERVICE_NAME": "shop", "GITHUB_SHA": "0123456789abcdef"})
    assert c.service == "given" and c.user_key == b"" and len(c.shape_key) == 32
    assert c.service_version
    c = Config()
    c.complete({"LLMTAP_SERVICE": "run", "LLMTAP_SERVICE_VERSION": "3", "OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "service.version=1"})
    assert (c.service, c.service_version) == ("run", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capture": "all"}, "capture 'all': use"),
        ({"url": "http://x"}, "scheme 'http'"),
        ({"url": "nats://"}, "no host"),
        ({"url": "nats://u:secret@[::1"}, "invalid URL"),
        ({"memory_limit": 1}, "memory_limit: 1 bytes"),
        ({"flush_timeout": -1}, "flush_timeout"),
        ({"hosts": "llm.example.com"}, "hosts is a string"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".*") as e:
        llmtap.instrument(**arguments)
    assert message in str(e.value) and "secret" not in str(e.value)


def test_invalid_environment(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It does not stop the agent."""
    monkeypatch.setenv("LLMTAP_NATS_URL", "http://u:secret@x")
    llmtap.instrument()
    assert "LLMTAP_NATS_URL" in caplog.text and "secret" not in caplog.text
    assert llmtap.stats().errors == 0 and llmtap.flush(0.1)


def test_attrs() -> None:
    from llmtap import _context

    with llmtap.context(attrs={f"k{i}": "v" * 1000 for i in range(37)}):
        s = _context.current()
        assert len(s.attrs) == 32 and len(s.attrs["k0"]) == 512
        with llmtap.context(attrs={"k0": "changed", "new": "x"}, user=7):  # type: ignore[arg-type]
            assert _context.current().attrs["k0"] == "changed" and len(_context.current().attrs) == 32
            assert _context.current().user == "7"
        assert s.attrs["k0"] != "changed"

    class Nameless:
        def __str__(self) -> str:
            raise ValueError

    with llmtap.context(stage=Nameless()):  # type: ignore[arg-type]
        pass


def test_process_attrs(nats_server: Nats) -> None:
    llmtap.instrument(url=nats_server.url, service="svc", attrs={"region": "eu", "tenant": "default", "n": 7})
    with llmtap.run(), llmtap.context(attrs={"tenant": "acme"}), llmtap.run():
        pass
    assert llmtap.flush(10)
    found = [(m["Llmtap-Attr-region"], m["Llmtap-Attr-tenant"], m["Llmtap-Attr-n"]) for m in nats_server.messages()]
    assert found == [("eu", "default", "7"), ("eu", "acme", "7"), ("eu", "acme", "7"), ("eu", "default", "7")]
    for attrs in ({f"k{i}": "" for i in range(33)}, {"Not A Key": "x"}):
        with pytest.raises(ValueError, match="llmtap: attrs: "):
            Config(attrs=attrs).complete({})


STREAMS = [
    (b"data: {}\n\ndata: [DONE]\n\nrest", 24),
    (b"data:[DONE]\r\n\r\n", 15),
    (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', 51),
    (b'data: {"type":"response.completed","response":{"output":[' + b"1," * 99 + b"1]}}\n\nx", -2),
    (b"event: response.failed\ndata: {}\n\n", 33),
    (b"event: message-end\ndata: {}\n\ndata: [DONE]\n\n", 29),
    (b"data: [DONE] \n\n", -1),
    (b'data: {"text":"[DONE]"}\n\n', -1),
    (b"data: [DONE]\n", -1),
]


@pytest.mark.parametrize(("stream", "want"), STREAMS)
def test_terminal_event(stream: bytes, want: int) -> None:
    """With chunks of any size."""
    want = stream.rindex(b"\n\n") + 2 if want == -2 else want
    for size in (1, 2, 3, 7, 50, len(stream)):
        t, at, found = Terminal(), 0, -1
        while at < len(stream) and found < 0:
            n = t.feed(stream[at : at + size])
            found = at + n if n >= 0 else -1
            at += size
        assert found == want, size


def test_last_line() -> None:
    stream = b'{"message":{"content":"\\"done\\":true"},"done":false}\n{"done" : true,"eval_count":3}\n{}'
    for size in (1, 5, len(stream)):
        t, at, found = LastLine(), 0, -1
        while at < len(stream) and found < 0:
            n = t.feed(stream[at : at + size])
            found = at + n if n >= 0 else -1
            at += size
        assert found == stream.rindex(b"\n") + 1


@pytest.mark.parametrize("size", [1, 100_000, (16 << 20) - 1, 16 << 20, (16 << 20) + 1, 40 << 20])
@pytest.mark.parametrize("piece", [1 << 16, 300_001, 20 << 20])
def test_stub(size: int, piece: int) -> None:
    """A body over 16 MiB is stubbed to its first and last 256 KiB with pieces of any size, and releases its memory."""
    q = Queue(64 << 20, lambda: None)
    body = bytes(range(251)) * (size // 251 + 1)
    body = body[:size]
    c = Capture(q, 16 << 20)
    for at in range(0, size, piece):
        c.write(body[at : at + piece])
    cut = c.cut
    kept, reserved = c.take()
    assert cut == (size > 16 << 20)
    assert kept == (body[:STUB_HALF] + body[-STUB_HALF:] if cut else body)
    assert q.counts()[4] == reserved >= len(kept or b"")
    q.reserve(-reserved)
    assert q.counts()[4] == 0


def test_another_nats_py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the private attributes of nats-py, the client publishes as nats-py does."""
    sent = []

    async def publish(*message: Any) -> None:
        sent.append(message)

    c = FastClient()
    monkeypatch.setattr(c, "publish", publish)
    monkeypatch.delattr(c, "_transport", raising=False)
    m = Outgoing("llmtap.v1.request.svc.00", "_INBOX.svc.1", "Nats-Msg-Id: x.q.1\r\nLlmtap-Url: http://a: 1\r\n", b"{}")
    asyncio.run(c.send([m, m]))
    assert sent == [("llmtap.v1.request.svc.00", b"{}", "_INBOX.svc.1", {"Nats-Msg-Id": "x.q.1", "Llmtap-Url": "http://a: 1"})] * 2
    assert m.head() == (b"HPUB llmtap.v1.request.svc.00 _INBOX.svc.1 57 59\r\nNATS/1.0\r\nNats-Msg-Id: x.q.1\r\nLlmtap-Url: http://a: 1\r\n\r\n")
