"""Calls with the SDKs and frameworks, until the model calls no more tools."""

from __future__ import annotations

import json
from typing import Any

Call = dict[str, Any]
TOOL_REPLY = "-3 °C"


def replies(message: Any) -> list[Any]:
    """A message of openai with tool calls, and a reply to each."""
    return [message, *({"role": "tool", "tool_call_id": t.id, "content": TOOL_REPLY} for t in message.tool_calls)]


def call_openai(c: Call) -> None:
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


async def call_openai_async(c: Call) -> None:
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


def call_anthropic(c: Call) -> None:
    import anthropic

    client = anthropic.Anthropic(base_url=c["base"] + "/anthropic", api_key="sk-secret", max_retries=c["retries"])
    r = client.messages.create(**c["chat"])
    if c["chat"].get("stream"):
        for _ in r:
            pass


async def call_anthropic_async(c: Call) -> None:
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


def call_gemini(c: Call) -> None:
    client, chat, stream = gemini(c)
    if "input" in chat:
        answer = client.interactions.create(stream=stream, **chat)
        for _ in answer if stream else ():
            pass
        return
    if not stream:
        client.models.generate_content(**chat)
        return
    for _ in client.models.generate_content_stream(**chat):
        pass


async def call_gemini_async(c: Call) -> None:
    client, chat, stream = gemini(c)
    try:
        if "input" in chat:
            r = await client.aio.interactions.create(stream=stream, **chat)
            if stream:
                async for _ in r:
                    pass
            return
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


def call_langchain(c: Call) -> None:
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


def call_langgraph(c: Call) -> None:
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


def call_litellm(c: Call) -> None:
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


def call_boto3(c: Call) -> None:
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "bedrock-runtime", region_name="eu-west-1", endpoint_url=c["base"], aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="secret", config=Config(retries={"total_max_attempts": 1 + c["retries"]}),
    )  # fmt: skip
    chat = dict(c["chat"])
    stream = chat.pop("stream", False)
    if "body" in chat:
        chat["body"] = json.dumps(chat["body"])
        invoke = client.invoke_model_with_response_stream if stream else client.invoke_model
        body = invoke(**chat)["body"]
        assert [None for _ in body]
    elif stream:
        assert [None for _ in client.converse_stream(**chat)["stream"]]
    else:
        client.converse(**chat)
