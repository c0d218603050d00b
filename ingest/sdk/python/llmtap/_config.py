"""The configuration of a hook."""

from __future__ import annotations

import logging
import os
import ssl
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Optional
from urllib.parse import unquote_to_bytes, urlsplit

from . import _event
from ._hosts import parse_host
from ._redact import clip_attr

EVENTS_PATH = "/v1/events"
DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_MEMORY_LIMIT = 64 << 20
DEFAULT_FLUSH_TIMEOUT = 2.0
_MIN_MEMORY_LIMIT = 1 << 20  # enough for one stubbed body and a few messages

# Variables in which build systems store the commit, in order of preference.
_COMMIT_VARIABLES = (
    "GIT_COMMIT", "COMMIT_SHA", "GITHUB_SHA", "CI_COMMIT_SHA", "SOURCE_COMMIT", "SOURCE_VERSION", "BUILD_VCS_NUMBER",
    "HEROKU_SLUG_COMMIT", "RENDER_GIT_COMMIT", "VERCEL_GIT_COMMIT_SHA", "K_REVISION",
)  # fmt: skip

_process_key = os.urandom(32)  # key of a process without LLMTAP_SHAPE_KEY

log = logging.getLogger("llmtap")


class InvalidEnvironment(ValueError):
    """An environment variable is invalid. Unlike an invalid argument, it must not stop an agent."""


@dataclass
class Config:
    """The arguments of instrument() with defaults."""

    url: str = ""
    endpoint: str = ""
    token: str = ""
    service: str = ""
    service_version: str = ""
    environment: str = ""
    agent: str = ""
    attrs: dict[str, str] = field(default_factory=dict)
    capture: str = _event.SHAPE
    hosts: tuple[str, ...] = ()
    redact: Optional[Callable[[bytes], bytes]] = None
    on_published: Optional[Callable[[str], object]] = None
    traceparent: Optional[Callable[[], str]] = None
    code: Optional[bool] = None
    keep_user: bool = False
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    flush_timeout: float = DEFAULT_FLUSH_TIMEOUT
    nats_options: dict[str, Any] = field(default_factory=dict)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    user_key: bytes = b""  # LLMTAP_SHAPE_KEY
    shape_key: bytes = b""  # user_key if set, otherwise the generated key of the process

    def complete(self, env: Mapping[str, str]) -> None:
        """Sets the defaults. Raises ValueError for the first error."""
        self.capture = self.capture or _event.SHAPE
        if self.capture not in (_event.SHAPE, _event.FULL, _event.NONE):
            raise ValueError(f'llmtap: capture {self.capture!r}: use "shape", "full" or "none"')
        if isinstance(self.hosts, str):
            raise ValueError("llmtap: hosts is a string; pass a list of strings")
        self._hosts(env)
        self._attributes()
        self._endpoint(env)
        given = self.url
        self.url = given or env.get("LLMTAP_NATS_URL", "") or DEFAULT_URL
        try:
            for u in self.servers():
                _check_url(u)
        except ValueError as e:
            if given:
                raise
            raise InvalidEnvironment(f"{e} (LLMTAP_NATS_URL)") from None
        if self.memory_limit < _MIN_MEMORY_LIMIT:
            raise ValueError(f"llmtap: memory_limit: {self.memory_limit} bytes is below {_MIN_MEMORY_LIMIT}")
        if self.flush_timeout < 0:
            raise ValueError(f"llmtap: flush_timeout: {self.flush_timeout} is negative")
        self._files(env)
        if self.code is None:
            self.code = env.get("LLMTAP_CODE", "") != "off"
        self.user_key = env.get("LLMTAP_SHAPE_KEY", "").encode("utf-8", "surrogateescape")
        self.shape_key = self.user_key or _process_key
        self._labels(env)

    def _hosts(self, env: Mapping[str, str]) -> None:
        hosts = [h for h in map(str, self.hosts) if h.strip()]
        more = [h for h in env.get("LLMTAP_HOSTS", "").split(",") if h.strip()]
        for h in hosts + more:
            try:
                parse_host(h)
            except ValueError as e:
                if h in hosts:
                    raise ValueError(f"llmtap: hosts: {e}") from None
                raise InvalidEnvironment(f"llmtap: LLMTAP_HOSTS: {e}") from None
        self.hosts = tuple(hosts + more)

    def _endpoint(self, env: Mapping[str, str]) -> None:
        given = self.endpoint
        if given and self.url:
            raise ValueError("llmtap: url, endpoint: both are set; keep one")
        if self.url:
            return
        self.endpoint = given or env.get("LLMTAP_ENDPOINT", "")
        if not self.endpoint:
            return
        try:
            _check_endpoint(self.endpoint)
        except ValueError as e:
            if given:
                raise
            raise InvalidEnvironment(f"{e} (LLMTAP_ENDPOINT)") from None
        self.token = self.token or env.get("LLMTAP_TOKEN", "")

    def _files(self, env: Mapping[str, str]) -> None:
        given = bool(self.cert_file or self.key_file)
        self.ca_file = self.ca_file or env.get("LLMTAP_CA_FILE", "")
        self.cert_file = self.cert_file or env.get("LLMTAP_CERT_FILE", "")
        self.key_file = self.key_file or env.get("LLMTAP_KEY_FILE", "")
        if bool(self.cert_file) != bool(self.key_file):
            text = "llmtap: cert_file, key_file (LLMTAP_CERT_FILE, LLMTAP_KEY_FILE): one is set without the other"
            raise ValueError(text) if given else InvalidEnvironment(text)

    @property
    def has_files(self) -> bool:
        """Whether there are files for TLS."""
        return bool(self.ca_file or self.cert_file)

    def tls(self) -> ssl.SSLContext:
        """The settings of a TLS connection. Raises ssl.SSLError if the files cannot be read."""
        for path in filter(None, (self.ca_file, self.cert_file, self.key_file)):
            try:
                open(path, "rb").close()
            except OSError as e:
                raise ssl.SSLError(f"read {path} for TLS: {e.strerror}") from None
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.cert_file:
            # With a password, because OpenSSL asks for that of an encrypted key on the terminal of the agent.
            context.load_cert_chain(self.cert_file, self.key_file, password="")
        return context

    def _attributes(self) -> None:
        if len(self.attrs) > _event.MAX_ATTRS:
            raise ValueError(f"llmtap: attrs: {len(self.attrs)} attributes are more than {_event.MAX_ATTRS}")
        for key in self.attrs:
            if not _event.valid_attr_key(str(key)):
                raise ValueError(f"llmtap: attrs: key {key!r} does not match [a-z0-9._-]{{1,64}}")
        self.attrs = {key: clip_attr(str(value)) for key, value in self.attrs.items()}

    def servers(self) -> Iterable[str]:
        """The URLs of NATS."""
        return [u if "://" in u else "nats://" + u for u in (u.strip() for u in self.url.split(","))]

    def _labels(self, env: Mapping[str, str]) -> None:
        res = resource_attributes(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        service = self.service or env.get("LLMTAP_SERVICE", "") or env.get("OTEL_SERVICE_NAME", "") or res.get("service.name", "")
        self.service = str(service or _program() or "unknown")
        self.service_version = str(self.service_version or env.get("LLMTAP_SERVICE_VERSION", "") or res.get("service.version", "") or _version(env))
        environment = res.get("deployment.environment.name", "") or res.get("deployment.environment", "")
        self.environment = str(self.environment or environment)
        self.agent = str(self.agent or res.get("gen_ai.agent.name", ""))


def _check_url(url: str) -> None:
    try:
        u = urlsplit(url)
        host, _ = u.hostname, u.port
    except ValueError:
        raise ValueError("llmtap: url: invalid URL") from None  # the error of urlsplit may contain a password
    if u.scheme not in ("nats", "tls", "ws", "wss"):
        raise ValueError(f"llmtap: url: scheme {u.scheme!r} is not one of nats, tls, ws, wss")
    if not host:
        raise ValueError("llmtap: url: no host")


def _check_endpoint(url: str) -> None:
    try:
        u = urlsplit(url)
        host, _ = u.hostname, u.port
    except ValueError:
        raise ValueError("llmtap: endpoint: invalid URL") from None  # the error of urlsplit may contain a password
    if u.scheme not in ("https", "http"):
        raise ValueError(f"llmtap: endpoint: scheme {u.scheme!r} is not https or http")
    if not host:
        raise ValueError("llmtap: endpoint: no host")
    if "@" in u.netloc or u.query or u.fragment:
        raise ValueError("llmtap: endpoint: user, query and fragment are not allowed; the token has a setting of its own")


def resource_attributes(s: str) -> dict[str, str]:
    """Parses key=value pairs as OpenTelemetry defines them: separated by commas, values percent-encoded."""
    found = {}
    for pair in s.split(","):
        key, eq, value = pair.partition("=")
        plain = _unescape(value.strip())
        if eq and plain is not None:
            found[key.strip()] = plain
    return found


def _unescape(value: str) -> Optional[str]:
    rest = value.split("%")[1:]
    if any(len(r) < 2 or not all(c in "0123456789abcdefABCDEF" for c in r[:2]) for r in rest):
        return None
    return unquote_to_bytes(value).decode("utf-8", "surrogateescape")


def _main_module() -> str:
    """The module that `python -m` runs, if any."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = getattr(spec, "name", "") or ""
    return name[: -len(".__main__")] if name.endswith(".__main__") else name


def _program() -> str:
    """The name of the program: its module or, if it has none, its file."""
    name = _main_module()
    if not name and sys.argv and sys.argv[0] not in ("", "-", "-c", "-m"):
        name = os.path.basename(sys.argv[0])
        if name.endswith(".py"):
            name = name[:-3]
    return name


def _version(env: Mapping[str, str]) -> str:
    """The version of the program's package or, if it has none, the commit from the environment."""
    try:
        version = _package_version()
    except Exception:  # the metadata of another package is invalid
        version = ""
    if version:
        return version
    for name in _COMMIT_VARIABLES:
        if env.get(name):
            return env[name][:12]
    return ""


def _package_version() -> str:
    from importlib import metadata

    module = _main_module().partition(".")[0]
    script = os.path.basename(sys.argv[0]) if sys.argv else ""
    for dist in metadata.distributions():
        for ep in dist.entry_points:
            # A console script, or the package of `python -m`.
            if ep.group == "console_scripts" and (
                script and not module and ep.name == script or module and ep.value.partition(":")[0].partition(".")[0] == module
            ):
                return dist.version
    if module:
        try:
            return metadata.version(module)
        except metadata.PackageNotFoundError:
            pass
    return ""
