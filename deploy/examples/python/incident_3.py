"""Incident 3: two defects in how a history is stored and loaded, and a provider that says only INVALID_ARGUMENT.

In the loop of a run the calls go through the agent's own types, and their arguments come out as an object. A later run
begins with the rows of the database: it holds tool messages, but no message that made their calls.

    python incident_3.py            # as it was: both of its runs fail
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
    """Stands for a search engine."""
    return {"query": query, "results": ["Python 3.14 is out"]}


def store(role, content, call_id=None):
    if content:  # an answer that only calls tools has nothing that a user would read
        db.execute("INSERT INTO messages VALUES (?, ?, ?)", (role, content, call_id))


def build_context(question):
    """The messages of a run's first request: the conversation so far, from the database, and the question."""
    messages = [{"role": "system", "content": "You answer with what you find."}]
    for role, content, call_id in db.execute("SELECT * FROM messages"):
        if role != "tool":
            messages.append({"role": role, "content": content})
        # BUG: the message with the call that it answers is not in the database, so it must not be sent either.
        elif not FIXED:
            messages.append({"role": role, "content": content, "tool_call_id": call_id})
    return messages + [{"role": "user", "content": question}]


def to_message(answer):
    """The message for an answer, as the next request sends it back."""
    calls = []
    for call in answer.tool_calls or []:
        arguments = json.loads(call.function.arguments)  # as the agent keeps them
        # BUG: on the wire, arguments are a string that holds JSON.
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
