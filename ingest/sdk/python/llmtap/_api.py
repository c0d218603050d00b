"""The public functions and context managers."""

from __future__ import annotations

import atexit
import inspect
import os
import uuid
from multiprocessing import util
from typing import Any, Callable, Iterable, Mapping, Optional

from . import _aiohttp, _event, _httpclient, _httpx, _requests, _uncaptured
from ._config import DEFAULT_FLUSH_TIMEOUT, DEFAULT_MEMORY_LIMIT, Config, InvalidEnvironment, log
from ._context import Last, Scope, ScopeManager
from ._event import clip
from ._hook import Hook, Stats
from ._original import RLock
from ._patch import Patches, hook_of, set_hook

_lock = RLock()  # guards starting and closing the hook; reentrant, because a signal handler may close it
_patches = Patches()
_CLIENTS: dict[str, Callable[[Patches], None]] = {
    "httpx": lambda patches: _httpx.patch(patches, "httpx"),
    "httpx2": lambda patches: _httpx.patch(patches, "httpx2"),
    "requests": _requests.patch,
    "aiohttp": _aiohttp.patch,
    "http.client": _httpclient.patch,
    "grpc, websockets and HTTP/3": _uncaptured.patch,  # only counts calls
}


def instrument(
    *,
    url: str = "",
    endpoint: str = "",
    token: str = "",
    service: str = "",
    service_version: str = "",
    environment: str = "",
    agent: str = "",
    attrs: Optional[Mapping[str, object]] = None,
    capture: str = "",
    hosts: Iterable[str] = (),
    redact: Optional[Callable[[bytes], bytes]] = None,
    on_published: Optional[Callable[[str], object]] = None,
    traceparent: Optional[Callable[[], str]] = None,
    code: Optional[bool] = None,
    keep_user: bool = False,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    flush_timeout: float = DEFAULT_FLUSH_TIMEOUT,
    nats_options: Optional[Mapping[str, Any]] = None,
    ca_file: str = "",
    cert_file: str = "",
    key_file: str = "",
) -> None:
    """Starts recording the calls of this process. A second call does nothing until uninstrument().

    Invalid arguments raise ValueError. An unreachable NATS does not: calls are kept in memory until it is reachable.

    url            URL of NATS, or several separated by commas. Default: $LLMTAP_NATS_URL, else nats://127.0.0.1:4222.
    endpoint       URL of an llmtap with the role receive, such as https://llmtap.example.com, to which events are sent instead of
                   NATS. Default: $LLMTAP_ENDPOINT unless url is set; it takes precedence over $LLMTAP_NATS_URL.
    token          Token of the endpoint. Default: $LLMTAP_TOKEN.
    service, service_version, environment, agent
                   Labels of every message. Defaults: $LLMTAP_SERVICE and $LLMTAP_SERVICE_VERSION, then $OTEL_SERVICE_NAME, then
                   service.name, service.version, deployment.environment.name and gen_ai.agent.name of
                   $OTEL_RESOURCE_ATTRIBUTES, then the name of the program and the version of its package or the commit in the
                   environment.
    attrs          Attributes of every message, such as {"tenant": "acme"}; those of context() override them. At most 32; keys match
                   [a-z0-9._-]{1,64}.
    capture        How bodies are published: "shape" (the default: their structure; each text becomes its length and a hash
                   keyed with $LLMTAP_SHAPE_KEY), "full" or "none".
    hosts          Hosts to record in addition to the known providers and to $LLMTAP_HOSTS, which separates hosts by commas:
                   "llm.example.com" (any port), "10.0.0.7:8000", "*.example.com" (all subdomains).
    redact         Function that returns the body to publish instead of its argument. It runs in the background, before the
                   body is shaped; if it raises, the body is withheld.
    on_published   Function that is called in the background with the id of each exchange whose request and response NATS
                   has stored.
    traceparent    Function that returns the W3C trace context of a request without a traceparent header.
    code           Whether to publish where in the agent's code each call is made: file, line and function. Default: unless
                   $LLMTAP_CODE is "off".
    keep_user      Whether to publish the user of context() without hashing it.
    memory_limit   Maximum memory of the queue in bytes; if it is full, the oldest exchanges are dropped and counted.
    flush_timeout  Seconds to wait for pending events when the process exits.
    nats_options   Further options of nats.connect, such as credentials.
    ca_file        File with the CAs of NATS and of the endpoint, in PEM format. Default: $LLMTAP_CA_FILE, else those of the system.
    cert_file, key_file
                   Files with the certificate of this client and its key. Defaults: $LLMTAP_CERT_FILE and $LLMTAP_KEY_FILE. With one
                   of the three, connections to NATS use TLS. The files are read for each connection, so that they can be renewed.
    """
    install(Config(
        url=url, endpoint=endpoint, token=token,
        service=service, service_version=service_version, environment=environment, agent=agent, attrs=dict(attrs or {}), capture=capture,  # type: ignore[arg-type]
        hosts=hosts if isinstance(hosts, str) else tuple(hosts), redact=redact, on_published=on_published,  # type: ignore[arg-type]
        traceparent=traceparent, code=code, keep_user=keep_user, memory_limit=memory_limit, flush_timeout=flush_timeout,
        nats_options=dict(nats_options or {}), ca_file=ca_file, cert_file=cert_file, key_file=key_file,
    ))  # fmt: skip


def install(config: Config, automatic: bool = False) -> None:
    """Starts recording. An automatic hook, which the program did not ask for, gives way to its own, and connects with the first call."""
    with _lock:
        hook = hook_of()
        if hook is not None and (automatic or not hook.automatic):
            return
        try:
            config.complete(os.environ)
        except InvalidEnvironment as e:
            log.error("%s; calls are not recorded", e)
            return
        if hook is not None:
            uninstrument()
        hook = Hook(config)
        hook.automatic = automatic
        set_hook(hook)
        for name, patch in _CLIENTS.items():
            try:
                patch(_patches)
            except Exception:  # an unknown version
                log.warning("llmtap: calls of %s are not recorded", name, exc_info=True)
        if not automatic:
            hook.start()
        # A worker of multiprocessing exits without atexit, and clears its finalizers just before the after-fork functions run.
        _close_with_worker(_patches)
        util.register_after_fork(_patches, _close_with_worker)


def _close_with_worker(_: object) -> None:
    util.Finalize(None, uninstrument, exitpriority=0)


def uninstrument() -> None:
    """Stops recording. Publishes pending events, as at the exit of the process, and restores the clients."""
    with _lock:
        hook = hook_of()
        _patches.undo()
        set_hook(None)
    if hook is not None:
        hook.close()


def flush(timeout: float = DEFAULT_FLUSH_TIMEOUT) -> bool:
    """Waits until NATS has stored all calls that ended before. Returns False after timeout seconds."""
    hook = hook_of()
    return hook is None or hook.flush(timeout)


def stats() -> Stats:
    """Returns the counters since instrument() or since the fork."""
    hook = hook_of()
    return hook.stats() if hook is not None else Stats(0, 0, 0, 0, 0, 0, 0, 0, 0)


class run(ScopeManager):
    """One run of the agent. Publishes its start and end and labels the calls inside. `as` binds the id of the run.

    `with llmtap.run() as run_id: ...`, or as a decorator, which generates an id for each call unless one is given.
    """

    def __init__(self, run_id: str = "") -> None:
        self._run = run_id

    def _scope(self, s: Scope) -> None:
        s.run = clip(str(self._run)) if self._run else str(uuid.uuid4())
        s.last = Last()

    def _entered(self, s: Scope) -> None:
        _guarded(lambda hook: hook.run_event(s, _event.STARTED))

    def _left(self, s: Scope, error: Optional[BaseException]) -> None:
        _guarded(lambda hook: hook.run_event(s, _outcome(error)))


class tool(ScopeManager):
    """One tool that the model called. Publishes its start and end.

    `with llmtap.tool(call.id): ...`. The events belong to the newest call made under the nearest conversation or run. A decorator
    takes the id of the call from an argument: `@llmtap.tool(argument="tool_call_id")`.
    """

    def __init__(self, call_id: str = "", *, argument: str = "") -> None:
        self._call_id, self._argument = call_id, argument

    def _scope(self, s: Scope) -> None:
        pass

    def _entered(self, s: Scope) -> None:
        _guarded(lambda hook: hook.tool_event(s, str(self._call_id or ""), _event.STARTED))

    def _left(self, s: Scope, error: Optional[BaseException]) -> None:
        _guarded(lambda hook: hook.tool_event(s, str(self._call_id or ""), _outcome(error)))

    def _for_call(self, f: Callable[..., Any], args: Any, kwargs: Any) -> ScopeManager:
        if not self._argument:
            return self
        try:
            return tool(inspect.signature(f).bind_partial(*args, **kwargs).arguments.get(self._argument, ""))
        except Exception:
            return tool()


def _outcome(error: Optional[BaseException]) -> str:
    return _event.OK if error is None or isinstance(error, GeneratorExit) else _event.ERROR


def _guarded(publish: Callable[[Hook], None]) -> None:
    hook = hook_of()
    if hook is None:
        return
    try:
        publish(hook)
    except Exception:
        hook.count_error()


def _forked() -> None:
    global _lock
    _lock = RLock()
    hook = hook_of()
    if hook is not None:
        hook.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(uninstrument)
