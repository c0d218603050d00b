"""Labels of the calls made under a context: agent, stage, conversation, run, user, attributes."""

from __future__ import annotations

import contextvars
import functools
import inspect
from typing import Any, Callable, Mapping, Optional, TypeVar, cast

from ._config import log
from ._event import MAX_ATTRS, Labels, clip, valid_attr_key

F = TypeVar("F", bound=Callable[..., Any])


class Last:
    """The newest exchange under the nearest conversation or run, for tool events."""

    __slots__ = ("exchange",)

    def __init__(self) -> None:
        self.exchange = ""


class Scope:
    """What a context says about its calls. It never changes once entered."""

    __slots__ = ("agent", "stage", "conversation", "run", "user", "attrs", "last", "owner", "outer", "labels")

    def __init__(self, outer: Optional[Scope] = None, owner: Optional[Enclosed] = None) -> None:
        self.agent = self.stage = self.conversation = self.run = self.user = ""
        self.attrs: dict[str, str] = {}
        self.last: Optional[Last] = None
        self.owner, self.outer = owner, outer
        self.labels: Optional[Labels] = None  # of a hook's events, made at the first
        if outer is not None:
            self.agent, self.stage, self.conversation = outer.agent, outer.stage, outer.conversation
            self.run, self.user, self.attrs, self.last = outer.run, outer.user, outer.attrs, outer.last


EMPTY = Scope()
_current: contextvars.ContextVar[Scope] = contextvars.ContextVar("llmtap", default=EMPTY)


def current() -> Scope:
    """The scope of the running code."""
    return _current.get()


class Enclosed:
    """A thing to be entered with `with` or `async with`, or to decorate a function, coroutine function or generator with.

    It keeps no state: the same one may be entered again, inside itself and by several threads and tasks at a time.
    """

    def _scope(self, s: Scope) -> None:
        """Labels a scope that is about to be entered."""
        raise NotImplementedError

    def _entered(self, s: Scope) -> None:
        """Is called inside."""

    def _left(self, s: Scope, error: Optional[BaseException]) -> None:
        """Is called inside, at the end."""

    def _for_call(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Enclosed:
        """The thing that a call of a decorated function is enclosed in."""
        return self

    def __enter__(self) -> Any:
        s = Scope(current(), self)
        try:
            self._scope(s)
        except Exception:
            log.warning("llmtap: a label has no text", exc_info=True)
        _current.set(s)
        self._entered(s)
        return s.run

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        s = current()
        if s.owner is not self or s.outer is None:
            return  # a generator that is closed in another context than it began in
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


class context(Enclosed):
    """Labels the calls made inside: `with llmtap.context(conversation="order-17", stage="planner"): ...`, or as a decorator.

    A conversation is one message history that grows; its calls keep their order. A run is one run of the agent and may hold
    many conversations. The user is published hashed unless instrument(keep_user=True). attrs are further attributes, at most
    32; their keys are [a-z0-9._-]{1,64}, others are ignored. What is left out stays as it is outside.
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
                s.attrs = {**s.attrs, key: clip(str(v))}


def bind(f: F) -> F:
    """f with the labels of the place where bind was called: `executor.submit(llmtap.bind(work), x)`, `Thread(target=llmtap.bind(work))`.

    asyncio tasks and asyncio.to_thread carry labels by themselves.
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
