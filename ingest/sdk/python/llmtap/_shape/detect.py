"""Which dialect a call speaks, by the path of its URL."""

from __future__ import annotations

OTHER = "other"


def detect(path: str) -> str:
    """The dialect of a call to a path, named as in dialects.json. Only its end counts, so that gateways may put something before it."""
    path = path.rstrip("/")
    last = path[path.rfind("/") + 1 :]
    if path.endswith(("/chat/completions", "/api/chat")):
        return "openai_chat"
    if path.endswith("/v2/chat"):
        return "cohere"
    if last == "responses":
        return "openai_responses"
    if last == "messages":
        return "anthropic"
    if last in ("converse", "converse-stream"):
        return "bedrock"
    # Escaped or not: models/gemini-3-pro:streamGenerateContent.
    method = _method(last)
    if method in ("generateContent", "streamGenerateContent"):
        return "gemini"
    if method in ("rawPredict", "streamRawPredict") and "/publishers/anthropic/" in path:
        return "anthropic"
    return OTHER


def _method(segment: str) -> str:
    """What follows the last colon of a path segment."""
    for colon in (":", "%3A", "%3a"):
        if colon in segment:
            return segment.rpartition(colon)[2]
    return ""
