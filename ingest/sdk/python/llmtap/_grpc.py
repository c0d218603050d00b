"""Counts the gRPC channels to providers, whose calls are not captured."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any, Callable, Optional

from ._patch import Patches, hook_of


def patch(patches: Patches) -> None:
    """Patches grpc, when the agent imports it: an import takes 0.1 s, and few agents need it."""
    if "grpc" in sys.modules:
        _patch(patches, sys.modules["grpc"])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(patches))


class _Finder:
    """Patches grpc after its import."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any = None, target: Optional[ModuleType] = None) -> Any:
        if name != "grpc":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _patch(self._patches, module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _patch(patches: Patches, grpc: ModuleType) -> None:
    for module in (grpc, getattr(grpc, "aio", None)):
        for name in ("secure_channel", "insecure_channel"):
            if hasattr(module, name):
                patches.replace(module, name, _channel)


def _channel(original: Callable[..., Any]) -> Callable[..., Any]:
    def channel(target: Any, *args: Any, **kwargs: Any) -> Any:
        _count(target)
        return original(target, *args, **kwargs)

    return channel


def _count(target: Any) -> None:
    """Counts a channel to target, such as dns:///api.x.ai:443, if its calls would be recorded over HTTP."""
    hook = hook_of()
    if hook is None:
        return
    try:
        address = str(target).rpartition("/")[2]
        name, _, port = address.rpartition(":") if address.rpartition(":")[2].isdigit() else (address, "", "")
        if hook.hosts.records("https", name.strip("[]").lower(), "" if port == "443" else port):
            hook.uncaptured(address, "grpc")
    except Exception:
        hook.count_error()
