"""An agent process of the scenarios, as node/agent.cjs: makes the calls that it receives over HTTP with httpx, recorded by the Python
hook. Prints its port, then the ids of the exchanges that are stored, one per line."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpcore
import httpx
import llmtap

provider = 0


class Plain(httpcore.NetworkStream):
    """A connection to the provider, which has no TLS."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        return self._stream.read(*args, **kwargs)

    def write(self, *args: Any, **kwargs: Any) -> None:
        self._stream.write(*args, **kwargs)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def start_tls(self, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        return self


class Redirect(httpcore.NetworkBackend):
    """Connects all hosts to the provider. The hook records the original URL."""

    def connect_tcp(self, host: str, port: int, **kwargs: Any) -> httpcore.NetworkStream:
        return Plain(httpcore.SyncBackend().connect_tcp("127.0.0.1", provider, **kwargs))


def client() -> httpx.Client:
    transport = httpx.HTTPTransport(verify=False)
    transport._pool = httpcore.ConnectionPool(network_backend=Redirect(), max_connections=None)
    return httpx.Client(transport=transport, trust_env=False, timeout=60)


def send(url: str, body: dict[str, Any], key: str) -> httpx.Response:
    return calls.post(url, json=body, headers={"authorization": "Bearer " + key, "x-api-key": key, "x-goog-api-key": key})


calls = client()


class Agent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        args = json.loads(self.rfile.read(int(self.headers["content-length"])))
        command = self.path[1:]
        if command == "call":
            with llmtap.context(**(args["labels"] or {})):
                r = send(args["url"], args["body"], args["key"] or "test")
            return self.answer(r.status_code, r.headers["content-type"], r.content)
        self.answer(200, "application/json", json.dumps(getattr(self, command)(args) or {}).encode())

    def open(self, args: dict[str, Any]) -> None:
        global provider, calls
        provider, calls = int(args["provider"]), client()
        llmtap.instrument(
            url=args["nats"], service=args["service"], capture=args["capture"], agent="agent", service_version="1.0.0", environment="test",
            on_published=lambda exchange: print(exchange, flush=True),
        )  # fmt: skip

    def flush(self, args: dict[str, Any]) -> None:
        while llmtap.stats().open:
            time.sleep(0.002)
        assert llmtap.flush(10), "not all events were stored"

    def close(self, args: dict[str, Any]) -> dict[str, int]:
        s = llmtap.stats()
        llmtap.uninstrument()
        return {"dropped": s.dropped, "errors": s.errors}

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def main() -> None:
    logging.getLogger("llmtap").setLevel(logging.ERROR)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()  # until its end


main()
