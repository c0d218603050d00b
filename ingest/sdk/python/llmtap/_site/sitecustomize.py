"""Adds the hook to a program in whose PYTHONPATH the directory of this file is: llmtap run and python -m llmtap put it there.

The hook is loaded when the program has imported an HTTP client. Most processes that a program starts import none, and the hook takes
longer to import than such a process runs. It is loaded after the outermost import statement, because the modules that it imports
itself may be half loaded before. Errors never reach the program."""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than this module
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_CLIENTS = ("http.client", "httpx", "httpx2", "requests", "aiohttp")
_TOLD = "_LLMTAP_TOLD"  # set when this process or one that started it has said what is wrong


class _Finder:
    """Finds modules with the other finders, and lets a _Loader load those that the program imports itself."""

    def __init__(self) -> None:
        self.thread = _thread._local()  # has "importing" while a _Loader loads

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if getattr(self.thread, "importing", False):
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def loaded(self) -> None:
        """Loads the hook if there is an HTTP client."""
        if self in sys.meta_path and any(name in sys.modules for name in _CLIENTS):
            sys.meta_path.remove(self)
            _register()


class _Loader:
    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._finder.thread.importing = True
        try:
            self._loader.exec_module(module)
        finally:
            self._finder.thread.importing = False
        parent, _, child = module.__name__.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)  # as the import system does next
        self._finder.loaded()

    # Tracebacks and warnings leave out the frames of the import system.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap>")


def _register() -> None:
    try:
        import llmtap.register  # noqa: F401
    except Exception as e:
        if os.environ.get(_TOLD) or sys.stderr is None:
            return
        os.environ[_TOLD] = "1"
        why = f"{type(e).__name__}: {e}"
        if isinstance(e, ModuleNotFoundError) and e.name == "llmtap":
            why = "the package llmtap is not installed for " + sys.executable
        print("llmtap: the calls of this program are not recorded: " + why, file=sys.stderr)


def _chain() -> None:
    """Runs the sitecustomize that Python would run without this one."""
    own, here = sys.modules.pop("sitecustomize", None), os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError as e:
        if e.name != "sitecustomize":
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


_finder = _Finder()
sys.meta_path.insert(0, _finder)
try:
    _chain()
finally:
    _finder.loaded()
