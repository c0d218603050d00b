"""Masks credentials and personal data in error texts by the rules of redact.json. Package ingest/sdk/go/event/redact is the reference."""

from __future__ import annotations

import functools
import json
import os
import re

from ._event import MAX_HEADER_VALUE, clip, utf8

_MASK = b"***"

# Lengths in bytes.
_MIN_SECRET = 8  # shorter values are words, such as user_id and org-wide
_MIN_PASSWORD = 6  # of a value after the name of a password
_MIN_PLAIN = 16  # length from which a word without digits and separators is not English
_MAX_GAP = 24  # between a name and its value
_MAX_ATTR = 4 << 10  # of the value of an attribute that is masked before it is truncated
_MAX_WORD = 512  # of a word that truncate removes, and of the userinfo of a URL

_MARKUP = b"*.+_@-"
_NO_WORD = re.compile(rb"[^A-Za-z0-9\-_.@+*\\%:]+")
_WORD = re.compile(rb"[A-Za-z0-9\-_.@+*]*")
_VALUE = re.compile(rb"(?:[A-Za-z0-9\-_.@+*/=~%]|\\/)*")
_ESCAPE = re.compile(rb"\\+(?:[nrtbf]|u[0-9a-fA-F]{4})?")
_PERCENT = re.compile(rb"%[0-9a-fA-F]{2}")
_USER = re.compile(rb"(//|\\/\\/)([^\x00-\x20/?#\"'<>\\@\x7f]{1,511})@")
_SPLIT = re.compile(rb"[!#-&(-~]*\Z")
_TEXT = re.compile(rb"[!#-&(-~]")
_TELEGRAM = re.compile(rb"AA[A-Za-z0-9_-]{33}\Z")
_TELEGRAM_ID = re.compile(rb"[0-9](?::|%3[Aa])\Z")
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
    """The rules of redact.json."""

    def __init__(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "redact.json"), encoding="utf-8") as f:
            known = json.load(f)
        # By first letter: prefix, minimum length of the rest, whether it is the prefix of an id.
        self.prefixes: dict[int, list[tuple[bytes, int, bool]]] = {}
        for section in ("keys", "ids"):
            for text, least in known[section].items():
                self.prefixes.setdefault(ord(text[0]), []).append((text.encode(), least, section == "ids"))
        # By last letter: name, kind of the value, whether it may end a longer name.
        self.names: dict[int, list[tuple[bytes, str, bool]]] = {}
        for kind, names in known["names"].items():
            for name in names:
                text = name.rstrip("$")
                self.names.setdefault(ord(text[-1]), []).append((text.encode(), kind, name.endswith("$")))
        self.plain: frozenset[bytes] = frozenset(w.encode() for w in known["plain"])


@functools.cache
def _words() -> _Words:
    return _Words()


def load() -> None:
    """Reads the rules, which the first masked text would do otherwise."""
    _words()


def truncate(text: bytes, limit: int) -> bytes:
    """The first limit bytes of text. If the limit splits a word, the word is removed, because the first part of a secret may be
    unrecognizable. Words longer than 512 bytes are split, because secrets of that length are recognized by their start."""
    if len(text) <= limit:
        return text
    if limit <= 0 or not _TEXT.match(text, limit):
        return text[:limit]
    m = _SPLIT.search(text[max(0, limit - _MAX_WORD - 1) : limit])
    split = len(m.group()) if m else 0
    return text[:limit] if split > _MAX_WORD else text[: limit - split]


def masked(text: bytes) -> bytes:
    """The text with credentials and personal data masked."""
    return _Reader(text).read()


def clip_attr(s: str) -> str:
    """Truncates the value of an attribute. A long one is masked before, because the rest of a secret may not look like one; others are
    masked in the background."""
    if len(s) * 4 <= MAX_HEADER_VALUE:
        return s
    b = utf8(s)
    return s if len(b) <= MAX_HEADER_VALUE else clip(masked(truncate(b, _MAX_ATTR)).decode("utf-8", "surrogateescape"))


def clip_error(s: str) -> str:
    """Truncates the text of an error, which is masked in the background."""
    return s if len(s) * 4 <= _MAX_ATTR else truncate(utf8(s), _MAX_ATTR).decode("utf-8", "surrogateescape")


def masked_error(s: str) -> str:
    """The text of an error with credentials and personal data masked, truncated to the length of a header value."""
    return clip(masked_attr(s))


def masked_attr(s: str) -> str:
    """The value of an attribute with credentials and personal data masked."""
    return masked(utf8(s)).decode("utf-8", "surrogateescape")


def _looks_random(w: bytes) -> bool:
    """Whether w is not English words joined by hyphens, dots or underscores."""
    return _RANDOM.search(w) is not None or len(w) >= _MIN_PLAIN and _JOINED.search(w) is None


def _prefix_of(w: bytes) -> tuple[int, bool]:
    """The length of the known prefix of w, a key or id (0 if it is neither), and whether w is an id."""
    for text, least, is_id in _words().prefixes.get(w[0] | 0x20, ()):
        n = len(text)
        if len(w) >= n + least and w[:n].lower() == text and w[n] != 0x2D and _looks_random(w[n:]):
            return n, is_id
    return 0, False


def _kind_after(w: bytes) -> str:
    """The kind of the value expected after w. A longer name that ends in key or token is a name."""
    for name, kind, may_end in _words().names.get(w[-1] | 0x20, ()):
        at = len(w) - len(name)
        if at < 0 or w[at:].lower() != name:
            continue
        if at == 0:
            return kind
        if may_end and w[at - 1] in b"_-.":
            return "name" if kind == "query" else kind
    return ""


def _gap(g: bytes, kind: str) -> tuple[bool, bool]:
    """Whether g, between a word and its value, is a colon; and whether it is an equals sign or the space after a scheme."""
    if not g:
        return False, False
    if kind == "scheme":
        return False, g in (b"+", b"%20") or not g.strip(b" \t")
    if g[0] in b"\"'\\" and g[-1] not in b"\"'\\/":
        return False, False  # a number or null in JSON, which must stay valid
    sign = g.strip(b"\"'\\/ ")
    return sign == b":" and kind != "query", sign in (b"=", b"%3D", b"%3d")


class _Reader:
    """Masks a text in one pass."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._out: list[bytes] = []
        self._i = 0  # the text before it is in _out
        self._no_mail = 0  # end of a run of word characters without @
        self._kind = ""  # kind of the value expected after the previous word
        self._ended = 0  # end of the previous word
        self._api = False  # whether the previous word is "api"

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
        """Copies or masks the word that starts here, or the value expected after the previous word."""
        if self._secret_here():
            return
        text = self._text
        # A word may have markup: **sk-…**, _sk-…_, "sk-….".
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
            self._kind = ""
            return
        w = text[start:end]
        bare = w.rstrip(b".")
        stop = start + len(bare)
        kind, api = _kind_after(bare), self._api
        prefix, is_id = _prefix_of(bare)
        if _MAIL.match(bare):
            self._out.append(_MASK + b"@")
            self._hide(stop)
        elif w == b"arn" and text.startswith(b":aws", end):
            self._arn(end)
        elif kind == "cookie" and _COOKIE_NEXT.match(text[end : end + _MAX_GAP]):
            m = _COOKIE.match(text, end)
            assert m is not None
            self._keep(m.start(1))
            if m.end() > m.start(1):
                self._hide(m.end())
        elif _ZHIPU.match(bare) or _TELEGRAM.match(bare) and _TELEGRAM_ID.search(text[max(0, start - 4) : start]):
            self._hide(stop)
        elif prefix:
            self._keep(self._i + prefix)
            self._hide(stop if is_id else self._value_end(stop))
        between = text[self._ended : start]
        if kind == "provided":  # "API key provided: …"
            kind = "name" if self._kind == "name" and between == b" " else ""
        if kind == "query" and api and between == b" " and w.lower() == b"key":
            kind = "name"
        if self._i < end:
            self._keep(end)
        self._kind, self._ended, self._api = kind, self._i, w.lower() == b"api"
        if text.startswith(b"+", self._i):
            self._keep(self._i + 1)  # an encoded space in a query

    def _secret_here(self) -> bool:
        """Masks the value expected after the previous word, if it looks like one."""
        kind, text, i = self._kind, self._text, self._i
        if kind in ("", "cookie") or i - self._ended > _MAX_GAP:
            return False
        colon, equals = _gap(text[self._ended : i], kind)
        if not colon and not equals:
            return False
        if kind == "scheme" and text[i : self._word_end(i)].rstrip(b".").lower() in _words().plain:
            return False
        end = self._value_end(i)
        v = text[i:end]
        if _MASK in v:  # already masked
            return False
        if not (kind == "password" and len(v) >= _MIN_PASSWORD) and (len(v) < _MIN_SECRET or colon and not _looks_random(v)):
            return False
        # Keep the prefix, which identifies the kind of key.
        prefix, _ = _prefix_of(v)
        if prefix:
            self._keep(i + prefix)
        self._hide(end)
        self._kind, self._ended, self._api = "", self._i, False
        return True

    def _word_end(self, i: int) -> int:
        """The end of the word at i. A + separates words, as in a query, except in an email address."""
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
        """The end of the value that contains i."""
        m = _VALUE.match(self._text, i)
        assert m is not None
        end = m.end()
        while self._text[end - 1] == 0x2E:
            end -= 1
        return end

    def _private(self) -> None:
        """Masks a PEM private key up to its end or the closing quote."""
        text, i = self._text, self._i
        self._kind, self._api = "", False
        if b"PRIVATE KEY" not in text[i : i + 48]:
            self._keep(i + len(b"-----BEGIN"))
            return
        m = _PEM_END.search(text, i + len(b"-----BEGIN"))
        end = len(text)
        if m:
            end = m.start() if m.group() in (b'"', b"'") else m.end()
        while text[end - 1] == 0x5C:  # backslashes before the quote
            end -= 1
        self._hide(end)

    def _arn(self, at: int) -> None:
        """Masks the account and identity in an ARN: arn:aws:sts::123456789012:assumed-role/agent/jane."""
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
