"""Shapes are the same in Go and Python, byte for byte."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import random
from typing import Any, Callable

import pytest
from conftest import HERE, SHARED

from llmtap._shape.detect import detect
from llmtap._shape.paths import tables
from llmtap._shape.shaper import Shaper

KEY = "key"
Case = tuple[str, str, bytes, int]  # kind, dialect, body, limit


def check(ask: Callable[..., list[Any]], cases: list[Case]) -> None:
    questions = [{"kind": k, "dialect": d, "body": base64.b64encode(b).decode(), "limit": n} for k, d, b, n in cases]
    answers = ask(questions, "shape", KEY)
    assert len(answers) == len(cases)
    shaper = Shaper(KEY.encode())
    for (kind, dialect, body, limit), answer in zip(cases, answers):
        want = base64.b64decode(answer)
        got = (shaper.request if kind == "request" else shaper.response)(dialect, body, limit)
        assert got == want, f"{kind} of {dialect}, limit {limit}: {body[:2000]!r}"


def most(body: bytes) -> int:
    return 8 * len(body) + 4096


def examples() -> list[Case]:
    """Every body of the examples in the specification, as a request and as a response of its dialect."""
    path = SHARED / "spec" / "examples.json"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    cases: list[Case] = []

    def walk(v: Any, dialect: str) -> None:
        if isinstance(v, dict):
            dialect = v.get("dialect", dialect) if isinstance(v.get("dialect"), str) else dialect
            body = json.dumps(v).encode()
            for name in [dialect] if dialect in tables() else list(tables()):
                cases.append(("request", name, body, most(body)))
                cases.append(("response", name, body, most(body)))
            for kid in v.values():
                walk(kid, dialect)
        elif isinstance(v, list):
            for kid in v:
                walk(kid, dialect)

    walk(json.loads(path.read_text()), "")
    return cases


def test_examples(ask: Callable[..., list[Any]]) -> None:
    cases = examples()
    assert len(cases) > 1000
    check(ask, cases)


def test_golden_inputs(ask: Callable[..., list[Any]]) -> None:
    folder = HERE.parents[1] / "go" / "shape" / "testdata"
    cases: list[Case] = []
    for path in sorted(folder.glob("*.in")):
        dialect, kind, _ = path.name.split(".")
        body = path.read_bytes()
        for cut in (body, body[: len(body) // 2], body[:-3], body.replace(b"\n", b"\r\n")):
            cases.append(("request" if kind == "request" else "response", dialect, cut, most(cut)))
            cases.append(("request" if kind == "request" else "response", dialect, cut, len(cut)))
    assert len(cases) >= 8 * 15
    check(ask, cases)


def test_recorded_traffic(ask: Callable[..., list[Any]]) -> None:
    path = SHARED / "data" / "exchanges.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    cases: list[Case] = []
    size = 0
    with gzip.open(path) as f:
        for i, line in enumerate(f):
            if i % 11:
                continue
            for v in strings_and_objects(json.loads(line)):
                size += len(v)
                for dialect in tables():
                    for kind in ("request", "response"):
                        cases.append((kind, dialect, v, most(v)))
            if size > 1 << 20:
                break
    check(ask, cases)


def strings_and_objects(v: dict[str, Any]) -> list[bytes]:
    return [x.encode() if isinstance(x, str) else json.dumps(x).encode() for x in v.values() if isinstance(x, (dict, str))]


WORDS = [
    "role", "content", "tool_calls", "id", "function", "arguments", "name", "messages", "choices", "delta", "index", "type", "error",
    "message", "input", "output", "text", "parts", "candidates", "functionCall", "args", "contents", "usage", "tools", "model", "k" * 65,
    "", "é", "\ud83d", "\U0001f600", "a\nb", '"', "\\", "规划",
]  # fmt: skip


def value(r: random.Random, depth: int) -> Any:
    kind = r.randrange(8 if depth > 0 else 5)
    if kind == 0:
        return r.choice(WORDS)
    if kind == 1:
        return r.choice([0, -1, 1.5, 1e30, 12345678901234567890, -0.0])
    if kind == 2:
        return r.choice([True, False, None])
    if kind == 3:
        return json.dumps(value(r, depth - 1) if depth > 0 else {})
    if kind == 4:
        return r.choice(
            ['{"a":1', "{} {}", "  ", "01", "truefalse", '"\\x"', "[1,]", "1e5", "1.e5", "-", '{"b":1,"a":{"d":[],"c":"\\ud800"}}', "nul"]
        )
    if kind == 5:
        return [value(r, depth - 1) for _ in range(r.randrange(4))]
    return {r.choice(WORDS): value(r, depth - 1) for _ in range(r.randrange(5))}


def body(r: random.Random) -> bytes:
    text = json.dumps(value(r, 6), ensure_ascii=r.random() < 0.5, indent=r.choice([None, None, 1])).encode("utf-8", "surrogatepass")
    how = r.randrange(8)
    if how == 0 and text:
        at = r.randrange(len(text))
        return text[:at] + bytes([r.randrange(256)]) + text[at + 1 :]
    if how == 1:
        return text[: r.randrange(len(text) + 1)]
    if how == 2:
        return b"".join(b"data: " + json.dumps(event(r)).encode() + b"\n\n" for _ in range(r.randrange(8))) + b"data: [DONE]\n\n"
    if how == 3:
        return b"\n".join(json.dumps(event(r)).encode() for _ in range(r.randrange(8)))
    if how == 4:
        lines = [r.choice([b"event: error", b"data: {", b"data: }", b": x", b"retry: 3", b"", b"data:", b"id: 7", b"data: oops"]) for _ in range(9)]
        return r.choice([b"\n", b"\r\n", b"\r"]).join(lines)
    if how == 5:
        return json.dumps([event(r) for _ in range(r.randrange(6))]).encode()
    return text


def event(r: random.Random) -> Any:
    """A random event of a stream, mostly of the form of some provider."""
    piece = r.choice(["", "a", "{", '{"x":', "1}", "}", "\\u00e9", "\U0001f600", "\n"])
    call: dict[str, Any] = {"function": {"arguments": piece}}
    for key, v in (("id", r.choice(["", "c1", "c2", None])), ("index", r.choice([0, 1, None])), ("type", "function")):
        if r.random() < 0.6:
            call[key] = v
    if r.random() < 0.4:
        call["function"]["name"] = r.choice(["f", "g", ""])
    delta: dict[str, Any] = {r.choice(["content", "reasoning_content", "refusal"]): piece}
    if r.random() < 0.7:
        delta["tool_calls"] = [call, call] if r.random() < 0.2 else [call]
    return r.choice(
        [
            {"choices": [{"index": r.choice([0, 1]), "delta": delta}]},
            {"choices": [{"index": 0, "delta": delta}, {"index": 1, "delta": delta}]},
            {"type": "content_block_delta", "index": r.choice([0, 1]), "delta": {"type": "text_delta", "text": piece}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}},
            {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": piece},
            {"type": "response.function_call_arguments.delta", "item_id": r.choice(["i", "j"]), "output_index": 1, "delta": piece},
            {"candidates": [{"index": 0, "content": {"parts": [{"text": piece}, {"functionCall": {"name": "f", "args": {"b": piece, "a": 1}}}]}}]},
            {"candidates": [{"content": {"parts": [{"text": piece, "thought": True}]}}]},
            {"contentBlockIndex": 0, "delta": {"toolUse": {"input": piece}}},
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}},
            {"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls": {"function": {"arguments": piece}}}}},
            {"message": {"role": "assistant", "content": piece}, "done": r.random() < 0.1},
            value(r, 3),
        ]
    )


@pytest.mark.parametrize("seed", range(6))
def test_random(ask: Callable[..., list[Any]], seed: int) -> None:
    r = random.Random(seed)
    dialects = [*tables(), "other"]
    cases: list[Case] = []
    for _ in range(3000):
        b = body(r)
        cases.append((r.choice(["request", "response", "response"]), r.choice(dialects), b, r.choice([most(b), most(b), len(b), 50])))
    check(ask, cases)


def test_hostile(ask: Callable[..., list[Any]]) -> None:
    """Deep, wide and long bodies: the same shape as in Go, without recursion, in linear time."""
    deep = b"[" * 3000 + b"]" * 3000
    objects = b'{"a":' * 1500 + b"1" + b"}" * 1500
    bodies = [
        b'{"messages":' + deep + b"}",
        b'{"messages":[{"tool_calls":[{"function":{"arguments":' + json.dumps(deep.decode()).encode() + b"}}]}]}",
        b'{"messages":[{"tool_calls":[{"function":{"arguments":' + json.dumps(objects.decode()).encode() + b"}}]}]}",
        b'{"messages":[{"tool_calls":[{"function":{"arguments":' + objects + b"}}]}]}",
        b'{"messages":[{"content":"' + b"\\n" * 100_000 + b'"}]}',
        b'{"messages":[{"content":"' + b'\\"' * 100_001 + b'"}]}',
        b'{"a":' + b"[" * 100_000,
        b'{"' + b"\\" * 100_001,
        b"data: {\n\n" * 5000,
    ]
    check(ask, [(kind, "openai_chat", b, most(b)) for b in bodies for kind in ("request", "response")])


def test_paths_are_the_shared_file() -> None:
    """The package has a copy of the shared file."""
    ours = pathlib.Path(HERE).parent / "llmtap" / "_shape" / "shape_paths.json"
    assert ours.read_bytes() == (HERE.parents[1] / "testdata" / "shape_paths.json").read_bytes()


def test_detect(ask: Callable[..., list[Any]]) -> None:
    paths = [
        "/v1/chat/completions", "/v1/chat/completions/", "/api/chat", "/v2/chat", "/v1/responses", "/v1/messages", "/x/v1/messages/",
        "/model/a/converse", "/model/a/converse-stream", "/v1beta/models/gemini-3-pro:streamGenerateContent", "/models/g%3AgenerateContent",
        "/publishers/anthropic/models/claude:rawPredict", "/publishers/x/models/claude:rawPredict", "/", "", "/a%3a:generateContent", "/responses/",
        "/model/us.anthropic.claude-opus-4/invoke", "/model/a/invoke", "/model/anthropic.claude-v2%3A1/invoke", "/v1/threads/t/messages",
        "/v1internal:generateContent", "/tunedModels/m:generateContent", "/v1/projects/p/publishers/google/models/g:streamGenerateContent",
    ]  # fmt: skip
    for path, answer in zip(paths, ask([{"path": p, "text": "x"} for p in paths], "event")):
        assert detect(path) == answer[3], path
