"""Logs when publishing fails, when it recovers and what is lost. Silent while publishing works."""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

from . import _event
from ._config import Config, log
from ._original import Locked, RLock, clock

# A failure to publish is logged at once, and while it lasts again after this many seconds, twice that, and so on.
MIN_INTERVAL, MAX_INTERVAL = 60.0, 3600.0
# Seconds after which a failure is logged although no event waits: NATS may be starting too.
START_GRACE = 2.0

NO_STREAM = "no stream has the subject"
_REFUSED = "maximum messages exceeded"  # by a stream that refuses events because the disk is full


class Unsent(NamedTuple):
    """Numbers of events that are not stored."""

    exchanges: int  # of which at least one half is not stored
    steps: int  # run and tool events

    def __str__(self) -> str:
        parts = [f"{self.exchanges} exchange{'' if self.exchanges == 1 else 's'}"] if self.exchanges or not self.steps else []
        return " and ".join(parts + ([f"{self.steps} run and tool events"] if self.steps else []))


class Refused(Exception):
    """An answer of the endpoint that a later attempt may change."""

    def __init__(self, status: int, text: str, after: float = 0) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status, self.after = status, after


def display(urls: str) -> str:
    """URLs separated by commas without credentials and parameters."""
    shown = []
    for one in (u.strip() for u in urls.split(",")):
        u = urlsplit(one if "://" in one else "nats://" + one)
        shown.append(f"{u.scheme}://{u.netloc.rpartition('@')[2]}{u.path}")
    return ",".join(shown)


class Reporter(Locked):
    """Safe for concurrent use."""

    def __init__(self, config: Config) -> None:
        self._to = "the endpoint " + display(config.endpoint) if config.endpoint else "NATS at " + display(config.url)
        self._endpoint = bool(config.endpoint)
        self._token = _event.service_token(config.service)
        self._lock = RLock()  # guards the fields below; reentrant, because the process may exit in a signal handler
        self._failing = ""  # the error of the last attempt to publish, if it failed
        self._fix = ""
        self._denied = ""  # permission violation since the last success
        self._stored = False  # at least one attempt succeeded
        self._logged = False  # the failure was logged
        self._since = self._next = 0.0
        self._interval = MIN_INTERVAL
        self._dropped = 0  # dropped exchanges that were logged
        self._closed = False  # the loss was logged; later failures are not

    def failed(self, error: BaseException, pending: bool, now: Optional[float] = None) -> None:
        """Logs a failed attempt to publish or to connect, unless the failure was logged recently. pending means that events wait."""
        now = clock.monotonic() if now is None else now
        with self._lock:
            if not self._failing:
                self._since = self._next = now
                self._interval, self._logged = MIN_INTERVAL, False
            self._failing, self._fix = _text(error), self._fix_of(error)
            if self._denied:
                self._use_denied()
            if self._closed or now < self._next or not pending and now < self._since + START_GRACE:
                return
            self._logged = True
            self._next, self._interval = now + self._interval, min(2 * self._interval, MAX_INTERVAL)
            log.warning(
                "llmtap: cannot publish to %s, retrying; calls are kept in memory: %s; fix: %s",
                self._to,
                self._failing,
                self._fix,
            )

    def denied(self, error: BaseException) -> None:
        """Records a permission violation, which explains why the following messages are not acknowledged."""
        with self._lock:
            self._denied = _text(error)

    def _use_denied(self) -> None:
        self._failing = self._denied
        self._fix = f"permit the user to publish to llmtap.v1.*.{self._token}.* and to subscribe to _INBOX.{self._token}.>"

    def succeeded(self, dropped: int, now: Optional[float] = None) -> None:
        """Logs that publishing works again if it failed. dropped is the number of exchanges dropped since the start."""
        if not self._failing and self._stored and not self._denied:
            return
        now = clock.monotonic() if now is None else now
        with self._lock:
            if self._failing and self._logged:
                # A warning, because a logger that showed the failure must show its end.
                log.warning(
                    "llmtap: connected to %s after %.1f s, publishing; %d exchanges were dropped",
                    self._to,
                    now - self._since,
                    dropped - self._dropped,
                )
                self._dropped = dropped
            self._failing = self._fix = self._denied = ""
            self._stored = True

    def lost(self, unsent: Unsent, dropped: int, timeout: float) -> None:
        """Logs what is discarded when the hook is closed. timeout is the time that it waited, dropped the number of exchanges
        dropped since the start."""
        with self._lock:
            self._closed = True
            if self._denied:
                self._use_denied()
            if not any(unsent):
                if dropped > self._dropped:
                    log.warning("llmtap: %d exchanges were dropped because memory was full or NATS rejected them", dropped - self._dropped)
                    self._dropped = dropped
                return
            reason = self._failing or f"{'not stored' if self._stored else 'no connection'} within {timeout:g} s"
            log.warning(
                "llmtap: %s discarded at exit, %s has not stored them%s: %s; fix: %s",
                unsent,
                self._to,
                f" ({dropped} exchanges were dropped before)" if dropped else "",
                reason,
                self._fix or self._fix_of(None),
            )

    def _fix_of(self, error: Optional[BaseException]) -> str:
        if self._endpoint:
            return _endpoint_fix(error)
        text = str(error).lower()
        if "authorization" in text or "authentication" in text:
            return "add the token or the user and password to LLMTAP_NATS_URL, or pass credentials in nats_options"
        if NO_STREAM in text:
            return "run llmtap up with this NATS server: it creates the stream"
        if _REFUSED in text:
            return "free space on the disk of llmtap up: it refuses events while the disk is full; llmtap doctor shows it"
        if isinstance(error, ssl.SSLError) or "tls" in text or "ssl" in text:
            return "check whether the server uses TLS, and whether its CA is in LLMTAP_CA_FILE"
        return "run llmtap up, or set LLMTAP_NATS_URL"


def _text(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError) and not str(error).strip():
        return "timed out"
    if type(error).__module__.partition(".")[0] in ("nats", "llmtap"):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _endpoint_fix(error: Optional[BaseException]) -> str:
    """What to do about an error of the endpoint."""
    if isinstance(error, Refused):
        if error.status in (401, 403):
            return "set LLMTAP_TOKEN to the token of receive.token"
        if error.status == 429 or error.status >= 500:
            return "wait, or see /readyz and the log of llmtap up"
        return "LLMTAP_ENDPOINT must be the URL of an llmtap with the role receive"
    if isinstance(error, ssl.SSLError):
        return "check the certificate of the endpoint, and whether its CA is in LLMTAP_CA_FILE"
    return "run llmtap up with the role receive, or correct LLMTAP_ENDPOINT"
