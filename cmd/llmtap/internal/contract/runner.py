"""Makes the calls of the contract's cases through the Python hook: reads commands as lines of JSON, answers each with one.

{"do": "open", ...} instruments, "call" makes calls, "flush" waits until all is stored, "close" ends the recording.
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

Call = dict[str, Any]
Result = dict[str, Any]
TOOL_REPLY = "-3 °C"


def result(status: int = 0, body: bytes = b"", error: str = "") -> Result:
    return {"status": status, "body": base64.b64encode(body).decode(), "error": error}


# --- raw transports --------------------------------------------------------------------------------------------------------


def raw_httpx(c: Call) -> Result:
    import httpx

    status, body = 0, b""
    try:
        with httpx.Client(timeout=c["timeout"]) as client:
            if c["how"] == "read":
                r = client.post(c["url"], content=c["body"], headers=c["headers"])
                return result(r.status_code, r.content)
            with client.stream("POST", c["url"], content=c["body"], headers=c["headers"]) as r:
                status = r.status_code
                for p in r.iter_bytes():
                    body += p
                    if c["how"] == "close":
                        break
        return result(status, body)
    except Exception as e:
        return result(status, body, repr(e))


async def raw_httpx_async(c: Call) -> Result:
    import httpx

    got = {"status": 0, "body": b""}

    async def work(first: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=c["timeout"]) as client:
            if c["how"] == "read":
                r = await client.post(c["url"], content=c["body"], headers=c["headers"])
                got.update(status=r.status_code, body=r.content)
                return
            async with client.stream("POST", c["url"], content=c["body"], headers=c["headers"]) as r:
                got["status"] = r.status_code
                async for p in r.aiter_bytes():
                    got["body"] += p
                    first.set()
                    if c["how"] == "close":
                        break

    return await cancellable(c, work, got)


async def raw_aiohttp(c: Call) -> Result:
    import aiohttp

    got = {"status": 0, "body": b""}

    async def work(first: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=c["timeout"], sock_read=c["timeout"])
        async with aiohttp.ClientSession(timeout=timeout) as s, s.post(c["url"], data=c["body"], headers=c["headers"]) as r:
            got["status"] = r.status
            if c["how"] == "read":
                got["body"] = await r.read()
                return
            async for p in r.content.iter_any():
                got["body"] += p
                first.set()
                if c["how"] == "close":
                    break

    return await cancellable(c, work, got)


async def cancellable(c: Call, work: Callable[[asyncio.Event], Any], got: dict[str, Any]) -> Result:
    """Runs work, and cancels it after its first piece if that is how."""
    first = asyncio.Event()
    task = asyncio.ensure_future(work(first))
    error = ""
    try:
        if c["how"] == "cancel":
            await first.wait()
            task.cancel()
        await task
    except (Exception, asyncio.CancelledError) as e:
        error = repr(e)
    return result(got["status"], got["body"], error)


def raw_requests(c: Call) -> Result:
    import requests

    status, body = 0, b""
    try:
        with requests.Session() as s:
            s.trust_env = False
            if c["how"] == "read":
                r = s.post(c["url"], data=c["body"], headers=c["headers"], timeout=c["timeout"])
                return result(r.status_code, r.content)
            with s.post(c["url"], data=c["body"], headers=c["headers"], timeout=c["timeout"], stream=True) as r:
                status = r.status_code
                for p in r.iter_content(None):
                    body += p
                    if c["how"] == "close":
                        break
        return result(status, body)
    except Exception as e:
        return result(status, body, repr(e))


# --- SDKs ------------------------------------------------------------------------------------------------------------------


def replies(message: Any) -> list[Any]:
    """A message of openai's that calls tools, and a reply to each."""
    return [message, *({"role": "tool", "tool_call_id": t.id, "content": TOOL_REPLY} for t in message.tool_calls)]


def sdk_openai(c: Call) -> None:
    import openai

    client = openai.OpenAI(base_url=c["base"] + "/openai/v1", api_key="sk-secret", max_retries=c["retries"])
    chat = dict(c["chat"])
    while True:
        r = client.chat.completions.create(**chat)
        if chat.get("stream"):
            return [None for _ in r] and None
        message = r.choices[0].message
        if not message.tool_calls:
            return None
        chat["messages"] = chat["messages"] + replies(message)


async def sdk_openai_async(c: Call) -> None:
    import openai

    async with openai.AsyncOpenAI(base_url=c["base"] + "/openai/v1", api_key="sk-secret", max_retries=c["retries"]) as client:
        chat = dict(c["chat"])
        while True:
            r = await client.chat.completions.create(**chat)
            if chat.get("stream"):
                async for _ in r:
                    pass
                return
            message = r.choices[0].message
            if not message.tool_calls:
                return
            chat["messages"] = chat["messages"] + replies(message)


def sdk_anthropic(c: Call) -> None:
    import anthropic

    client = anthropic.Anthropic(base_url=c["base"] + "/anthropic", api_key="sk-secret", max_retries=c["retries"])
    r = client.messages.create(**c["chat"])
    if c["chat"].get("stream"):
        for _ in r:
            pass


async def sdk_anthropic_async(c: Call) -> None:
    import anthropic

    async with anthropic.AsyncAnthropic(base_url=c["base"] + "/anthropic", api_key="sk-secret", max_retries=c["retries"]) as client:
        r = await client.messages.create(**c["chat"])
        if c["chat"].get("stream"):
            async for _ in r:
                pass


def gemini(c: Call) -> tuple[Any, dict[str, Any], bool]:
    from google import genai

    client = genai.Client(api_key="secret", http_options={"base_url": c["base"]})
    chat = dict(c["chat"])
    return client, chat, bool(chat.pop("stream", False))


def sdk_gemini(c: Call) -> None:
    client, chat, stream = gemini(c)
    if not stream:
        client.models.generate_content(**chat)
        return
    for _ in client.models.generate_content_stream(**chat):
        pass


async def sdk_gemini_async(c: Call) -> None:
    client, chat, stream = gemini(c)
    try:
        if not stream:
            await client.aio.models.generate_content(**chat)
            return
        async for _ in await client.aio.models.generate_content_stream(**chat):
            pass
    finally:
        await client.aio.aclose()


def langchain_model(c: Call) -> Any:
    from langchain_openai import ChatOpenAI

    chat = c["chat"]
    model: Any = ChatOpenAI(model=chat["model"], base_url=c["base"] + "/openai/v1", api_key="sk-secret", max_retries=c["retries"])
    if chat.get("tools"):
        model = model.bind_tools(chat["tools"], parallel_tool_calls=True)
    return model


def sdk_langchain(c: Call) -> None:
    from langchain_core.messages import ToolMessage

    model, messages = langchain_model(c), list(c["chat"]["messages"])
    if c["chat"].get("stream"):
        for _ in model.stream(messages):
            pass
        return
    while True:
        answer = model.invoke(messages)
        if not answer.tool_calls:
            return
        messages += [answer, *(ToolMessage(TOOL_REPLY, tool_call_id=t["id"]) for t in answer.tool_calls)]


def sdk_langgraph(c: Call) -> None:
    from langchain_core.messages import ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    model = langchain_model(c)

    def think(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def act(state: Any) -> Any:
        return {"messages": [ToolMessage(TOOL_REPLY, tool_call_id=t["id"]) for t in state["messages"][-1].tool_calls]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", lambda state: "act" if state["messages"][-1].tool_calls else END)
    graph.add_edge("act", "think")
    app = graph.compile()
    if c["chat"].get("stream"):
        for _ in app.stream({"messages": c["chat"]["messages"]}, stream_mode="messages"):
            pass
    else:
        app.invoke({"messages": c["chat"]["messages"]})


def sdk_litellm(c: Call) -> None:
    import litellm

    chat = dict(c["chat"], model="openai/" + c["chat"]["model"])
    while True:
        r = litellm.completion(**chat, api_base=c["base"] + "/openai/v1", api_key="sk-secret", max_retries=c["retries"])
        if chat.get("stream"):
            for _ in r:
                pass
            return
        message = r.choices[0].message
        if not message.tool_calls:
            return
        chat["messages"] = chat["messages"] + replies(message)


CLIENTS: dict[str, Callable[[Call], Any]] = {
    "httpx": raw_httpx,
    "httpx-async": raw_httpx_async,
    "requests": raw_requests,
    "aiohttp": raw_aiohttp,
    "openai": sdk_openai,
    "openai-async": sdk_openai_async,
    "anthropic": sdk_anthropic,
    "anthropic-async": sdk_anthropic_async,
    "google-genai": sdk_gemini,
    "google-genai-async": sdk_gemini_async,
    "langchain": sdk_langchain,
    "langgraph": sdk_langgraph,
    "litellm": sdk_litellm,
}


# --- commands --------------------------------------------------------------------------------------------------------------


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
    """Two calls and a tool that fails between them, in a run."""
    with llmtap.context(conversation=c["labels"]["conversation"]), llmtap.run(c["labels"]["run"]):
        call()
        try:
            with llmtap.tool(c["tool"]):
                raise ValueError("the tool fails")
        except ValueError:
            pass
        return call()


def call(c: Call) -> list[Result]:
    c["body"], c["url"] = base64.b64decode(c["body"] or ""), c["base"] + c["path"]
    n = c["parallel"]
    if asyncio.iscoroutinefunction(CLIENTS[c["client"]]):

        async def together() -> list[Result]:
            results = list(await asyncio.gather(*(agent_async(c, i) for i in range(n))))
            while llmtap.stats().open:  # what a call left behind, as in an agent whose loop goes on
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
    assert s.errors == 0, "the hook made a mistake"
    return {"flushed": flushed, **{k: getattr(s, k) for k in ("published", "events", "dropped", "pending", "open", "bytes")}}


def command(line: dict[str, Any]) -> Any:
    do = line.pop("do")
    if do == "open":
        llmtap.instrument(
            url=line["nats"], service="svc", service_version="1.2.3", environment="test", capture=line["capture"],
            hosts=[line["host"]], **({"memory_limit": line["memory_limit"]} if line["memory_limit"] else {}),
        )  # fmt: skip
        return {}
    if do == "call":
        return call(line)
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
