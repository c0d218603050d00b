"""Selects the calls to record by host: known providers and configured hosts."""

from __future__ import annotations

import functools
from typing import Iterable, NamedTuple, Optional
from urllib.parse import urlsplit

from ._wire import HOST_LABELS, HOST_SUFFIXES, HOSTS, OLLAMA_PORT

_HOSTS = frozenset(HOSTS)
_OLLAMA = frozenset(f"{h}:{OLLAMA_PORT}" for h in ("localhost", "127.0.0.1", "[::1]"))

_MAX_KNOWN = 128  # number of cached URLs; agents call only a few


class Target(NamedTuple):
    """The URL of a call in parts."""

    url: str  # scheme, host, port and escaped path, for publishing
    path: str
    query: str  # may contain a key


class Hosts:
    """The hosts to record. Immutable."""

    def __init__(self, extra: Iterable[str] = ()) -> None:
        self._exact: set[str] = set()  # "host" or "host:port"
        suffixes: list[str] = []
        for h in extra:
            h = h.lower()
            if h[:1] in (".", "-"):
                suffixes.append(h)
            elif h:
                self._exact.add(h)
        self._suffixes = tuple(suffixes)
        self._known = functools.lru_cache(_MAX_KNOWN)(self._target)

    def has(self, host: str, name: str) -> bool:
        """Whether a host is recorded. host includes the port, if any; name does not. Both are in lower case."""
        return _known(host, name) or host in self._exact or name in self._exact or name.endswith(self._suffixes)

    def target(self, url: str) -> Optional[Target]:
        """The target of a call to url; None if the call is not recorded."""
        return self._known(url)

    def _target(self, url: str) -> Optional[Target]:
        u = urlsplit(url)
        host = u.netloc.rpartition("@")[2]
        if not self.has(host.lower(), (u.hostname or "").lower()):
            return None
        return Target(f"{u.scheme}://{host}{u.path}", u.path, u.query)


def _known(host: str, name: str) -> bool:
    """Whether a host belongs to a known provider or to a local Ollama."""
    if name.endswith(HOST_SUFFIXES) or host in _OLLAMA:
        return True
    while name:
        if name in _HOSTS or any(
            len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after) for before, after in HOST_LABELS
        ):
            return True
        name = name.partition(".")[2]
    return False
