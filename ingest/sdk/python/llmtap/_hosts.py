"""Which calls are recorded: those to the known providers' API hosts and to configured ones."""

from __future__ import annotations

import functools
from typing import Iterable, NamedTuple, Optional
from urllib.parse import urlsplit

from ._wire import HOST_LABELS, HOST_SUFFIXES, HOSTS, OLLAMA_PORT

_HOSTS = frozenset(HOSTS)
_OLLAMA = frozenset(f"{h}:{OLLAMA_PORT}" for h in ("localhost", "127.0.0.1", "[::1]"))

_MAX_KNOWN = 128  # URLs whose answer is kept: agents call few


class Target(NamedTuple):
    """Where a call goes."""

    url: str  # scheme, host, port and escaped path: what may be published
    path: str
    query: str  # may hold a key


class Hosts:
    """Answers whether calls to a host are recorded. It never changes once made."""

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
        """host is with its port, if any; name without. Both in lower case."""
        return _known(host, name) or host in self._exact or name in self._exact or name.endswith(self._suffixes)

    def target(self, url: str) -> Optional[Target]:
        """The target of a call to url, None if it is not to be recorded."""
        return self._known(url)

    def _target(self, url: str) -> Optional[Target]:
        u = urlsplit(url)
        host = u.netloc.rpartition("@")[2]
        if not self.has(host.lower(), (u.hostname or "").lower()):
            return None
        return Target(f"{u.scheme}://{host}{u.path}", u.path, u.query)


def _known(host: str, name: str) -> bool:
    """Whether a host is a provider's, or that of Ollama on this machine."""
    if name.endswith(HOST_SUFFIXES) or host in _OLLAMA:
        return True
    while name:
        if name in _HOSTS or any(
            len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after) for before, after in HOST_LABELS
        ):
            return True
        name = name.partition(".")[2]
    return False
