"""Counts the gRPC channels to providers, whose calls are not captured."""

from __future__ import annotations

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
    """Finds grpc with the other finders. Programs also look for it without importing it."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any = None, target: Optional[ModuleType] = None) -> Any:
        if name != "grpc":
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self._patches)
                return spec
        return None


class _Loader:
    """Patches grpc after its own loader has loaded it."""

    def __init__(self, loader: Any, patches: Patches) -> None:
        self._loader, self._patches = loader, patches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        hook = hook_of()
        if hook is None:
            return
        try:
            _patch(self._patches, module)
        except Exception:
            hook.count_error()


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
