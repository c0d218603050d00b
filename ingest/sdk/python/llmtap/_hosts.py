"""Which calls are recorded: those to the known providers' API hosts and to configured ones."""

from __future__ import annotations

import functools
from typing import Iterable, NamedTuple, Optional
from urllib.parse import urlsplit

KNOWN = (
    "api.openai.com", ".api.openai.com",
    ".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com",
    "api.deepseek.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com", "aiplatform.googleapis.com", "-aiplatform.googleapis.com",
    "api.mistral.ai", "codestral.mistral.ai",
    "api.groq.com",
    "api.x.ai",
    "api.together.xyz", "api.together.ai",
    "api.fireworks.ai",
    "openrouter.ai",
    "api.moonshot.ai", "api.moonshot.cn",
    "api.z.ai", "open.bigmodel.cn",
    "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com",
    "api.minimax.io", "api.minimaxi.com", "api.minimax.chat",
    "api.cohere.com", "api.cohere.ai",
    "localhost:11434", "127.0.0.1:11434", "[::1]:11434",  # Ollama
)  # fmt: skip

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
        for h in (*KNOWN, *extra):
            h = h.lower()
            if h[:1] in (".", "-"):
                suffixes.append(h)
            elif h:
                self._exact.add(h)
        self._suffixes = tuple(suffixes)
        self._known = functools.lru_cache(_MAX_KNOWN)(self._target)

    def has(self, host: str, name: str) -> bool:
        """host is with its port, if any; name without. Both in lower case."""
        if host in self._exact or name in self._exact or name.endswith(self._suffixes):
            return True
        # bedrock-runtime.us-east-1.amazonaws.com: the region is in the middle.
        return name.startswith("bedrock-runtime") and name.endswith((".amazonaws.com", ".amazonaws.com.cn"))

    def target(self, url: str) -> Optional[Target]:
        """The target of a call to url, None if it is not to be recorded."""
        return self._known(url)

    def _target(self, url: str) -> Optional[Target]:
        u = urlsplit(url)
        host = u.netloc.rpartition("@")[2]
        if not self.has(host.lower(), (u.hostname or "").lower()):
            return None
        return Target(f"{u.scheme}://{host}{u.path}", u.path, u.query)
