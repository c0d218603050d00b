"""The endpoint that is used instead of NATS. The contract tests send events to one."""

from __future__ import annotations

import base64
import json
import re

import pytest

from llmtap import _endpoint, _event
from llmtap._config import Config, InvalidEnvironment

NATS, HTTPS = "nats://a:4222", "https://b"


def test_precedence() -> None:
    def check(want: tuple[str, str], config: Config, **env: str) -> None:
        config.complete({"LLMTAP_" + k: v for k, v in env.items()})
        assert (config.endpoint, config.token) == want

    check(("", ""), Config(), NATS_URL=NATS, TOKEN="t")
    check((HTTPS, "t"), Config(), NATS_URL=NATS, ENDPOINT=HTTPS, TOKEN="t")
    check((HTTPS, "u"), Config(endpoint=HTTPS, token="u"), ENDPOINT="https://c", TOKEN="t")
    check(("", ""), Config(url=NATS), ENDPOINT=HTTPS, TOKEN="t")


def test_invalid() -> None:
    def check(text: str, config: Config, kind: type[Exception] = ValueError, **env: str) -> None:
        with pytest.raises(kind, match=re.escape(text)):
            config.complete(env)

    check("llmtap: url, endpoint: both are set; keep one", Config(url=NATS, endpoint=HTTPS))
    check("endpoint: scheme 'nats' is not https or http", Config(endpoint=NATS))
    check("endpoint: no host", Config(endpoint="https://"))
    check("endpoint: user, query and fragment are not allowed", Config(endpoint="https://t@b"))
    check("endpoint: no host (LLMTAP_ENDPOINT)", Config(), InvalidEnvironment, LLMTAP_ENDPOINT="http:///x")


def test_encode() -> None:
    labels = _event.Labels()
    labels.service, labels.instance, labels.stage = "svc", "i", "规划".encode()[:4].decode("utf-8", "surrogateescape")
    ev = _event.Event(_event.RESPONSE, labels)
    ev.exchange, ev.time, ev.duration, ev.body = "x", 1_500_000_000, 1_250_000, b"\xff\x00"
    line = _endpoint.encode(ev)
    assert b"\n" not in line and "规".encode() + "划".encode()[:1] in line  # as in a header
    got = json.loads(line.decode("utf-8", "replace"))
    assert got["time"] == "1970-01-01T00:00:01.5Z" and got["status"] == 0 and got["duration_ms"] == 1.25 and got["first_byte_ms"] == 0
    assert base64.b64decode(got["body_base64"]) == ev.body and "seq" not in got and "error" not in got
    ev.body = '{"a": "é\\n\u2028"}'.encode()
    labels.stage = "规划"
    assert json.loads(_endpoint.encode(ev))["body"] == ev.body.decode()
