"""The account of a call, of which only a hash is published. Go's wire.Account and event.HashAccount are the reference."""

from __future__ import annotations

import functools
import hashlib
import hmac
from urllib.parse import parse_qs

from . import _event
from ._wire import KEY_HEADERS, KEY_PREFIXES, PART_HEADERS, TOKEN_PREFIXES


def account(hash_key: bytes, headers: dict[str, list[str]], query: str) -> str:
    """The hash of the key of a request; "" if there is none, or if it may expire: its renewal would look like another account."""
    key = ""
    for name in KEY_HEADERS:
        if name in headers:
            key = _key(name, headers[name][0])
            if key:
                break
    if not key and "key=" in query:
        key = _key("", "".join(parse_qs(query).get("key", [])[:1]))
    if not key:
        return ""
    return _hash(hash_key, "\n".join((key, *(headers[name][0] if name in headers else "" for name in PART_HEADERS))))


def _key(name: str, value: str) -> str:
    """The key in a header, or in the query if name is empty; "" if it may expire."""
    if name == KEY_HEADERS[0]:
        if value.startswith("AWS4-"):
            key = value.partition("Credential=")[2].partition("/")[0]
            return key if key.startswith("AKIA") else ""
        scheme, _, token = value.partition(" ")
        if scheme.lower() != "bearer":
            return ""
        value = token.strip()
    if value.startswith(TOKEN_PREFIXES) or (name in KEY_HEADERS[:2] and not value.startswith(KEY_PREFIXES)):
        return ""
    return value


@functools.lru_cache(maxsize=16)  # a process seldom has several keys
def _hash(hash_key: bytes, text: str) -> str:
    return hmac.new(hash_key, _event.utf8(text), hashlib.sha256).hexdigest()[:8]
