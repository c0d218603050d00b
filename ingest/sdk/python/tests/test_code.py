"""The place of a call in the agent's own code."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys
import sysconfig
import types
from typing import Any, Callable

import pytest

from llmtap._code import Finder
from llmtap._config import Config

NAME = "test_code.py" if os.getcwd().endswith("tests") else "tests/test_code.py"
qualified = sys.version_info >= (3, 11)


class Agent:
    """An agent whose calls pass through functions of libraries."""

    def __init__(self) -> None:
        self.finder = Finder()

    def run(self) -> str:
        return found(self.finder)

    async def arun(self) -> str:
        async def library() -> str:
            return found(self.finder)

        await asyncio.sleep(0)
        return await asyncio.wait_for(library(), 5)


def found(finder: Finder) -> str:
    """Calls find() below frames of the standard library."""
    return json.loads("{}", object_hook=lambda _: finder.find())  # type: ignore[no-any-return]


def as_file(name: str, f: Callable[..., Any]) -> Any:
    """f as if it were in another file."""
    return types.FunctionType(f.__code__.replace(co_filename=name), f.__globals__)


def test_place() -> None:
    line = found.__code__.co_firstlineno + 2
    assert Agent().run() == f"{NAME}:{line} {'found.<locals>.<lambda>' if qualified else '<lambda>'}"
    assert asyncio.run(Agent().arun()).startswith(f"{NAME}:{line} ")


@pytest.mark.parametrize(
    "name",
    [
        "<string>",
        "<frozen importlib._bootstrap>",
        sysconfig.get_paths()["stdlib"] + "/asyncio/tasks.py",
        "/app/venv/lib/python3.12/site-packages/openai/_client.py",
        "C:\\venv\\Lib\\site-packages\\openai\\_client.py",
        "/usr/lib/python3/dist-packages/requests/api.py",
        str(pathlib.Path(sys.modules["llmtap"].__file__ or "").parent / "_httpx.py"),
    ],
)
def test_libraries(name: str) -> None:
    finder = Finder()

    def call(f: Callable[[], str]) -> str:
        return f()

    assert as_file(name, call)(finder.find).startswith(NAME + ":")


def test_relative_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def file(cwd: str, path: list[str], name: str) -> str:
        monkeypatch.setattr(os, "getcwd", lambda: cwd)
        monkeypatch.setattr(sys, "path", path)
        return Finder()._file(name)

    assert file("/srv/agent", ["/srv/agent/bin"], "/srv/agent/bin/run.py") == "bin/run.py"
    assert file("/", ["/app", "/lib"], "/app/core/agent.py") == "core/agent.py"
    assert file("/home/u", ["/opt/bin", "/srv"], "/srv/core/agent.py") == "core/agent.py"
    assert file("/home/u", [], "/srv/core/agent.py") == "agent.py"
    assert file("/home/u", [], "core/agent.py") == "core/agent.py"
    assert file("/w", [], "/w/" + "目录/" * 60 + "a.py").endswith("目录/a.py")
    assert len(file("/w", [], "/w/" + "a" * 200 + ".py")) == 160


def test_removed_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def removed() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", removed)
    monkeypatch.setattr(sys, "path", ["", "/srv"])
    assert Finder()._file("/srv/core/agent.py") == "core/agent.py"


def test_setting() -> None:
    for given, variable, want in ((None, "", True), (None, "off", False), (True, "off", True), (False, "", False)):
        config = Config(code=given)
        config.complete({"LLMTAP_CODE": variable})
        assert config.code is want
