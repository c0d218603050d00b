"""Selects the calls to record by host: known providers and configured hosts."""

from __future__ import annotations

import functools
import logging
import re
from typing import Any, Iterable, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from ._original import Locked, RLock
from ._shape.detect import looks_like_call
from ._wire import HOST_LABELS, HOST_SUFFIXES, HOSTS, OLLAMA_PORT

_log = logging.getLogger("llmtap")

_HOSTS = frozenset(HOSTS)
_OLLAMA = frozenset(("localhost", "127.0.0.1", "::1"))

_MAX_KNOWN = 128  # number of cached URLs; agents call only a few
MAX_UNKNOWN = 64  # number of unknown hosts that are logged


class Target(NamedTuple):
    """The URL of a call in parts."""

    url: str  # scheme, host, port and escaped path, for publishing
    path: str
    query: str  # may contain a key


class Unknown(NamedTuple):
    """The URL of an LLM call to an unknown host."""

    host: str  # with the port, if any; in lower case
    dialect: str


class HostPort(NamedTuple):
    """A host in lower case, without brackets, and a port; port "" stands for any port."""

    name: str
    port: str


def parse_host(s: str) -> HostPort:
    """Parses a host with an optional port. Accepts URLs, whose scheme and path are ignored. Raises ValueError."""
    h = s.strip().lower()
    if "/" in h:
        h = re.split("[/?#]", h.partition("://")[2] if "://" in h else h)[0].rpartition("@")[2]
    if h[:2] in ("*.", "*-"):
        h = h[1:]
    name, port = h, ""
    if h.count(":") == 1 or "]:" in h:
        name, _, port = h.rpartition(":")
        if not re.fullmatch("[0-9]+", port):
            raise ValueError(f"{s!r}: invalid port")
    if name[:1] == "[" and name[-1:] == "]":
        name = name[1:-1]
    if not name.strip(".-") or re.search("[ \t*@?#,;\"'\\[\\]]", name):
        raise ValueError(f'{s!r} is not a host: use "llm.example.com", "10.0.0.7:8000" or "*.example.com"')
    return HostPort(name, port)


class Hosts(Locked):
    """The hosts to record. Immutable but for the counter of unrecorded calls."""

    def __init__(self, extra: Iterable[str] = ()) -> None:
        self._exact: set[HostPort] = set()
        self._suffixes: list[HostPort] = []
        for p in map(parse_host, extra):
            if p.name[0] in ".-":
                self._suffixes.append(p)
            else:
                self._exact.add(p)
        self._known = functools.lru_cache(_MAX_KNOWN)(self._target)
        self.reset()

    def reset(self) -> None:
        """Resets the counter and its lock, in a forked child."""
        self._lock = RLock()  # guards the fields below; reentrant, because a signal handler may make calls
        self._seen: set[str] = set()
        self._unrecorded = 0

    @property
    def unrecorded(self) -> int:
        """Number of LLM calls to unknown hosts."""
        return self._unrecorded

    def records(self, scheme: str, name: str, port: str) -> bool:
        """Whether calls to a host are recorded. name is in lower case, port "" is the default port of the scheme."""
        if _known(name, port) or (name, "") in self._exact:
            return True
        port = port or ("80" if scheme == "http" else "443")
        return (name, port) in self._exact or any(name.endswith(s.name) and s.port in ("", port) for s in self._suffixes)

    def target(self, url: str, headers: Any) -> Optional[Target]:
        """The target of a POST to url; None if it is not recorded. Counts LLM calls to unknown hosts and logs each host once.
        headers is a mapping of the client that ignores case."""
        target = self._known(url)
        if isinstance(target, Unknown):
            if "json" in str(headers.get("content-type")):
                self._count(target)
            return None
        return target

    def _target(self, url: str) -> Union[Target, Unknown, None]:
        u = urlsplit(url)
        host, name = u.netloc.rpartition("@")[2], (u.hostname or "").lower()
        port = host.rpartition("]")[2].partition(":")[2]
        if self.records(u.scheme, name, port):
            return Target(f"{u.scheme}://{host}{u.path}", u.path, u.query)
        dialect = looks_like_call(u.path, port)
        return Unknown(host.lower(), dialect) if dialect else None

    def _count(self, call: Unknown) -> None:
        with self._lock:
            self._unrecorded += 1
            if call.host in self._seen or len(self._seen) > MAX_UNKNOWN:
                return
            self._seen.add(call.host)
            full = len(self._seen) > MAX_UNKNOWN
        if full:
            _log.warning("llmtap: LLM calls to further unknown hosts are not recorded, only counted")
        else:
            _log.warning(
                "llmtap: LLM calls to an unknown host are not recorded: host %s, API %s; add it with LLMTAP_HOSTS=%s",
                call.host,
                call.dialect,
                call.host,
            )


def _known(name: str, port: str) -> bool:
    """Whether a host belongs to a known provider or to a local Ollama."""
    if name.endswith(HOST_SUFFIXES) or port == OLLAMA_PORT and name in _OLLAMA:
        return True
    while name:
        if name in _HOSTS or any(
            len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after) for before, after in HOST_LABELS
        ):
            return True
        name = name.partition(".")[2]
    return False
