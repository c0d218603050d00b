"""Primitives of the standard library that nobody has replaced.

Servers and tests replace those in its modules: blockbuster forbids calls that block, freezegun and time-machine stop the clock, gevent and
eventlet turn threads into greenlets, pytest-socket forbids sockets, tests mock time.sleep. They may do so before this module is imported.
Modules in C whose names begin with an underscore stay as they are, but gevent and eventlet replace _thread.start_new_thread, too.
"""

from __future__ import annotations

import _socket
import asyncio
import importlib
import selectors
import sys
import time
from _thread import RLock
from typing import Any, Callable, Optional

try:
    from _queue import Empty, SimpleQueue
except ImportError:  # not CPython
    from queue import Empty, SimpleQueue

__all__ = ["Empty", "Locked", "Loop", "RLock", "SimpleQueue", "Thread", "clock", "create_connection", "sleep"]


def _of(module: str, name: str) -> Any:
    """The original of an attribute of a module that gevent and eventlet patch."""
    if "gevent.monkey" in sys.modules:
        return importlib.import_module("gevent.monkey").get_original(module, name)
    if "eventlet.patcher" in sys.modules:
        return getattr(importlib.import_module("eventlet.patcher").original(module), name)
    return getattr(importlib.import_module(module), name)


def _of_time(name: str) -> Callable[[], Any]:
    original: Callable[[], Any] = getattr(sys.modules.get("freezegun.api"), "real_" + name, None) or getattr(time, name)
    return original


class clock:
    """Clocks in seconds and in nanoseconds. A class, because freezegun replaces functions of time in the attributes of all modules."""

    _time_ns = _of_time("time_ns")
    monotonic = _of_time("perf_counter")  # as time.monotonic, which some versions of time-machine stop
    monotonic_ns = _of_time("perf_counter_ns")

    @staticmethod
    def time_ns() -> int:
        """Nanoseconds since 1970."""
        ns: int
        travel: Any = sys.modules.get("time_machine")  # which changes the function itself
        if travel is not None:
            try:
                ns = travel.escape_hatch.time.time_ns()
                return ns
            except Exception:  # not travelling
                pass
        ns = clock._time_ns()
        return ns


class Locked:
    """An object with a lock that agents' threads and the sender share. The lock is in a slot, because eventlet.monkey_patch() replaces those
    in attributes by locks of greenlets: two threads of the operating system then wait for each other for ever."""

    __slots__ = ("_lock",)
    _lock: RLock


_nothing: SimpleQueue[None] = SimpleQueue()


def sleep(seconds: float) -> None:
    """Sleeps, and lets other threads run."""
    try:
        _nothing.get(timeout=seconds)
    except Empty:
        pass


class Thread:
    """A thread of the operating system that does not keep the process alive."""

    _start_new = staticmethod(_of("_thread", "start_new_thread"))

    def __init__(self) -> None:
        self._ended: SimpleQueue[None] = SimpleQueue()

    def start(self) -> None:
        """Starts the thread. Raises RuntimeError while the process exits."""
        self._start_new(self._main, ())

    def _main(self) -> None:
        try:
            self.run()
        finally:
            self._ended.put(None)

    def run(self) -> None:
        """The work of the thread."""
        raise NotImplementedError

    def join(self, timeout: float) -> None:
        """Waits for the end of the thread, once."""
        try:
            self._ended.get(timeout=timeout)
        except Empty:
            pass


_socket_class: Any = _of("socket", "socket")


class Socket(next((c for c in _socket_class.__mro__ if c.__module__ == "socket"), _socket_class)):  # type: ignore[misc]
    """A socket with the methods of the class in C, of the class from which pytest-socket has derived its own."""

    connect, connect_ex = _socket.socket.connect, _socket.socket.connect_ex
    send, sendall = _socket.socket.send, _socket.socket.sendall
    recv, recv_into = _socket.socket.recv, _socket.socket.recv_into


def create_connection(address: tuple[str, int], timeout: Optional[float] = None, source: Any = None) -> Socket:
    """Connects to a host and a port, as socket.create_connection does."""
    failure: Optional[OSError] = None
    for family, kind, proto, _, where in _socket.getaddrinfo(address[0], address[1], 0, _socket.SOCK_STREAM):
        sock = Socket(family, kind, proto)
        try:
            sock.settimeout(timeout)
            sock.connect(where)
            return sock
        except OSError as e:
            sock.close()
            failure = e
    raise failure or OSError(f"{address[0]} has no address")


# That of eventlet works in other threads, too.
_Selector: Any = selectors.DefaultSelector if "eventlet.patcher" in sys.modules else _of("selectors", "DefaultSelector")


class Loop(asyncio.SelectorEventLoop):
    """An event loop with original clocks and sockets. Resolves host names on its own thread, because no thread can be started while the
    process exits."""

    def __init__(self) -> None:
        super().__init__(_Selector())

    def time(self) -> float:
        now: float = clock.monotonic()
        return now

    def _make_self_pipe(self) -> None:
        if not hasattr(_socket, "socketpair"):  # Windows
            super()._make_self_pipe()  # type: ignore[misc]
            return
        this: Any = self
        this._ssock, this._csock = (Socket(fileno=s.detach()) for s in _socket.socketpair())
        for s in (this._ssock, this._csock):
            s.setblocking(False)
        this._internal_fds += 1
        this._add_reader(this._ssock.fileno(), this._read_from_self)

    async def getaddrinfo(self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        return _socket.getaddrinfo(host, port, family, type, proto, flags)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if host is None or options.get("sock") is not None:
            return await super().create_connection(protocol_factory, host, port, **options)
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        options["sock"] = await self._connected(host, port)
        return await super().create_connection(protocol_factory, **options)

    async def _connected(self, host: str, port: int) -> Socket:
        failure: Optional[OSError] = None
        for family, kind, proto, _, where in await self.getaddrinfo(host, port, type=_socket.SOCK_STREAM):
            sock = Socket(family, kind, proto)
            try:
                sock.setblocking(False)
                await self.sock_connect(sock, where)
                return sock
            except OSError as e:
                sock.close()
                failure = e
            except BaseException:
                sock.close()
                raise
        raise failure or OSError(f"{host} has no address")
