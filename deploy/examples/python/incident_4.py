"""Incident 4 (LangGraph): a tool call that no node replies to, and one that two nodes reply to.

One node runs tools, another submits trips. Both handle the call for a complete trip, and neither the call for an incomplete
one. The history is stored per thread, so a broken one fails forever.

    python incident_4.py            # with the bug: both customers see an error
    python incident_4.py --fixed
"""

import os
import sys

import llmtap
import openai
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

FIXED = "--fixed" in sys.argv
MODEL = os.environ.get("MODEL", "deepseek-chat")
CUSTOMERS = {
    "anna": 'I go to Bern, I do not know when.\n- weather {"city": "Bern"}\n- submit_trip {"city": "Bern", "date": ""}',
    "ben": 'I go to Rome in May.\n- weather {"city": "Rome"}\n- submit_trip {"city": "Rome", "date": "2026-05-04"}',
}


@tool
def weather(city: str) -> str:
    """Returns the weather."""
    return f"{city}: 12 °C, dry"


@tool
def submit_trip(city: str, date: str) -> str:
    """Submits a trip for approval."""
    return f"the trip to {city} on {date} is submitted"


tools = {t.name: t for t in (weather, submit_trip)}
model = ChatOpenAI(model=MODEL).bind_tools(list(tools.values()), parallel_tool_calls=True)


def agent(state):
    return {"messages": [model.invoke(state["messages"])]}


def last_calls(state):
    """The calls of the latest answer."""
    return next(m.tool_calls for m in reversed(state["messages"]) if isinstance(m, AIMessage))


def answered(state):
    """The ids of the calls with a reply."""
    return {m.tool_call_id for m in state["messages"] if isinstance(m, ToolMessage)}


def execute(call):
    with llmtap.tool(call["id"]):
        return tools[call["name"]].invoke(call)  # a ToolMessage


def tool_execution(state):
    """The node that runs tools."""
    complete = [c for c in last_calls(state) if all(c["args"].values())]  # the other node asks for missing arguments
    return {"messages": [execute(c) for c in complete]}


def data_sync(state):
    """The node that submits trips."""
    trips = [c for c in last_calls(state) if c["name"] == "submit_trip"]
    if not FIXED:
        # BUG: tool_execution has replied to these already, and no node replies to the others.
        return {"messages": [execute(c) for c in trips if c["args"]["date"]]}
    ask = "not submitted: ask the customer for the date"
    return {"messages": [ToolMessage(ask, tool_call_id=c["id"]) for c in trips if c["id"] not in answered(state)]}


graph = StateGraph(MessagesState)
graph.add_node("agent", agent)
graph.add_node("tool_execution", tool_execution)
graph.add_node("data_sync", data_sync)
graph.add_edge(START, "agent")
graph.add_conditional_edges("agent", lambda state: "tool_execution" if last_calls(state) else END)
graph.add_edge("tool_execution", "data_sync")
graph.add_edge("data_sync", "agent")
workflow = graph.compile(checkpointer=InMemorySaver())


def serve(customer, text):
    thread = f"incident-4-{os.getpid()}-{customer}"
    with llmtap.run(), llmtap.context(stage="travel", conversation=thread):
        state = workflow.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}})
    return state["messages"][-1].content


llmtap.instrument(service="incident-4", service_version="2" if FIXED else "1", hosts=["127.0.0.1"])
failed = 0
for customer, text in CUSTOMERS.items():
    try:
        print(f"{customer}: {serve(customer, text)}")
    except openai.APIError as e:
        failed = 1
        print(f"{customer}: sorry, an error: {type(e).__name__}: {e}")
sys.exit(failed)
