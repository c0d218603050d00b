"""The hook of programs that do not know it: python -m llmtap, and what its sitecustomize leaves alone."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from conftest import HERE, Nats
from provider import Provider

SITE = HERE.parent / "llmtap" / "_site"


def run(args: list[str], directory: pathlib.Path, path: list[Any], **env: str) -> subprocess.CompletedProcess[str]:
    for name in ("PYTHONPATH", "_LLMTAP_TOLD"):
        os.environ.pop(name, None)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run([sys.executable, *args], cwd=directory, env=env, capture_output=True, text=True)


def test_module(running: Nats, provider: Provider, tmp_path: pathlib.Path) -> None:
    """python -m llmtap records a program and its child, which it runs as Python does."""
    program = """
        import subprocess, sys, httpx
        if __name__ == "__main__":
            print(sys.argv, sys.path[0] == DIRECTORY)
            httpx.post(URL, content=BODY)
            if sys.argv[1:] != ["child"]:
                sys.exit(subprocess.run([sys.executable, __file__, "child"]).returncode + 3)
    """
    body = b'{"model": "of test_module"}'  # other tests publish to the same server
    values = f"DIRECTORY, URL, BODY = {str(tmp_path)!r}, {provider.url('ok')!r}, {body!r}\n"
    (tmp_path / "program.py").write_text(values + textwrap.dedent(program))
    env = {"LLMTAP_NATS_URL": running.url, "LLMTAP_SERVICE": "svc", "LLMTAP_HOSTS": provider.host, "LLMTAP_CAPTURE": "full"}
    done = run(["-m", "llmtap", "--", "program.py", "-x"], tmp_path, [HERE.parent], **env)
    assert (done.returncode, done.stderr) == (3, "")
    assert "['program.py', '-x'] True" in done.stdout.splitlines()
    requests = [m for m in running.messages() if m.data == body]
    assert [(m["Llmtap-Service"], m["Llmtap-Capture"]) for m in requests] == [("svc", "full")] * 2
    done = run(["-m", "llmtap"], tmp_path, [HERE.parent])
    assert done.returncode == 1 and done.stderr.startswith("usage: python -m llmtap")


@pytest.mark.parametrize(
    "module", ["urllib.request", "http.cookiejar", "http.client", "xmlrpc.client", "nats", "requests.adapters", "aiohttp", "httpx", "llmtap"]
)
def test_any_import_order(module: str, tmp_path: pathlib.Path) -> None:
    """The hook is there after the import, whatever it imports on the way, and all clients have it."""
    check = f"""
        import {module}, sys
        from llmtap._patch import hook_of
        assert hook_of().automatic and hook_of()._sender is None
        import httpx, requests, aiohttp
        for method in (httpx.HTTPTransport.handle_request, requests.adapters.HTTPAdapter.send, aiohttp.BaseConnector.connect):
            assert hasattr(method, "_llmtap"), method
    """
    done = run(["-W", "error", "-c", textwrap.dedent(check)], tmp_path, [SITE, HERE.parent])
    assert (done.returncode, done.stderr) == (0, "")


def test_own_instrument(tmp_path: pathlib.Path) -> None:
    """The settings of the program win, also if it has clients first."""
    code = """
        import httpx, llmtap
        llmtap.instrument(service="own", capture="none")
        import llmtap.register
        from llmtap._patch import hook_of
        print(hook_of().config)
    """
    done = run(["-c", textwrap.dedent(code)], tmp_path, [SITE, HERE.parent], LLMTAP_SERVICE="svc", LLMTAP_CAPTURE="full")
    assert done.returncode == 0 and "service='own'" in done.stdout and "capture='none'" in done.stdout


def test_nothing_changes(tmp_path: pathlib.Path) -> None:
    """Another sitecustomize, the path, warnings, tracebacks and modules without an HTTP client are as without the hook."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import sys\nsys.other = __file__\n")
    (tmp_path / "old.py").write_text("import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\nraise KeyError('old')\n")
    (tmp_path / "program.py").write_text(
        "import sys, sitecustomize\nprint(sys.other, sitecustomize.__file__, sys.path, 'llmtap' in sys.modules)\nimport old\n"
    )
    with_hook, without = (run(["program.py"], tmp_path, path) for path in ([SITE, other, HERE.parent], [other, HERE.parent]))
    assert (with_hook.returncode, with_hook.stdout, with_hook.stderr) == (without.returncode, without.stdout, without.stderr)
    assert "DeprecationWarning: old" in without.stderr and without.stdout.endswith(" False\n")
    (other / "sitecustomize.py").write_text("raise KeyError('broken')\n")
    with_hook, without = (run(["-c", "print(1)"], tmp_path, path) for path in ([SITE, other, HERE.parent], [other, HERE.parent]))
    assert (with_hook.returncode, with_hook.stdout, with_hook.stderr) == (without.returncode, without.stdout, without.stderr)


def test_errors_stay_inside(tmp_path: pathlib.Path) -> None:
    """Without the package, or with a setting that is invalid, the program runs and says so."""
    for path, env, said in (
        ([SITE], {}, "the package llmtap is not installed for"),
        ([SITE, HERE.parent], {"LLMTAP_CAPTURE": "all"}, "capture 'all'"),
    ):
        done = run(["-c", "import urllib.request; print(1)"], tmp_path, path, **env)
        assert (done.returncode, done.stdout) == (0, "1\n") and said in done.stderr and done.stderr.count("\n") == 1
