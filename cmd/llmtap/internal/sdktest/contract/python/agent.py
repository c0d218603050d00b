"""An agent that makes calls and exits: python agent.py URL CALLS UNTIL. Its hook has the settings of the environment.

Before it exits, it waits until the hook has logged the text UNTIL, if any. Logs go to standard error."""

from __future__ import annotations

import logging
import sys
import time

import httpx
import llmtap

lines: list[str] = []


class Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        lines.append(record.getMessage())
        print(lines[-1], file=sys.stderr)


logging.getLogger("llmtap").addHandler(Lines())
url, calls, until = sys.argv[1:]
llmtap.instrument(service="svc", flush_timeout=0.2 if until else 20)
for _ in range(int(calls)):
    httpx.post(url, json={"model": "m", "messages": [{"role": "user", "content": "q"}]})
deadline = time.monotonic() + 60
while until and time.monotonic() < deadline and not any(until in line for line in lines):
    time.sleep(0.01)
print(llmtap.stats().unrecorded)
