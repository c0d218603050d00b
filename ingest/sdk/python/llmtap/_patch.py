"""The hook of this process and the methods that are replaced for it."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from ._hook import Hook

_hook: Optional[Hook] = None


def hook_of() -> Optional[Hook]:
    """The hook of this process, None when there is none."""
    return _hook


def set_hook(hook: Optional[Hook]) -> None:
    """Makes hook the one of this process."""
    global _hook
    _hook = hook


class Patches:
    """Methods that were replaced, to be put back."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Puts make(original) in the place of a method, unless that is done already."""
        original = owner.__dict__.get(name)
        if original is None or hasattr(original, "_llmtap"):
            return
        replacement = functools.wraps(original)(make(original))
        vars(replacement)["_llmtap"] = True
        setattr(owner, name, replacement)
        self._replaced.append((owner, name, original, replacement))

    def undo(self) -> None:
        """Puts the originals back, but where somebody else has replaced ours since: ours passes on there."""
        while self._replaced:
            owner, name, original, replacement = self._replaced.pop()
            if owner.__dict__.get(name) is replacement:
                setattr(owner, name, original)
