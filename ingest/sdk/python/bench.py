"""Measures the cost of the hook: time added to a call on the agent's thread, and CPU of the sender thread.

    python bench.py HELPER

HELPER is the program ingest/sdk/testhelper (go build -o HELPER ../testhelper), which runs nats-server. The provider is a transport of
httpx or a socket of http.client in this process, so the network is not measured. Calls with and without the hook alternate; the result
is the difference. Pauses of 2 ms between calls simulate the network; the sender works during them.
"""

from __future__ import annotations

import gc
import http.client
import io
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

import httpx

import llmtap
from llmtap import _api

CALLS = 400
PAUSE = 0.002


def body(size: int) -> bytes:
    """A chat request of about size bytes with messages of 1 KB."""
    text = "It was a bright cold day in April, and the clocks were striking thirteen. " * 13
    message: dict[str, Any] = {"role": "user", "content": text}
    tool = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.py"}'}}]}
    messages = []
    while len(json.dumps(messages)) < size:
        messages += [message, tool]
    return json.dumps({"model": "gpt-5", "messages": messages}).encode()[: size - 2] + b"]}"


class Chunks(httpx.SyncByteStream):
    """A response in pieces, as from a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Any:
        for at in range(0, len(self._data), 64 << 10):
            yield self._data[at : at + (64 << 10)]


def provider(data: bytes) -> Any:
    """A transport method that responds with data."""

    def handle_request(self: Any, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "application/json", "content-length": str(len(data))}, stream=Chunks(data))

    return handle_request


def over_httpx(data: bytes) -> Callable[[str], None]:
    """A call of httpx to a host."""
    httpx.HTTPTransport.handle_request = provider(data)  # type: ignore[method-assign]
    transport = httpx.HTTPTransport(verify=False)

    def call(host: str) -> None:
        request = httpx.Request("POST", f"https://{host}/v1/chat/completions", content=data, headers={"content-type": "application/json"})
        response = transport.handle_request(request)
        for _ in response.stream:  # type: ignore[union-attr]
            pass
        response.stream.close()  # type: ignore[union-attr]

    return call


class Socket:
    """A socket whose peer has responded with data."""

    def __init__(self, data: bytes) -> None:
        self._answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data)

    def sendall(self, data: bytes) -> None:
        pass

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._answer)

    def close(self) -> None:
        pass


def over_http_client(data: bytes) -> Callable[[str], None]:
    """A call of http.client, as of urllib3 and boto3, to a host."""
    socket: Any = Socket(data)

    def call(host: str) -> None:
        connection = http.client.HTTPConnection(host)
        connection.sock = socket
        connection.request("POST", "/v1/chat/completions", data, {"content-type": "application/json"})
        response = connection.getresponse()
        while response.read(64 << 10):
            pass
        connection.close()

    return call


def duration(call: Callable[[str], None], host: str) -> int:
    """The duration of one call in ns."""
    began = time.perf_counter_ns()
    call(host)
    return time.perf_counter_ns() - began


def measure(client: Callable[[bytes], Callable[[str], None]], size: int, capture: str, url: str) -> str:
    call = client(body(size))
    llmtap.instrument(url=url, service="svc", capture=capture)
    for _ in range(50):
        call("api.openai.com")
    gc.collect()
    with_hook, without = [], []
    used, began = resource.getrusage(resource.RUSAGE_SELF), time.thread_time()
    for _ in range(CALLS):
        time.sleep(PAUSE)
        with_hook.append(duration(call, "api.openai.com"))
        time.sleep(PAUSE)
        without.append(duration(call, "example.com"))
    mine = time.thread_time() - began
    llmtap.flush(10)
    assert llmtap.stats().events >= 2 * CALLS or url.endswith(":1")
    after = resource.getrusage(resource.RUSAGE_SELF)
    sender = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime - mine
    llmtap.uninstrument()
    base = statistics.median(without) / 1000
    added = sorted(t / 1000 - base for t in with_hook)
    return f"{added[CALLS // 2]:>6.0f} {added[CALLS * 99 // 100]:>6.0f} {sender / CALLS * 1e6:>8.0f}"


def main() -> None:
    original = httpx.HTTPTransport.handle_request
    with tempfile.TemporaryDirectory() as folder:
        nats = subprocess.Popen([sys.argv[1], "nats", folder, "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert nats.stdin is not None and nats.stdout is not None
        up = "nats://agent:agent@127.0.0.1:" + nats.stdout.readline().decode().strip()
        print("us per call                            p50    p99   sender")
        for name, url, client in (("up", up, over_httpx), ("down", "nats://127.0.0.1:1", over_httpx), ("up", up, over_http_client)):
            for capture in ("full", "shape"):
                for size in (10 << 10, 100 << 10):
                    result = measure(client, size, capture, url)
                    print(f"{client.__name__[5:]:11}  NATS {name:4}  {capture:5}  {size >> 10:>3} KB  {result}", flush=True)
        nats.stdin.close()
        nats.wait(10)
    httpx.HTTPTransport.handle_request = original  # type: ignore[method-assign]
    assert not _api.stats().open


if __name__ == "__main__":
    main()
