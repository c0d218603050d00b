"""Masks credentials and personal data in the error texts of providers, as redact.json says. Package ingest/event/redact is the reference."""

from __future__ import annotations

import functools
import json
import os
import re

_MASK = b"***"

# Bounds on what is taken for a secret.
_MIN_SECRET = 8  # shorter is a word: user_id, org-wide
_MIN_PASSWORD = 6  # behind the name of a password
_MIN_PLAIN = 16  # so long without a digit or a joint is no English word
_MAX_GAP = 24  # between a name and its value
_MAX_HALVED = 512  # what cut takes off, and what a URL's user and password may be

_MARKUP = b"*.+_@-"
_NO_WORD = re.compile(rb"[^A-Za-z0-9\-_.@+*\\%:]+")
_WORD = re.compile(rb"[A-Za-z0-9\-_.@+*]*")
_VALUE = re.compile(rb"(?:[A-Za-z0-9\-_.@+*/=~%]|\\/)*")
_ESCAPE = re.compile(rb"\\+(?:[nrtbf]|u[0-9a-fA-F]{4})?")
_PERCENT = re.compile(rb"%[0-9a-fA-F]{2}")
_USER = re.compile(rb"(//|\\/\\/)([^\x00-\x20/?#\"'<>\\@\x7f]{1,511})@")
_HALVED = re.compile(rb"[!#-&(-~]*\Z")
_TEXT = re.compile(rb"[!#-&(-~]")
_ZHIPU = re.compile(rb"[0-9a-fA-F]{32}\.[A-Za-z0-9]{16}\Z")
_MAIL = re.compile(rb"[^@]+@.*\.[A-Za-z]{2,}\Z", re.DOTALL)
_RANDOM = re.compile(rb"[0-9*]")
_JOINED = re.compile(rb"[_.\-]")
_COOKIE_NEXT = re.compile(rb"[\"'\\ ]*:")
_COOKIE = re.compile(rb"[\\\"': ]*([^\\\"'\r\n]*)")
_PEM_END = re.compile(rb"[\"']|-----END [A-Z \-]*")
_ACCOUNT = re.compile(rb"[0-9]{12}(?![0-9])")
_IDENTITY = re.compile(rb"[A-Za-z0-9\-_.@+*/=~%:,]*")


class _Words:
    """What redact.json knows."""

    def __init__(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "redact.json"), encoding="utf-8") as f:
            known = json.load(f)
        # By their first letter: prefix, bytes behind it, whether it is one of ids.
        self.prefixes: dict[int, list[tuple[bytes, int, bool]]] = {}
        for kind in ("keys", "ids"):
            for text, least in known[kind].items():
                self.prefixes.setdefault(ord(text[0]), []).append((text.encode(), least, kind == "ids"))
        # By their last letter: name, what it says, whether it may end a longer one.
        self.names: dict[int, list[tuple[bytes, str, bool]]] = {}
        for said, names in known["names"].items():
            for name in names:
                text = name.rstrip("$")
                self.names.setdefault(ord(text[-1]), []).append((text.encode(), said, name.endswith("$")))
        self.plain: frozenset[bytes] = frozenset(w.encode() for w in known["plain"])


@functools.cache
def _words() -> _Words:
    return _Words()


def cut(text: bytes, limit: int) -> bytes:
    """The first limit bytes of text, less what the cut halves: the rest of a secret might not look like one. What is longer than 512
    bytes is halved, for it is known by how it begins."""
    if len(text) <= limit:
        return text
    if limit <= 0 or not _TEXT.match(text, limit):
        return text[:limit]
    m = _HALVED.search(text[max(0, limit - _MAX_HALVED - 1) : limit])
    halved = len(m.group()) if m else 0
    return text[:limit] if halved > _MAX_HALVED else text[: limit - halved]


def masked(text: bytes) -> bytes:
    """text without credentials and personal data."""
    return _Reader(text).read()


def _looks_random(w: bytes) -> bool:
    """w is no English words joined by hyphens, dots or underscores."""
    return _RANDOM.search(w) is not None or len(w) >= _MIN_PLAIN and _JOINED.search(w) is None


def _prefix_of(w: bytes) -> tuple[int, bool]:
    """How long the prefix of the key or the id in w is, 0 if w is none; and whether it is an id."""
    for text, least, is_id in _words().prefixes.get(w[0] | 0x20, ()):
        n = len(text)
        if len(w) >= n + least and w[:n].lower() == text and w[n] != 0x2D and _looks_random(w[n:]):
            return n, is_id
    return 0, False


def _announced(w: bytes) -> str:
    """What w says of the value that follows it. A longer name that ends in key or token is a name by itself."""
    for name, said, may_end in _words().names.get(w[-1] | 0x20, ()):
        at = len(w) - len(name)
        if at < 0 or w[at:].lower() != name:
            continue
        if at == 0:
            return said
        if may_end and w[at - 1] in b"_-.":
            return "name" if said == "query" else said
    return ""


def _gap(g: bytes, said: str) -> tuple[bool, bool]:
    """Whether a colon, or an equals sign or a scheme's space, stands between a word and its value."""
    if not g:
        return False, False
    if said == "scheme":
        return False, g in (b"+", b"%20") or not g.strip(b" \t")
    if g[0] in b"\"'\\" and g[-1] not in b"\"'\\/":
        return False, False  # a number or null, and JSON that must stay JSON
    sign = g.strip(b"\"'\\/ ")
    return sign == b":" and said != "query", sign in (b"=", b"%3D", b"%3d")


class _Reader:
    """Goes through a text once."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._out: list[bytes] = []
        self._i = 0  # what is before it is in out
        self._no_mail = 0  # no @ stands in the run of word characters that ends here
        self._said = ""  # what the last word says of the next
        self._ended = 0  # where that word ended
        self._api = False  # that word is "api"

    def read(self) -> bytes:
        text = self._text
        while self._i < len(text):
            m = _NO_WORD.match(text, self._i)
            if m:
                self._keep(m.end())
                continue
            c = text[self._i]
            if c == 0x5C:
                m = _ESCAPE.match(text, self._i)
                self._keep(m.end() if m else self._i + 1)
            elif c == 0x25:
                self._keep(self._i + (3 if _PERCENT.match(text, self._i) else 1))
            elif c == 0x3A:
                self._keep(self._i + 1)
                m = _USER.match(text, self._i)
                if m:
                    self._keep(m.end(1))
                    self._hide(m.end(2))
                    self._keep(m.end())
            else:
                self._word()
        return b"".join(self._out)

    def _keep(self, end: int) -> None:
        self._out.append(self._text[self._i : end])
        self._i = end

    def _hide(self, end: int) -> None:
        self._out.append(_MASK)
        self._i = end

    def _word(self) -> None:
        """Copies or masks the word that begins here, or the value that the word before announced."""
        if self._secret_here():
            return
        text = self._text
        # Around a word there may be markup: **sk-…**, _sk-…_, "sk-….".
        start = self._i
        while start < len(text) and text[start] in _MARKUP:
            start += 1
        if start - self._i >= 5 and text.startswith(b"-----BEGIN ", start - 5):
            self._keep(start - 5)
            self._private()
            return
        end = self._word_end(start)
        self._keep(start)
        if start == end:
            self._said = ""
            return
        w = text[start:end]
        bare = w.rstrip(b".")
        stop = start + len(bare)
        said, api = _announced(bare), self._api
        prefix, is_id = _prefix_of(bare)
        if _MAIL.match(bare):
            self._out.append(_MASK + b"@")
            self._hide(stop)
        elif w == b"arn" and text.startswith(b":aws", end):
            self._arn(end)
        elif said == "cookie" and _COOKIE_NEXT.match(text[end : end + _MAX_GAP]):
            m = _COOKIE.match(text, end)
            assert m is not None
            self._keep(m.start(1))
            if m.end() > m.start(1):
                self._hide(m.end())
        elif _ZHIPU.match(bare):
            self._hide(stop)
        elif prefix:
            self._keep(self._i + prefix)
            self._hide(stop if is_id else self._value_end(stop))
        between = text[self._ended : start]
        if said == "provided":  # "API key provided: …"
            said = "name" if self._said == "name" and between == b" " else ""
        if said == "query" and api and between == b" " and w.lower() == b"key":
            said = "name"
        if self._i < end:
            self._keep(end)
        self._said, self._ended, self._api = said, self._i, w.lower() == b"api"
        if text.startswith(b"+", self._i):
            self._keep(self._i + 1)  # a space, in a query

    def _secret_here(self) -> bool:
        """Masks what the word before announced, if it is that."""
        said, text, i = self._said, self._text, self._i
        if said in ("", "cookie") or i - self._ended > _MAX_GAP:
            return False
        colon, equals = _gap(text[self._ended : i], said)
        if not colon and not equals:
            return False
        if said == "scheme" and text[i : self._word_end(i)].rstrip(b".").lower() in _words().plain:
            return False
        end = self._value_end(i)
        v = text[i:end]
        if _MASK in v:  # masked already
            return False
        if not (said == "password" and len(v) >= _MIN_PASSWORD) and (len(v) < _MIN_SECRET or colon and not _looks_random(v)):
            return False
        # What says of which kind a key is stays.
        prefix, _ = _prefix_of(v)
        if prefix:
            self._keep(i + prefix)
        self._hide(end)
        self._said, self._ended, self._api = "", self._i, False
        return True

    def _word_end(self, i: int) -> int:
        """Where the word at i ends. A + joins words, as in a query, but not in a mail address."""
        text = self._text
        m = _WORD.match(text, i)
        assert m is not None
        end = m.end()
        plus = text.find(b"+", i, end)
        if plus < 0:
            return end
        if plus < self._no_mail:
            at = text.find(b"@", i, plus)
            return end if at >= 0 else plus
        if text.find(b"@", i, end) >= 0:
            return end
        self._no_mail = end
        return plus

    def _value_end(self, i: int) -> int:
        """Where the value that i is in ends."""
        m = _VALUE.match(self._text, i)
        assert m is not None
        end = m.end()
        while self._text[end - 1] == 0x2E:
            end -= 1
        return end

    def _private(self) -> None:
        """Masks a private key in PEM, up to its end, or to the quote that ends it."""
        text, i = self._text, self._i
        self._said, self._api = "", False
        if b"PRIVATE KEY" not in text[i : i + 48]:
            self._keep(i + len(b"-----BEGIN"))
            return
        m = _PEM_END.search(text, i + len(b"-----BEGIN"))
        end = len(text)
        if m:
            end = m.start() if m.group() in (b'"', b"'") else m.end()
        while text[end - 1] == 0x5C:  # of an escaped quote
            end -= 1
        self._hide(end)

    def _arn(self, at: int) -> None:
        """Masks the account in a name of AWS, and who it is: arn:aws:sts::123456789012:assumed-role/agent/jane."""
        text, service = self._text, b""
        at = self._i
        for n in range(4):  # arn, partition, service, region
            colon = text.find(b":", at, at + 32)
            if colon < 0:
                return
            if n == 2:
                service = text[at:colon]
            at = colon + 1
        m = _ACCOUNT.match(text, at)
        if m is None:
            return
        end = m.end()
        if service in (b"iam", b"sts"):
            m = _IDENTITY.match(text, end)
            end = m.end() if m else end
        self._keep(at)
        self._hide(end)
