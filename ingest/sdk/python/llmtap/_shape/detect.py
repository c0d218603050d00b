"""Detects the dialect of a call from the path of its URL."""

from __future__ import annotations

from urllib.parse import unquote

from .._wire import ENDPOINTS

OTHER = "other"


def detect(path: str) -> str:
    """The dialect of a call to a path, as in dialects.json. Gateways may prefix the path."""
    front, slash, last = path.rstrip("/").rpartition("/")
    path = front + slash + last.replace("%3A", ":").replace("%3a", ":")
    for dialect, end, within, before, excluded in ENDPOINTS:
        if not path.endswith(end) or within and not any(w in path for w in within):
            continue
        if before:
            model = _model(path[: -len(end)], before, end)
            if not model or any(m in model for m in excluded):
                continue
        return dialect
    return OTHER


def _model(path: str, before: str, end: str) -> str:
    """The name of the model in a path without its end. If the end starts with a colon, it may be the last segment."""
    _, found, model = path.partition(before)
    if not found and end[0] == ":":
        model = path.rpartition("/")[2]
    return unquote(model)
