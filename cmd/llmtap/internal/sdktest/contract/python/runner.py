"""Makes the calls of the contract cases with the Python hook. Reads commands and prints results, one line of JSON each.

{"do": "open", ...} instruments, "call" makes calls, "load" makes many, "flush" waits until all events are stored, "close" stops recording.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import json
import logging
import sys
import time
from typing import Any, Callable

import llmtap
import raw
import sdks
from load import load
from raw import Call, Result, result

CLIENTS: dict[str, Callable[[Call], Any]] = {
    "httpx": raw.sync_httpx,
    "httpx-async": raw.async_httpx,
    "requests": raw.by_requests,
    "aiohttp": raw.by_aiohttp,
    "http.client": raw.by_http_client,
    "urllib3": raw.by_urllib3,
    "openai": sdks.call_openai,
    "openai-async": sdks.call_openai_async,
    "anthropic": sdks.call_anthropic,
    "anthropic-async": sdks.call_anthropic_async,
    "google-genai": sdks.call_gemini,
    "google-genai-async": sdks.call_gemini_async,
    "langchain": sdks.call_langchain,
    "langgraph": sdks.call_langgraph,
    "litellm": sdks.call_litellm,
    "boto3": sdks.call_boto3,
}


def once(c: Call) -> Result:
    """One call, which may be a coroutine."""
    try:
        return CLIENTS[c["client"]](c) or result()
    except Exception as e:
        return result(error=repr(e))


async def once_async(c: Call) -> Result:
    try:
        return await CLIENTS[c["client"]](c) or result()
    except Exception as e:
        return result(error=repr(e))


def labels(c: Call, i: int) -> dict[str, Any]:
    found = {k: v for k, v in c["labels"].items() if v}
    if c["parallel"] > 1:
        found["conversation"] = f"{found['conversation']}-{i}"
    return found


def agent(c: Call, i: int) -> Result:
    with llmtap.context(**labels(c, i)):
        return once(c)


async def agent_async(c: Call, i: int) -> Result:
    with llmtap.context(**labels(c, i)):
        return await once_async(c)


def with_tool(c: Call, call: Callable[[], Result]) -> Result:
    """Two calls and a failing tool between them, in a run."""
    with llmtap.context(conversation=c["labels"]["conversation"]), llmtap.run(c["labels"]["run"]):
        call()
        try:
            with llmtap.tool(c["tool"]):
                raise ValueError("tool failed")
        except ValueError:
            pass
        return call()


def call(c: Call) -> list[Result]:
    c["body"], c["url"] = base64.b64decode(c["body"] or ""), c["base"] + c["path"]
    n = c["parallel"]
    if asyncio.iscoroutinefunction(CLIENTS[c["client"]]):

        async def together() -> list[Result]:
            results = list(await asyncio.gather(*(agent_async(c, i) for i in range(n))))
            while llmtap.stats().open:  # background tasks, as in an agent whose event loop keeps running
                await asyncio.sleep(0.002)
            return results

        if c["tool"]:
            return [with_tool(c, lambda: asyncio.run(once_async(c)))]
        return asyncio.run(together())
    if c["tool"]:
        return [with_tool(c, lambda: once(c))]
    if n == 1:
        return [agent(c, 0)]
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda i: agent(c, i), range(n)))


def flush(seconds: float) -> dict[str, Any]:
    limit = time.monotonic() + seconds
    while llmtap.stats().open and time.monotonic() < limit:
        time.sleep(0.002)
    flushed = llmtap.flush(max(0.0, limit - time.monotonic()))
    s = llmtap.stats()
    assert s.errors == 0, "internal errors of the hook"
    return {"flushed": flushed, **{k: getattr(s, k) for k in ("published", "events", "dropped", "pending", "open", "bytes")}}


def command(line: dict[str, Any]) -> Any:
    do = line.pop("do")
    if do == "open":
        llmtap.instrument(
            url=line["nats"], endpoint=line["endpoint"], token=line["token"], service="svc", service_version="1.2.3", environment="test", capture=line["capture"],
            hosts=[line["host"]], attrs={"region": "eu"}, **({"memory_limit": line["memory_limit"]} if line["memory_limit"] else {}),
        )  # fmt: skip
        return {}
    if do == "call":
        return call(line)
    if do == "load":
        return load(line)
    if do == "flush":
        return flush(line["seconds"])
    llmtap.uninstrument()
    return {}


def main() -> None:
    logging.disable(logging.CRITICAL)
    out = sys.stdout
    sys.stdout = sys.stderr  # clients may print
    for line in sys.stdin:
        print(json.dumps(command(json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
