"""Incident 1: the model makes three tool calls in one answer, and the agent replies to two of them.

The provider rejects a history in which a call has no reply. If the agent does not run a call, it must reply that it did not.

    python incident_1.py            # with the bug
    python incident_1.py --fixed
"""

import json
import os
import sys

import llmtap
import openai

FIXED = "--fixed" in sys.argv
MODEL = os.environ.get("MODEL", "gpt-5-mini")
LIMIT = 2  # commands to run per answer
TASK = """Look around. Run all of these at once:
- bash {"command": "ls"}
- bash {"command": "pwd"}
- bash {"command": "date"}"""

schemas = [{
    "type": "function",
    "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
}]  # fmt: skip
client = openai.OpenAI()


def bash(command):
    """Simulates a shell."""
    return {"ls": "file1.txt\nfile2.txt", "pwd": "/home/agent", "date": "Fri"}.get(command, f"{command}: not found")


def reply(call, content):
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def ask(task):
    messages = [{"role": "user", "content": task}]
    while True:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=schemas, parallel_tool_calls=True).choices[0].message
        messages.append(answer.model_dump(exclude_none=True))  # with its tool_calls
        calls = answer.tool_calls or []
        if not calls:
            return answer.content
        for call in calls[:LIMIT]:
            with llmtap.tool(call.id):
                result = bash(**json.loads(call.function.arguments))
            messages.append(reply(call, result))
        # BUG: no reply to the calls beyond the limit.
        if FIXED:
            messages += [reply(call, "error: skipped, at most two commands at once") for call in calls[LIMIT:]]


llmtap.instrument(service="incident-1", service_version="2" if FIXED else "1", hosts=["127.0.0.1"])
try:
    with llmtap.run(), llmtap.context(stage="assistant", conversation=f"incident-1-{os.getpid()}"):
        print(ask(TASK))
except openai.APIError as e:
    sys.exit(f"{type(e).__name__}: {e}")
