"""Incident 2 (LangChain): the history is cut to its last messages, in the middle of a turn.

The first answer makes ten tool calls, so the history has 13 messages. The last nine are replies without their assistant
message: the provider rejects tool messages without their calls.

    python incident_2.py            # with the bug
    python incident_2.py --fixed
"""

import os
import sys

import llmtap
import openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

FIXED = "--fixed" in sys.argv
MODEL = os.environ.get("MODEL", "qwen-plus")
MAX_HISTORY = 10
CHUNK = "Extract every entity of this chapter, all at once:\n" + "\n".join(f'- extract {{"entity": "person {n}"}}' for n in range(1, 11))


@tool
def extract(entity: str) -> str:
    """Extracts the facts of the chapter about an entity."""
    return f"{entity}: is mentioned twice"


def compress(messages):
    """The shortened history."""
    if len(messages) <= MAX_HISTORY:
        return messages
    start = len(messages) - (MAX_HISTORY - 1)
    if not FIXED:
        return messages[:1] + messages[start:]  # BUG: start may be a reply, whose call is cut
    # Keep a call and all its replies together: go back to the message with the calls. The previous message is not enough,
    # because one answer may make several calls. Keep the chunk (message 1), too.
    while isinstance(messages[start], ToolMessage):
        start -= 1
    return messages[:2] + messages[max(start, 2) :]


def process(chunk):
    model = ChatOpenAI(model=MODEL).bind_tools([extract], parallel_tool_calls=True)
    messages = [SystemMessage("You extract entities from chapters."), HumanMessage(chunk)]
    while True:
        print(f"{len(messages)} messages", end="")
        messages = compress(messages)
        print(f", {len(messages)} are sent")
        answer = model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            with llmtap.tool(call["id"]):
                messages.append(extract.invoke(call))  # a ToolMessage


llmtap.instrument(service="incident-2", service_version="2" if FIXED else "1", hosts=["127.0.0.1"])
try:
    with llmtap.run(), llmtap.context(stage="extractor", conversation=f"incident-2-{os.getpid()}"):
        print(process(CHUNK))
except openai.APIError as e:
    sys.exit(f"{type(e).__name__}: {e}")
