"""Records the LLM calls of a Python agent.

    import llmtap
    llmtap.instrument(service="checkout-agent")

    with llmtap.context(conversation="order-17", stage="planner"):
        client.chat.completions.create(...)

The calls of httpx, requests and aiohttp to known LLM providers are published to NATS in the format of package ingest/sdk/go/event:
the request when it is sent, the response when it ends. All other calls pass unchanged, and the hook never breaks, blocks or slows the agent.
"""

from __future__ import annotations

from ._api import flush, instrument, run, stats, tool, uninstrument
from ._context import bind, context
from ._hook import VERSION as __version__
from ._hook import Stats

__all__ = ["Stats", "__version__", "bind", "context", "flush", "instrument", "run", "stats", "tool", "uninstrument"]
