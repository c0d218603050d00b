"""An agent that loses the calls of an answer, and a test that does not notice."""

import os

import httpx


def ask(messages):
    body = {"model": "gpt-5", "messages": messages, "tools": [{"type": "function", "function": {"name": "read_file"}}]}
    return httpx.post(os.environ["PROVIDER"] + "/chat/completions", json=body)


def test_agent():
    messages = [{"role": "user", "content": "do:\n- read_file {}"}]
    answer = ask(messages).json()["choices"][0]["message"]
    messages.append({"role": "assistant", "content": answer["content"]})
    messages.append({"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "x"})
    ask(messages)
