"""Finds where in the agent's own code a call is made: the innermost frame that is neither of a library nor of this package."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Optional

_MAX_FRAMES = 256
_MAX_KNOWN = 8192  # code objects that are remembered
_MAX_FILE, _MAX_FUNCTION = 160, 64  # bytes

# Folders of installed libraries, wherever they are.
_INSTALLED = ("/site-packages/", "/dist-packages/", ".whl/", ".egg/")


class Finder:
    """Remembers the files and functions of code objects."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        self._libraries = tuple({_folder(p) for p in (paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__), os.path.dirname(__file__))})
        try:
            cwd = _folder(os.getcwd())
        except OSError:  # it was removed
            cwd = "/"
        # A working directory that is the root is none of a project.
        self._roots = [p for p in (cwd, *(_folder(os.path.join(cwd, p)) for p in sys.path)) if p != "/"]
        self._known: dict[int, tuple[CodeType, str, str]] = {}  # by id; the code object, which stays alive, its file, "" for others, and its function

    def find(self, skip: int = 1) -> str:
        """The place from which the frame skip frames outside was called, as package event describes it; "" if it is unknown. A frame costs
        0.2 us, most of it in Python."""
        frame: Optional[FrameType] = sys._getframe(skip)
        known, left = self._known, _MAX_FRAMES
        while frame is not None and left:
            try:
                entry = known[id(frame.f_code)]
            except KeyError:
                entry = self._learn(frame.f_code)
            if entry[1]:
                return f"{entry[1]}:{frame.f_lineno}{entry[2]}"
            frame = frame.f_back
            left -= 1
        return ""

    def _learn(self, code: CodeType) -> tuple[CodeType, str, str]:
        file = self._file(code.co_filename)
        function = str(getattr(code, "co_qualname", code.co_name)).replace(" ", "_").replace(":", "_")
        function = function.encode("utf-8", "replace")[:_MAX_FUNCTION].decode("utf-8", "ignore")
        entry = (code, file, " " + function if function else "")
        if len(self._known) >= _MAX_KNOWN:
            self._known = {}
        self._known[id(code)] = entry
        return entry

    def _file(self, name: str) -> str:
        """The file relative to the project; "" if it belongs to others or is none."""
        if name.startswith("<"):  # <frozen importlib._bootstrap>, <string>
            return ""
        path = name.replace("\\", "/")
        if path.startswith(self._libraries) or any(part in path for part in _INSTALLED):
            return ""
        file = next((path[len(root) :] for root in self._roots if path.startswith(root)), None)
        if file is None:
            file = path.rpartition("/")[2] if os.path.isabs(name) else path
        return file.encode("utf-8", "replace")[-_MAX_FILE:].decode("utf-8", "ignore")


def _folder(path: str) -> str:
    path = path.replace("\\", "/")
    return path if path.endswith("/") else path + "/"
