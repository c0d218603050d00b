"""The plugin of pytest, with the fixture llmtap_histories. The command llmtap writes the file, as for llmtap record -- pytest.

pytest imports it in every project of an environment with the hook. It is not part of the package, whose import only the fixture needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from typing import Iterator

import pytest


@pytest.fixture(scope="session")
def llmtap_histories() -> Iterator[str]:
    """Records the LLM calls of the test and of those that follow in a file that llmtap lint reads.

    Returns its path, histories.jsonl, or histories-gw0.jsonl in a worker of pytest-xdist. The file is complete when the session ends.
    """
    from llmtap import instrument, uninstrument

    worker = os.environ.get("PYTEST_XDIST_WORKER")
    path = f"histories-{worker}.jsonl" if worker else "histories.jsonl"
    program = shutil.which("llmtap", path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath))))
    if program is None:
        pytest.fail("llmtap_histories: the command llmtap is not installed; see https://github.com/llmtap/llmtap")
    # The recorder ends with its child, which ends with this process or when its input is closed.
    command = [program, "record", "-o", path, "--", "sh", "-c", 'echo "$LLMTAP_ENDPOINT"; exec cat']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        endpoint = recorder.stdout.readline().strip()
        if not endpoint:
            pytest.fail("llmtap_histories: llmtap record has not started")
        uninstrument()  # what a module has started
        instrument(endpoint=endpoint, capture="full", hosts=["127.0.0.1", "localhost"], flush_timeout=30)
        yield path
        uninstrument()
    if recorder.returncode:
        pytest.fail(f"llmtap_histories: llmtap record could not write {path}")
