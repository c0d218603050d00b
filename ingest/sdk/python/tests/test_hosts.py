"""Which calls are recorded, and LLM calls to unknown hosts, which are only counted. The cases are those of the Go hook."""

from __future__ import annotations

import json
import logging
import pathlib
from typing import Any

import pytest
from conftest import Nats
from provider import ANSWER, CLIENTS, Call, Provider

import llmtap
from llmtap._config import Config, InvalidEnvironment
from llmtap._hosts import MAX_UNKNOWN, Hosts, parse_host

SPEC = json.loads((pathlib.Path(__file__).parents[2] / "testdata" / "hosts.json").read_text())
JSON = {"content-type": "application/json"}


def test_hosts() -> None:
    for case in SPEC["cases"]:
        if case.get("method", "POST") != "POST":
            continue  # the clients' patches check the method
        for source, arguments, env in (
            ("hosts", case.get("hosts", []), ""),
            ("LLMTAP_HOSTS", [], ", ".join(case.get("hosts", []))),
        ):
            config = Config(hosts=tuple(arguments))
            config.complete({"LLMTAP_HOSTS": env})
            h = Hosts(config.hosts)
            target = h.target(case["url"], {"content-type": case.get("type", "application/json")})
            got = "recorded" if target else "unrecorded" if h.unrecorded else "ignored"
            assert got == case["want"], (source, case)


def test_invalid_hosts(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in SPEC["invalid"]:
        with pytest.raises(ValueError):
            parse_host(host)
    with pytest.raises(ValueError, match="hosts: 'llm corp' is not a host"):
        Config(hosts=("llm corp",)).complete({})
    with pytest.raises(InvalidEnvironment, match="LLMTAP_HOSTS: 'llm corp' is not a host"):
        Config().complete({"LLMTAP_HOSTS": "a.corp,llm corp"})
    monkeypatch.setenv("LLMTAP_HOSTS", "llm corp")
    llmtap.instrument()  # the environment must not break the agent
    assert "calls are not recorded" in caplog.text


def test_unknown_hosts_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    h = Hosts()
    for i in range(3 * MAX_UNKNOWN):
        for _ in range(2):
            h.target(f"https://key:secret@LLM-{i}.corp:8000/v1/messages?key=secret", JSON)
    assert h.unrecorded == 6 * MAX_UNKNOWN
    assert len(caplog.messages) == MAX_UNKNOWN + 1
    assert caplog.messages[0] == (
        "llmtap: LLM calls to an unknown host are not recorded: host llm-0.corp:8000, API anthropic; add it with LLMTAP_HOSTS=llm-0.corp:8000"
    )
    assert "further unknown hosts" in caplog.messages[-1] and "secret" not in caplog.text


@pytest.mark.parametrize("client", list(CLIENTS))
def test_call_to_unknown_host(nats_server: Nats, provider: Provider, client: str, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    call: Call = CLIENTS[client]
    url = provider.url("ok")
    with caplog.at_level(logging.INFO):
        llmtap.instrument(url=nats_server.url, service="svc")
        for _ in range(2):
            assert call(url) == (200, ANSWER)
        stats = llmtap.stats()
        assert (stats.unrecorded, stats.errors, stats.open) == (2, 0, 0)
        llmtap.uninstrument()
        assert [m for m in caplog.messages if m.startswith("llmtap: LLM")] == [
            f"llmtap: LLM calls to an unknown host are not recorded: host {provider.host}, API openai_chat; add it with LLMTAP_HOSTS={provider.host}"
        ]
    assert nats_server.messages() == []

    monkeypatch.setenv("LLMTAP_HOSTS", "llm.corp, " + provider.host)
    llmtap.instrument(url=nats_server.url, service="svc")
    assert call(url) == (200, ANSWER)
    assert llmtap.flush(10) and llmtap.stats().unrecorded == 0
    assert len(nats_server.messages()) == 2
