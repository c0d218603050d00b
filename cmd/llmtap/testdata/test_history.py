import json
import pathlib
import subprocess

import pytest

HISTORIES = sorted(pathlib.Path("recorded").glob("*.jsonl"))
assert HISTORIES, "no recorded histories"


@pytest.mark.parametrize("path", HISTORIES, ids=str)
def test_provider_would_accept(path):
    lint = subprocess.run(
        ["llmtap", "lint", "--format", "jsonl", "--severity", "reject", path], capture_output=True, text=True
    )
    faults = [f["summary"] for line in lint.stdout.splitlines() for f in json.loads(line)["findings"]]
    assert not faults, "\n".join(faults)
    assert lint.returncode == 0, lint.stdout + lint.stderr  # 2: unreadable, 3: not judged
