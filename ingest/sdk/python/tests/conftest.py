"""Builds ingest/sdk/testhelper: a real nats-server for every test, and the Go reference."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import shutil
import socket
import subprocess
from typing import Any, Callable, Iterator, NamedTuple

import nats
import pytest

import llmtap

pytest_plugins = ["provider"]

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[4] / "shared"

os.environ["LLMTAP_SHAPE_KEY"] = "key"
for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "LLMTAP_SERVICE", "LLMTAP_NATS_URL", "LLMTAP_ENDPOINT", "LLMTAP_TOKEN", "LLMTAP_HOSTS"):
    os.environ.pop(name, None)


@pytest.fixture(scope="session")
def helper(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the helper. $LLMTAP_TEST_HELPER is the path of a built one."""
    built = os.environ.get("LLMTAP_TEST_HELPER")
    if built:
        return built
    if shutil.which("go") is None:
        pytest.skip("go is not installed: no nats-server and no reference of shapes")
    path = str(tmp_path_factory.mktemp("helper") / "helper")
    subprocess.run(["go", "build", "-o", path, "."], cwd=HERE.parents[1] / "testhelper", check=True)
    return path


@pytest.fixture(scope="session")
def ask(helper: str) -> Callable[..., list[Any]]:
    """Runs the helper with one input per line and returns its outputs."""

    def run(questions: list[dict[str, Any]], *args: str) -> list[Any]:
        text = "\n".join(json.dumps(q) for q in questions)
        done = subprocess.run([helper, *args], input=text.encode(), stdout=subprocess.PIPE, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


class Message(NamedTuple):
    """A stored message."""

    subject: str
    headers: dict[str, str]
    data: bytes

    def __getitem__(self, key: Any) -> Any:
        return self.headers.get(key, "")


class Nats:
    """A nats-server with the event stream; user agent has the permissions of a hook of service "svc"."""

    def __init__(self, helper: str, dir: pathlib.Path) -> None:
        self._helper, self._dir = helper, dir
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"nats://agent:agent@127.0.0.1:{self.port}"

    def start(self) -> Nats:
        self._process = subprocess.Popen([self._helper, "nats", str(self._dir), str(self.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == str(self.port).encode()
        return self

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.wait(30)
        process.stdout.close()

    def messages(self) -> list[Message]:
        """All stored messages, in order."""

        async def read() -> list[Message]:
            nc = await nats.connect(f"nats://admin:admin@127.0.0.1:{self.port}")
            js = nc.jetstream()
            state = (await js.stream_info("LLMTAP")).state
            found = []
            for seq in range(state.first_seq, state.last_seq + 1):
                m = await js.get_msg("LLMTAP", seq=seq)
                found.append(Message(m.subject or "", dict(m.headers or {}), m.data or b""))
            await nc.close()
            return found

        return asyncio.run(read())

    def empty(self) -> None:
        """Purges the stream; the server still recognises the message ids."""

        async def purge() -> None:
            nc = await nats.connect(f"nats://admin:admin@127.0.0.1:{self.port}")
            await nc.jetstream().purge_stream("LLMTAP")
            await nc.close()

        asyncio.run(purge())


@pytest.fixture(scope="session")
def running(helper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    server = Nats(helper, tmp_path_factory.mktemp("nats")).start()
    yield server
    server.stop()


@pytest.fixture
def nats_server(running: Nats) -> Nats:
    """A server with an empty stream."""
    running.empty()
    return running


@pytest.fixture
def stopped_nats(helper: str, tmp_path: pathlib.Path) -> Iterator[Nats]:
    """A server that the test starts and stops."""
    server = Nats(helper, tmp_path / "nats")
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def uninstrumented() -> Iterator[None]:
    """Restores the clients after every test."""
    yield
    llmtap.uninstrument()
