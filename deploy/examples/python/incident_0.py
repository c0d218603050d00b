"""Incident 0: the agent saves the assistant message without its tool_calls.

The next request contains a tool message without its call, and the provider rejects it. The agent treats the failed call as
an answer without tool calls and prints "task finished", so nobody notices.

    python incident_0.py            # with the bug
    python incident_0.py --fixed
"""

import json
import os
import sys

import llmtap
import openai

FIXED = "--fixed" in sys.argv
MODEL = os.environ.get("MODEL", "deepseek-chat")
TASK = """Read the configuration and change the port. Step by step:
- read_file {"path": "config.py"}
- write_file {"path": "config.py", "text": "PORT = 8080"}"""


def function(name, *parameters):
    """A tool whose parameters are all strings."""
    schema = {"type": "object", "properties": {p: {"type": "string"} for p in parameters}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


files = {"config.py": "PORT = 80"}
tools = {"read_file": lambda path: files.get(path, "no such file"), "write_file": lambda path, text: files.update({path: text}) or "written"}
schemas = [function("read_file", "path"), function("write_file", "path", "text")]
client = openai.OpenAI()


def chat(messages):
    """The answer of the model. An error is returned as an answer, which hides it from the loop below."""
    try:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=schemas, parallel_tool_calls=False)
        return answer.choices[0].message.model_dump(exclude_none=True)
    except openai.APIError as e:
        print(f"[chat] {type(e).__name__}: {e}")
        return {"role": "assistant", "content": f"The call failed: {e}"}


def save(answer):
    """The message to store in the history."""
    saved = {"role": answer["role"], "content": answer.get("content") or ""}
    # BUG: drops the tool calls. The tool messages below reply to calls that are not in the history.
    if FIXED and "tool_calls" in answer:
        saved["tool_calls"] = answer["tool_calls"]
    return saved


def plan(task):
    messages = [{"role": "system", "content": "You plan changes to files and carry them out."}, {"role": "user", "content": task}]
    for i in range(10):
        answer = chat(messages)
        messages.append(save(answer))
        calls = answer.get("tool_calls", [])
        print(f"[run] iteration {i + 1}: {len(calls)} tool calls")
        if not calls:
            print("[run] no tool calls, task finished")
            return answer["content"]
        for call in calls:
            with llmtap.tool(call["id"]):
                result = tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return "gave up"


llmtap.instrument(service="incident-0", service_version="2" if FIXED else "1", hosts=["127.0.0.1"])
with llmtap.run(), llmtap.context(stage="planner", conversation=f"incident-0-{os.getpid()}"):
    print(plan(TASK))
