"""Error texts are masked as in the shared test cases."""

from __future__ import annotations

import base64
import json
import pathlib
import random
from typing import Any, Callable

from conftest import HERE

from llmtap._redact import clip_attr, masked, masked_attr, truncate

CONTRACT = HERE.parents[1] / "testdata" / "redact.json"


def test_cases() -> None:
    cases = json.loads(CONTRACT.read_text("utf-8"))["cases"]
    assert len(cases) > 40
    for c in cases:
        want = c.get("out", c["in"]).encode()
        got = masked(c["in"].encode())
        assert got == want, c["about"]
        assert masked(got) == got, c["about"]


def test_attributes() -> None:
    for c in json.loads(CONTRACT.with_name("attrs.json").read_text("utf-8")):
        assert masked_attr(clip_attr(c["in"])) == c["out"], c["about"]


def test_rules_are_the_shared_file() -> None:
    ours = pathlib.Path(HERE).parent / "llmtap" / "redact.json"
    assert ours.read_bytes() == CONTRACT.read_bytes()


def test_cut() -> None:
    assert truncate(b"abc", 3) == b"abc"
    assert truncate(b"key sk-abcdef", 8) == b"key "
    assert truncate(b"key sk-abcdef", 4) == b"key "
    assert truncate(b"key sk-abcdef", 3) == b"key"
    assert truncate(b"a" * 600, 512) == b""
    assert truncate(b"a" * 600, 513) == b"a" * 513
    assert truncate("héé".encode(), 4) == "héé".encode()[:4]


PIECES = [
    b"sk-", b"api", b" ", b"key", b"api_key", b"=", b":", b'"', b"'", b"\\", b"/", b"//", b"://", b"@", b".", b"com", b"+", b"%20", b"%3D",
    b"Bearer", b"password", b"abcdefgh12", b"cookie", b"arn", b":aws", b"sts", b"123456789012", b"-----BEGIN ", b"PRIVATE KEY", b"-----END ",
    b"***", b"*", b"\\n", b"\\u00e9", b"\xff", b"\n", b"provided", b"token", b"a", b"-", b"_", b"0123456789abcdef0123456789abcdef", b"eyJ",
]  # fmt: skip


def test_random(ask: Callable[..., list[Any]]) -> None:
    r = random.Random(1)
    texts = [b"".join(r.choices(PIECES, k=r.randrange(1, 12))) for _ in range(20_000)]
    answers = ask([{"body": base64.b64encode(t).decode(), "limit": len(t) * 2 // 3} for t in texts], "redact")
    for text, (whole, part) in zip(texts, answers):
        assert masked(text) == base64.b64decode(whole), text
        assert truncate(text, len(text) * 2 // 3) == base64.b64decode(part), text


def test_linear() -> None:
    """Adversarial texts take linear time."""
    for piece in (b"-----BEGIN ", b"a+", b"://", b"key=", b"@", b"\\u", b"%2", b"arn:aws:", b"sk-", b"Bearer ", b"*", b"."):
        masked(piece * 20_000)
