"""Publishes what is queued, oldest first, and keeps it until NATS says that it is stored. One daemon thread with its own event loop."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Optional

import nats.errors

from . import _event
from ._client import Outgoing, ShortClient
from ._config import log
from ._prepare import Preparer
from ._queue import MAX_IN_FLIGHT, Item

if TYPE_CHECKING:
    from ._hook import Hook

PART_BYTES = 512 << 10  # the most payload of one message
_HEADER_ROOM = 64 << 10  # what a message may hold beside its payload

_ACK_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 2.0
_MIN_BACKOFF, _MAX_BACKOFF = 0.05, 1.0
_TICK = 0.01  # seconds between two sendings, and between the first event after a silence and its sending: meanwhile more may come
_SLICE = 16  # messages that are made or answers that are read at a time: then the agent's threads may run
_BATCH, _BATCH_BYTES = 64, 128 << 10  # what is handed to the network at a time
_SWEEP = 1.0  # seconds between looks for answers that were left alone
_REPORT = 60.0  # seconds between reports of what NATS complains about

_STORED = b'{"stream":"'  # how an answer begins that names no error
_MESSAGE_TOO_LARGE = 10054  # JetStream's code for a message above the stream's own limit


class PublishError(Exception):
    """NATS did not take a message."""


class RefusedError(PublishError):
    """NATS will never take it."""


class _Loop(asyncio.SelectorEventLoop):
    """Looks names up on its own thread: at the end of a process no thread can be started for it."""

    async def getaddrinfo(self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        return socket.getaddrinfo(host, port, family, type, proto, flags)


class Sender(threading.Thread):
    """Where publishing fails it starts again at the oldest event; JetStream knows those it has stored by their ids.

    One message is in flight until NATS has stored one: of many, those sent first could fail and those behind them be stored,
    and then the order would be lost when the first are sent again.
    """

    def __init__(self, hook: Hook) -> None:
        super().__init__(name="llmtap", daemon=True)
        self._hook, self._queue, self._config = hook, hook.queue, hook.config
        self._token = _event.service_token(hook.config.service)
        self._preparer = Preparer(hook.queue, hook.config)
        self._loop = _Loop()
        self._asleep = False  # the loop waits for something to do
        self._stopping = False
        self._something: Optional[asyncio.Future[bool]] = None

        self._nc: Any = None
        self._server = 0
        self._inbox = ""
        self._sent = self._answers = 0
        self._flights: dict[str, Item] = {}  # by the reply subject
        self._batch: list[Outgoing] = []
        self._batch_bytes = 0
        self._proven = False  # NATS stored a message of this connection, and none failed since
        self._backoff = _MIN_BACKOFF
        self._failing = False  # said so in the log
        self._reported = float("-inf")
        self._dropped = 0

    def wake(self) -> None:
        """There may be something to send. Called by the agent's threads."""
        if self._asleep:
            self._asleep = False
            try:
                self._loop.call_soon_threadsafe(self._changed)
            except RuntimeError:
                pass  # the loop is closed

    def stop(self) -> None:
        """Ends the thread soon."""
        self._stopping = True
        try:
            self._loop.call_soon_threadsafe(self._changed)
        except RuntimeError:
            pass

    def run(self) -> None:
        """The thread."""
        try:
            self._loop.run_until_complete(self._run())
        except Exception:
            self._hook.oops()
        finally:
            self._loop.close()

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._turn()
                continue
            except (PublishError, nats.errors.Error, OSError, asyncio.TimeoutError) as e:
                self._report(e)
            except Exception as e:  # a mistake here must not end the sender
                self._hook.oops()
                self._report(e)
            self._flights.clear()
            self._batch, self._batch_bytes = [], 0
            self._queue.rewind()
            self._proven = False
            await self._pause(self._backoff)
            self._backoff = min(2 * self._backoff, _MAX_BACKOFF)
        await self._disconnect()

    async def _turn(self) -> None:
        """Sends what may be sent, and lets go of what is stored."""
        self._hook.sweep()
        await self._send()
        self._land()
        head = self._queue.head()
        if head is None:
            if self._nc is None:
                await self._connect()
            if await self._wait(idle=True):
                self._tick()
        elif not self._connected():
            raise PublishError("the connection is lost")
        else:
            if not self._queue.waiting:
                self._tick()  # and the answers that come meanwhile are read together
            # How long ago it was sent says nothing while this thread did not read: shaping what came behind it may take long.
            if not await self._wait(idle=False) and time.monotonic() - head.sent > _ACK_TIMEOUT:
                raise PublishError("no acknowledgement in time")

    def _window(self) -> int:
        return MAX_IN_FLIGHT if self._proven else 1

    def _tick(self) -> None:
        """Sleeps, network and all, unless somebody waits."""
        if not (self._stopping or self._queue.awaited):
            time.sleep(_TICK)

    def _land(self) -> None:
        """Takes the items that are stored, or never will be, out of flight."""
        stored, published = self._queue.acked()
        if stored:
            self._proven, self._backoff = True, _MIN_BACKOFF
            self._report(None)
        for exchange in published:
            self._told(exchange)
        head = self._queue.head()
        if head is not None and head.failure is not None:
            if not isinstance(head.failure, RefusedError):
                raise head.failure
            self._refuse(head, head.failure)
            self._land()

    async def _wait(self, idle: bool) -> bool:
        """Waits for an answer of NATS, or, idle, for something to send; False when nothing came."""
        future: asyncio.Future[bool] = self._loop.create_future()
        self._something = future
        self._asleep = idle
        # What was put between the last look and now woke nobody.
        if self._stopping or idle and self._queue.waiting:
            self._asleep = False
            return True
        timer = self._loop.call_later(_SWEEP, self._changed, False)
        try:
            return await future
        finally:
            timer.cancel()
            self._asleep = False

    async def _pause(self, seconds: float) -> None:
        """Waits, whatever is put."""
        future = self._something = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._changed)
        try:
            while not self._stopping and not future.done():
                await future
        finally:
            timer.cancel()

    def _changed(self, something: bool = True) -> None:
        if self._something is not None and not self._something.done():
            self._something.set_result(something)

    def _told(self, exchange: str) -> None:
        if self._config.on_published is not None:
            try:
                self._config.on_published(exchange)
            except Exception:
                log.error("llmtap: on_published raises", exc_info=True)

    def _refuse(self, it: Item, error: Exception) -> None:
        log.warning("llmtap: NATS will not take an exchange: %s", error)
        self._queue.refused(it)

    def _report(self, error: Optional[Exception]) -> None:
        """Logs when publishing starts to fail and when it works again, and what was dropped."""
        if error is not None and not self._failing:
            log.warning("llmtap: cannot publish, calls are kept in memory: %s: %s", type(error).__name__, error)
        elif error is None and self._failing:
            dropped = self._queue.snapshot()[2]
            log.info("llmtap: publishing again; %d exchanges were dropped", dropped - self._dropped)
            self._dropped = dropped
        self._failing = error is not None

    async def _connect(self) -> None:
        """Makes a connection to one of the servers, the next one at each call. The client's own reconnecting is off: it would send
        what it holds before what is sent again from here."""
        await self._disconnect()
        self._proven = False
        servers = list(self._config.servers())
        url = servers[self._server % len(servers)]
        self._server += 1
        options: dict[str, Any] = {
            "name": "llmtap-python/" + self._token,
            "inbox_prefix": "_INBOX." + self._token,
            "connect_timeout": _CONNECT_TIMEOUT,
            "error_cb": self._nats_error,
            "closed_cb": self._nats_closed,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            **self._config.nats_options,
            "allow_reconnect": False,
        }
        nc = ShortClient()
        try:
            await asyncio.wait_for(nc.connect(url, **options), 3 * _CONNECT_TIMEOUT)
            self._inbox = f"_INBOX.{self._token}.{os.urandom(8).hex()}."
            await nc.answers(self._inbox, self._acked)
        except BaseException:
            await _close(nc)
            raise
        self._nc = nc

    def _connected(self) -> bool:
        return self._nc is not None and self._nc.is_connected

    async def _disconnect(self) -> None:
        nc, self._nc = self._nc, None
        if nc is not None:
            await _close(nc)

    async def _nats_error(self, error: Exception) -> None:
        # A missing permission is reported for every message.
        if self._nc is not None and time.monotonic() - self._reported >= _REPORT:
            self._reported = time.monotonic()
            log.warning("llmtap: NATS reports an error: %s", error)

    async def _nats_closed(self) -> None:
        self._changed()

    async def _send(self) -> None:
        """Sends the items that may fly."""
        sliced = 0
        while not self._stopping and self._queue.waiting:
            if not self._connected():
                if self._queue.head() is not None:
                    raise PublishError("the connection is lost")
                await self._connect()
            it = self._queue.next(self._window())
            if it is None:
                break
            if not it.prepared:
                self._preparer.prepare(it)
                it.prepared = True
            try:
                await self._publish(it)
            except RefusedError as e:
                self._refuse(it, e)
            sliced += 1
            if sliced % _SLICE == 0:
                self._preparer.rest()
        await self._flush()

    async def _publish(self, it: Item) -> None:
        """Hands an item's messages to the batch."""
        ev = it.ev
        body = bytes(ev.body) if ev.body else b""
        size = part_size(self._nc.max_payload)
        parts = max(1, -(-len(body) // size))
        if parts > _event.MAX_PARTS:
            raise RefusedError(f"a body needs more than {_event.MAX_PARTS} parts")
        subject, headers = ev.subject(), ev.headers()
        if parts > 1:
            headers += f"Llmtap-Body-Bytes: {len(body)}\r\n"
        it.acks, it.sent = parts, time.monotonic()
        for part in range(1, parts + 1):
            own = f"Nats-Msg-Id: {ev.message_id(part)}\r\n"
            if parts > 1:
                own += f"Llmtap-Part: {part}/{parts}\r\n"
            self._sent += 1
            reply = self._inbox + str(self._sent)
            self._flights[reply] = it
            piece = body[(part - 1) * size : part * size]
            self._batch.append(Outgoing(subject, reply, own + headers, piece))
            self._batch_bytes += len(piece)
            if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
                await self._flush()
                self._preparer.rest()

    async def _flush(self) -> None:
        """Hands the batch to the network."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch:
            await self._nc.send(batch)

    def _acked(self, reply: str, answer: bytes) -> None:
        """Reads JetStream's answer to one message."""
        it = self._flights.pop(reply, None)
        if it is None:
            return
        error = _ack_error(answer)
        if error is None:
            it.acks -= 1
        else:
            it.failure = error
        self._changed()
        self._answers += 1
        if self._answers % _SLICE == 0:
            self._preparer.rest()


async def _close(nc: Any) -> None:
    try:
        await asyncio.wait_for(nc.close(), 1.0)
    except Exception:  # it is given up anyway
        pass


def _ack_error(answer: bytes) -> Optional[PublishError]:
    """What JetStream says against a message; None when it is stored."""
    if answer.startswith(_STORED):
        return None
    if not answer:
        return PublishError("no stream takes the subject")
    try:
        value = json.loads(answer)
    except ValueError:
        return PublishError("the acknowledgement is no JSON")
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        kind = RefusedError if error.get("err_code") == _MESSAGE_TOO_LARGE else PublishError
        return kind(f"{error.get('description')} ({error.get('err_code')})")
    return None if isinstance(value, dict) and value.get("stream") else PublishError("the acknowledgement names no stream")


def part_size(max_payload: int) -> int:
    """How much of a body fits into one message of a server that takes max_payload bytes, headers and all."""
    return min(PART_BYTES, max(max_payload - _HEADER_ROOM, max_payload // 2, 1))
