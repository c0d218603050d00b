"""Compiles shape_paths.json: the protocol positions of bodies."""

from __future__ import annotations

import functools
import json
import os
from typing import Any, Optional

# The part of a tool call that a node contains.
HEAD_NONE, HEAD_ID, HEAD_NAME, HEAD_INDEX = range(4)

_MAX_DEFS = 8  # nesting of defs


class Join:
    """Positions whose fragments form one text."""

    __slots__ = ("slots", "arguments", "args_slot", "args_if", "blank", "run", "calls", "salt")

    def __init__(self, salt: int, spec: dict[str, Any]) -> None:
        self.salt = salt
        self.slots: tuple[int, ...] = ()  # slots of the values in "by"
        self.arguments = bool(spec.get("arguments"))
        self.args_slot = -1  # the text is arguments if the value of this slot is one of args_if
        self.args_if: tuple[bytes, ...] = ()
        self.blank = bool(spec.get("blank"))
        self.run = bool(spec.get("run"))
        self.calls = bool(spec.get("calls"))


class Node:
    """One position of a body. None instead of a node is free content."""

    __slots__ = ("kids", "elem", "keep", "below", "text", "arguments", "join", "slot", "own", "run", "calls", "head", "noted", "marked")

    def __init__(self) -> None:
        self.kids: Optional[dict[bytes, Node]] = None
        self.elem: Optional[Node] = None  # elements of an array
        self.keep = self.below = self.text = self.arguments = False
        self.join: Optional[Join] = None
        self.slot = -1  # slot of the node's value, if it is in "by" of a join
        # Only set for an event, or an element in an event, whose members identify fragments:
        self.own: tuple[int, ...] = ()  # slots below the node, except those below inner elements
        self.run: Optional[Join] = None  # join of the text, if it is a part of a message
        self.calls: Optional[Join] = None  # join of the arguments, if it is a tool call
        self.head = HEAD_NONE
        self.noted = self.marked = False  # has slot or head; has own, run or calls

    def member(self, spellings: list[str]) -> Node:
        """The node of a member."""
        if self.kids is None:
            self.kids = {}
        kid = self.kids.get(spellings[0].encode())
        if kid is None:
            kid = Node()
        for s in spellings:
            self.kids[s.encode()] = kid
        return kid


class Table:
    """The positions of a dialect."""

    __slots__ = ("request", "response", "event", "events", "slots")

    def __init__(self, spec: dict[str, Any]) -> None:
        defs = spec.get("defs", {})
        self.request, _ = _compile(defs, spec.get("request", {}))
        self.response, _ = _compile(defs, spec.get("response", {}))
        self.event, self.slots = _compile(defs, spec.get("event", {}))
        self.events = Node()  # an array of events
        self.events.elem = self.event


@functools.cache
def tables() -> dict[str, Table]:
    """The dialects of shape_paths.json."""
    with open(os.path.join(os.path.dirname(__file__), "shape_paths.json"), encoding="utf-8") as f:
        dialects = json.load(f)["dialects"]
    return {name: Table(spec) for name, spec in dialects.items()}


def _compile(defs: dict[str, Any], spec: dict[str, Any]) -> tuple[Node, int]:
    root = Node()
    _add(root, "", spec, defs, 0)
    slots = _joins(root, spec.get("join", []))
    _mark(root, set())
    return root, slots


def _mark(n: Node, seen: set[int]) -> None:
    if id(n) in seen:
        return
    seen.add(id(n))
    n.noted = n.slot >= 0 or n.head != HEAD_NONE
    n.marked = bool(n.own) or n.run is not None or n.calls is not None
    for kid in (n.kids or {}).values():
        _mark(kid, seen)
    if n.elem is not None:
        _mark(n.elem, seen)


def _add(root: Node, prefix: str, spec: dict[str, Any], defs: dict[str, Any], depth: int) -> None:
    if depth > _MAX_DEFS:
        raise ValueError(f"{prefix}: recursive defs")
    for kind in ("keep", "below", "text", "arguments"):
        for path in spec.get(kind, []):
            setattr(_reach(root, prefix, path), kind, True)
    for path in spec.get("free", []):
        _reach(root, prefix, path)
    for at, names in spec.get("use", {}).items():
        for name in names:
            _add(root, _dotted(prefix, at), defs[name], defs, depth + 1)


def _dotted(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix and path else prefix + path


def _reach(root: Node, prefix: str, path: str) -> Node:
    """The node at a path. Creates missing nodes."""
    n = root
    for segment in _dotted(prefix, path).split("."):
        name = segment.rstrip("[]")
        if name:
            n = n.member(name.split("|"))
        for _ in range(segment.count("[]")):
            if n.elem is None:
                n.elem = Node()
            n = n.elem
    return n


def _joins(root: Node, specs: list[dict[str, Any]]) -> int:
    """Marks the positions of fragments and of the values that identify them."""
    slots: list[str] = []

    def slot(path: str) -> int:
        if path in slots:
            return slots.index(path)
        slots.append(path)
        at = len(slots) - 1
        _reach(root, "", path).slot = at
        element = path.rfind("[]")
        owner = root if element < 0 else _reach(root, "", path[: element + 2])
        owner.own = (*owner.own, at)
        return at

    for i, spec in enumerate(specs):
        j = Join(i + 1, spec)
        j.slots = tuple(sorted({slot(p) for p in spec.get("by", [])}))
        for path, values in spec.get("arguments_if", {}).items():
            j.args_slot, j.args_if = slot(path), tuple(v.encode() for v in values)
        for path in spec["paths"]:
            _reach(root, "", path).join = j
        if j.run:
            _reach(root, "", spec["run"]).run = j
        if j.calls:
            call = _reach(root, "", spec["calls"])
            call.calls = j
            for path, head in (("id", HEAD_ID), ("function.name", HEAD_NAME), ("index", HEAD_INDEX)):
                _reach(call, "", path).head = head
    return len(slots)
