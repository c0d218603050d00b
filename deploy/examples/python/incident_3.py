"""Incident 3: two defects in storing and loading a history, and a provider that reports only INVALID_ARGUMENT.

Within a run, the agent converts calls to its own types, and their arguments become an object. A later run starts with the rows
of the database, which has tool messages but no messages with their calls.

    python incident_3.py            # with the bugs: both runs fail
    python incident_3.py --fixed
"""

import asyncio
import json
import os
import sqlite3
import sys

import llmtap
import openai

FIXED = "--fixed" in sys.argv
MODEL = os.environ.get("MODEL", "gemini-2.5-flash")
QUESTIONS = ['What is new in Python?\n- web_search {"query": "python release"}', "And when is the next release?"]

schemas = [{
    "type": "function",
    "function": {"name": "web_search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
}]  # fmt: skip
client = openai.AsyncOpenAI()
db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE messages (role TEXT, content TEXT, call_id TEXT)")


def web_search(query):
    """Simulates a search engine."""
    return {"query": query, "results": ["Python 3.14 is out"]}


def store(role, content, call_id=None):
    if content:  # an answer with tool calls only has no text for the user
        db.execute("INSERT INTO messages VALUES (?, ?, ?)", (role, content, call_id))


def build_context(question):
    """The messages of the first request of a run: the conversation from the database and the question."""
    messages = [{"role": "system", "content": "You answer with what you find."}]
    for role, content, call_id in db.execute("SELECT * FROM messages"):
        if role != "tool":
            messages.append({"role": role, "content": content})
        # BUG: a reply whose call is not in the database must not be sent.
        elif not FIXED:
            messages.append({"role": role, "content": content, "tool_call_id": call_id})
    return messages + [{"role": "user", "content": question}]


def to_message(answer):
    """The message of an answer for the next request."""
    calls = []
    for call in answer.tool_calls or []:
        arguments = json.loads(call.function.arguments)  # as the agent stores them
        # BUG: in requests, arguments must be a string of JSON.
        if FIXED:
            arguments = json.dumps(arguments)
        calls.append({"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}})
    return {"role": "assistant", "content": answer.content or "", "tool_calls": calls}


@llmtap.run()
async def respond(question):
    messages = build_context(question)
    store("user", question)
    while True:
        answer = (await client.chat.completions.create(model=MODEL, messages=messages, tools=schemas)).choices[0].message
        store("assistant", answer.content)
        if not answer.tool_calls:
            return answer.content
        messages.append(to_message(answer))
        for call in answer.tool_calls:
            with llmtap.tool(call.id):
                result = json.dumps(web_search(**json.loads(call.function.arguments)))
            store("tool", result, call.id)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def main():
    failed = 0
    for question in QUESTIONS:
        try:
            print(await respond(question))
        except openai.APIError as e:
            failed = 1
            print(f"Error handling LLM request: {type(e).__name__}: {e}")
    return failed


llmtap.instrument(service="incident-3", service_version="2" if FIXED else "1", hosts=["127.0.0.1"])
with llmtap.context(stage="orchestrator", conversation=f"incident-3-{os.getpid()}"):
    sys.exit(asyncio.run(main()))
