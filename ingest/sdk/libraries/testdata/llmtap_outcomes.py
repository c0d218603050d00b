"""A pytest plugin that writes the outcome of each test to $LLMTAP_TEST_OUTCOMES, with the hook if $LLMTAP_NATS_URL is set."""

import json
import os

_outcomes = {}
_hooked = "LLMTAP_NATS_URL" in os.environ

if _hooked:
    import llmtap
    from llmtap._hosts import Hosts

    Hosts.records = lambda *_: True  # every host
    llmtap.instrument(service=os.environ["LLMTAP_TEST_SERVICE"])


def pytest_runtest_logreport(report):
    if report.failed:
        _outcomes[report.nodeid] = "fail"
    elif report.skipped or report.when == "call":
        _outcomes.setdefault(report.nodeid, "skip" if report.skipped else "pass")


def pytest_sessionfinish():
    with open(os.environ["LLMTAP_TEST_OUTCOMES"], "w") as f:
        json.dump(_outcomes, f)
    if _hooked:
        llmtap.flush(10)
        assert llmtap.stats().errors == 0, "internal errors of the hook"
