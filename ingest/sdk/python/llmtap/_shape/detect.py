"""Detects the dialect of a call from the path of its URL."""

from __future__ import annotations

from typing import Optional
from urllib.parse import unquote

from .._wire import ENDPOINTS, OLLAMA_PORT, Endpoint

OTHER = "other"


def detect(path: str) -> str:
    """The dialect in which the bodies of calls to a path are shaped, as in dialects.json. Gateways may prefix the path."""
    endpoint = _endpoint(_clean(path))
    return OTHER if endpoint is None or endpoint.opaque else endpoint.dialect


def looks_like_call(path: str, port: str) -> str:
    """The dialect of a POST with a JSON body to a path at an unknown host; "" unless it probably is a call of an LLM."""
    path = _clean(path)
    e = _endpoint(path)
    if e is None or e.unknown and not any(u in path for u in e.unknown) and not (e.native and port == OLLAMA_PORT):
        return ""
    return e.dialect


def _clean(path: str) -> str:
    front, slash, last = path.rstrip("/").rpartition("/")
    return front + slash + last.replace("%3A", ":").replace("%3a", ":")


def _endpoint(path: str) -> Optional[Endpoint]:
    """The endpoint of a clean path, if any."""
    for e in ENDPOINTS:
        if not path.endswith(e.end) or e.within and not any(w in path for w in e.within):
            continue
        if e.model:
            model = _model(path[: -len(e.end)], e.model, e.end)
            if not model or e.models and not any(m in model for m in e.models) or any(m in model for m in e.not_models):
                continue
        return e
    return None


def _model(path: str, before: str, end: str) -> str:
    """The name of the model in a path without its end. If the end starts with a colon, it may be the last segment."""
    _, found, model = path.partition(before)
    if not found and end[0] == ":":
        model = path.rpartition("/")[2]
    return unquote(model)
