"""The hook of this process and the client methods that it replaces."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from ._hook import Hook

_hook: Optional[Hook] = None


def hook_of() -> Optional[Hook]:
    """The hook of this process, if any."""
    return _hook


def set_hook(hook: Optional[Hook]) -> None:
    """Sets the hook of this process."""
    global _hook
    _hook = hook


class Patches:
    """The replaced methods and their originals."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a method with make(original) unless it has already been replaced."""
        original = owner.__dict__.get(name)
        if original is None or hasattr(original, "_llmtap"):
            return
        replacement = functools.wraps(original)(make(original))
        vars(replacement)["_llmtap"] = True
        setattr(owner, name, replacement)
        self._replaced.append((owner, name, original, replacement))

    def undo(self) -> None:
        """Restores the originals. If another library has replaced our method, our method stays and calls the original."""
        while self._replaced:
            owner, name, original, replacement = self._replaced.pop()
            if owner.__dict__.get(name) is replacement:
                setattr(owner, name, original)
