"""Makes calls at a constant rate and measures their cost."""

from __future__ import annotations

import concurrent.futures
import time
from typing import Any, Callable

import llmtap


def load(line: dict[str, Any]) -> dict[str, Any]:
    """Makes calls at the configured rate. Each thread starts its share of the calls at their scheduled times."""
    call = _openai(line) if line["client"] == "openai" else _httpx(line)
    threads, rate, seconds = line["threads"], line["rate"], line["seconds"]
    began, used = time.monotonic(), time.process_time()
    first = _memory("VmRSS")

    def work(n: int) -> int:
        made = 0
        while True:
            at = (made * threads + n) / rate
            if at >= seconds or time.monotonic() > began + 1.5 * seconds:
                return made
            time.sleep(max(0.0, began + at - time.monotonic()))
            call()
            made += 1

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        made = sum(pool.map(work, range(threads)))
    took = time.monotonic() - began
    most = _memory("VmHWM")
    s = llmtap.stats()
    return {
        "made": made, "seconds": took, "cores": (time.process_time() - used) / took, "grown": most - first,
        "bytes": s.bytes, "errors": s.errors,
    }  # fmt: skip


def _memory(key: str) -> int:
    """VmRSS, the memory of this process, or VmHWM, its maximum, in bytes; 0 if unknown.

    getrusage would include the memory of the parent before exec.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key + ":"))
    except (OSError, StopIteration):
        return 0


def _httpx(line: dict[str, Any]) -> Callable[[], None]:
    import httpx

    body = line["text"].encode()
    client = httpx.Client(verify=False, timeout=30)

    def call() -> None:
        client.post(line["base"] + "/openai/v1/chat/completions", content=body, headers={"content-type": "application/json"})

    return call


def _openai(line: dict[str, Any]) -> Callable[[], None]:
    import json

    import openai

    chat = json.loads(line["text"])
    client = openai.OpenAI(base_url=line["base"] + "/openai/v1", api_key="sk-secret", timeout=30, max_retries=0)

    def call() -> None:
        client.chat.completions.create(**chat)

    return call
