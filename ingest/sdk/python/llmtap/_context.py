"""Labels of the calls made under a context: agent, stage, conversation, run, user, attributes."""

from __future__ import annotations

import contextvars
import functools
import inspect
from typing import Any, Callable, Mapping, Optional, TypeVar, cast

from ._config import log
from ._event import MAX_ATTRS, Labels, clip, valid_attr_key
from ._redact import clip_attr

F = TypeVar("F", bound=Callable[..., Any])


class Last:
    """The newest exchange under the nearest conversation or run, for tool events."""

    __slots__ = ("exchange",)

    def __init__(self) -> None:
        self.exchange = ""


class Scope:
    """The labels of the calls made under a context. Immutable once entered."""

    __slots__ = ("agent", "stage", "conversation", "run", "user", "attrs", "last", "owner", "outer", "labels")

    def __init__(self, outer: Optional[Scope] = None, owner: Optional[ScopeManager] = None) -> None:
        self.agent = self.stage = self.conversation = self.run = self.user = ""
        self.attrs: dict[str, str] = {}
        self.last: Optional[Last] = None
        self.owner, self.outer = owner, outer
        self.labels: Optional[Labels] = None  # built for the first event
        if outer is not None:
            self.agent, self.stage, self.conversation = outer.agent, outer.stage, outer.conversation
            self.run, self.user, self.attrs, self.last = outer.run, outer.user, outer.attrs, outer.last


EMPTY = Scope()
_current: contextvars.ContextVar[Scope] = contextvars.ContextVar("llmtap", default=EMPTY)


def current() -> Scope:
    """The current scope."""
    return _current.get()


class ScopeManager:
    """A context manager, synchronous and asynchronous, and decorator of functions, coroutine functions and generators.

    It has no state: it may be entered again, inside itself and by several threads and tasks concurrently.
    """

    def _scope(self, s: Scope) -> None:
        """Sets the labels of a scope before it is entered."""
        raise NotImplementedError

    def _entered(self, s: Scope) -> None:
        """Called after the scope is entered."""

    def _left(self, s: Scope, error: Optional[BaseException]) -> None:
        """Called before the scope is left."""

    def _for_call(self, f: Callable[..., Any], args: Any, kwargs: Any) -> ScopeManager:
        """The scope manager for a call of a decorated function."""
        return self

    def __enter__(self) -> Any:
        s = Scope(current(), self)
        try:
            self._scope(s)
        except Exception as e:
            log.warning("llmtap: a label cannot be converted to a string: %r", e)
        _current.set(s)
        self._entered(s)
        return s.run

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        s = current()
        if s.owner is not self or s.outer is None:
            return  # a generator closed in a different context
        self._left(s, error)
        _current.set(s.outer)

    async def __aenter__(self) -> Any:
        return self.__enter__()

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, f: F) -> F:
        if inspect.iscoroutinefunction(f):

            @functools.wraps(f)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self._for_call(f, args, kwargs):
                    return await f(*args, **kwargs)

            return cast(F, coroutine)
        if inspect.isasyncgenfunction(f):

            @functools.wraps(f)
            async def async_generator(*args: Any, **kwargs: Any) -> Any:
                with self._for_call(f, args, kwargs):
                    async for v in f(*args, **kwargs):
                        yield v

            return cast(F, async_generator)
        if inspect.isgeneratorfunction(f):

            @functools.wraps(f)
            def generator(*args: Any, **kwargs: Any) -> Any:
                with self._for_call(f, args, kwargs):
                    return (yield from f(*args, **kwargs))

            return cast(F, generator)

        @functools.wraps(f)
        def function(*args: Any, **kwargs: Any) -> Any:
            with self._for_call(f, args, kwargs):
                return f(*args, **kwargs)

        return cast(F, function)


class context(ScopeManager):
    """Labels the calls made inside: `with llmtap.context(conversation="order-17", stage="planner"): ...`, or as a decorator.

    A conversation is a growing message history; its calls stay in order. A run is one run of the agent and may have many
    conversations. The user is published as a hash unless instrument(keep_user=True). attrs are additional attributes, at most
    32; keys that do not match [a-z0-9._-]{1,64} are ignored. Omitted labels keep their outer values.
    """

    def __init__(
        self,
        *,
        agent: Optional[str] = None,
        stage: Optional[str] = None,
        conversation: Optional[str] = None,
        run: Optional[str] = None,
        user: Optional[str] = None,
        attrs: Optional[Mapping[str, object]] = None,
    ) -> None:
        self._labels = {"agent": agent, "stage": stage, "conversation": conversation, "run": run, "user": user}
        self._attrs = attrs

    def _scope(self, s: Scope) -> None:
        for name, value in self._labels.items():
            if value is not None:
                setattr(s, name, str(value) if name == "user" else clip(str(value)))
        if self._labels["conversation"] is not None or self._labels["run"] is not None:
            s.last = Last()
        for key, v in (self._attrs or {}).items():
            if valid_attr_key(key) and (key in s.attrs or len(s.attrs) < MAX_ATTRS):
                s.attrs = {**s.attrs, key: clip_attr(str(v))}


def bind(f: F) -> F:
    """Wraps f to run with the current labels: `executor.submit(llmtap.bind(work), x)`, `Thread(target=llmtap.bind(work))`.

    asyncio tasks and asyncio.to_thread inherit labels without it.
    """
    scope = current()

    @functools.wraps(f)
    def bound(*args: Any, **kwargs: Any) -> Any:
        token = _current.set(scope)
        try:
            return f(*args, **kwargs)
        finally:
            _current.reset(token)

    return cast(F, bound)
