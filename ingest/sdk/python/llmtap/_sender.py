"""Publishes queued events, oldest first, and retains each until NATS has stored it. Runs in a daemon thread with its own event loop."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Callable, Optional

import nats.errors

from . import _event
from ._client import FastClient, Outgoing
from ._config import Config, log
from ._original import Loop, Thread, clock, sleep
from ._prepare import Preparer
from ._queue import MAX_IN_FLIGHT, Item, Queue
from ._report import NO_STREAM, Reporter

PART_BYTES = 512 << 10  # maximum payload of one message
_HEADER_ROOM = 64 << 10  # reserved for the headers of a message

_ACK_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 2.0
_MIN_BACKOFF, _MAX_BACKOFF = 0.05, 1.0
_TICK = 0.01  # seconds between two batches, and between the first event after a pause and its batch, to collect more events
_SLICE = 16  # messages or acknowledgements to process before the agent's threads may run
_BATCH, _BATCH_BYTES = 64, 128 << 10  # limits of one write to the connection
_SWEEP = 1.0  # seconds between checks for abandoned responses
_REPORT = 60.0  # seconds between logged NATS errors

_STORED = b'{"stream":"'  # start of an acknowledgement without an error
_MESSAGE_TOO_LARGE = 10054  # JetStream's code for a message above the limit of the stream


class PublishError(Exception):
    """NATS did not store a message."""


class RejectedError(PublishError):
    """NATS will never store the message."""


class Sender(Thread):
    """After a failure the sender starts again with the oldest event; JetStream drops stored ones by their ids.

    At the start and after a failure only one message is in flight until NATS has stored it. If several were in flight, the first
    could fail while later ones are stored, and resending the first would break the order.
    """

    def __init__(self, queue: Queue, config: Config, report: Reporter, sdk: str, sweep: Callable[[], None], count_error: Callable[[], None]) -> None:
        super().__init__()
        self._queue, self._config, self._sweep, self._count_error = queue, config, sweep, count_error
        self._token = _event.service_token(config.service)
        self._preparer = Preparer(queue, config)
        self._loop = Loop()
        self._asleep = False  # the loop waits for events
        self._stopping = False
        self._wakeup: Optional[asyncio.Future[bool]] = None

        self._nc: Any = None
        self._refused: Optional[Exception] = None  # why the last server refused to connect
        self._server = 0
        self._inbox = ""
        self._sent = self._acks = 0
        self._replies: dict[str, Item] = {}  # items in flight by reply subject
        self._batch: list[Outgoing] = []
        self._batch_bytes = 0
        self._healthy = False  # the last attempt to publish on this connection succeeded
        self._backoff = _MIN_BACKOFF
        self._report = report
        self._reported = float("-inf")

    def wake(self) -> None:
        """Wakes the sender. Called by the agent's threads."""
        if self._asleep:
            self._asleep = False
            try:
                self._loop.call_soon_threadsafe(self._changed)
            except RuntimeError:
                pass  # the loop is closed

    def stop(self) -> None:
        """Makes the thread exit soon."""
        self._stopping = True
        try:
            self._loop.call_soon_threadsafe(self._changed)
        except RuntimeError:
            pass

    def run(self) -> None:
        """Publishes until stop()."""
        try:
            self._loop.run_until_complete(self._run())
        except Exception:
            self._count_error()
        finally:
            self._loop.close()

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._turn()
                continue
            except (PublishError, nats.errors.Error, OSError, asyncio.TimeoutError) as e:
                self._report.failed(e, self._queue.pending > 0)
            except Exception as e:  # an internal error must not end the sender
                self._count_error()
                self._report.failed(e, self._queue.pending > 0)
            self._replies.clear()
            self._batch, self._batch_bytes = [], 0
            self._queue.requeue()
            self._healthy = False
            await self._pause(self._backoff)
            self._backoff = min(2 * self._backoff, _MAX_BACKOFF)
        await self._disconnect()

    async def _turn(self) -> None:
        """Sends as many items as the window allows and removes the stored ones."""
        self._sweep()
        await self._send()
        self._acknowledge()
        head = self._queue.oldest_in_flight()
        if head is None:
            if self._nc is None:
                await self._connect()
            if self._connected() and not self._queue.has_queued:
                self._report.succeeded(self._queue.dropped)
            if await self._wait(idle=True):
                self._tick()
        elif not self._connected():
            raise PublishError("connection lost")
        else:
            if not self._queue.has_queued:
                self._tick()  # collects acknowledgements
            # The timeout counts only after a wait: shaping other events may take longer than it.
            if not await self._wait(idle=False) and clock.monotonic() - head.sent > _ACK_TIMEOUT:
                # A server that is cut off from the network does not close the connection. The next one may work.
                await self._disconnect()
                raise PublishError("acknowledgement timed out")

    def _window(self) -> int:
        return MAX_IN_FLIGHT if self._healthy else 1

    def _tick(self) -> None:
        """Sleeps without reading the connection, unless a thread waits in flush."""
        if not (self._stopping or self._queue.has_waiters):
            sleep(_TICK)

    def _acknowledge(self) -> None:
        """Removes the items that are stored or rejected from flight."""
        stored, published = self._queue.ack()
        if stored:
            self._healthy, self._backoff = True, _MIN_BACKOFF
            self._report.succeeded(self._queue.dropped)
        for exchange in published:
            self._published(exchange)
        head = self._queue.oldest_in_flight()
        if head is not None and head.failure is not None:
            if not isinstance(head.failure, RejectedError):
                raise head.failure
            self._reject(head, head.failure)
            self._acknowledge()

    async def _wait(self, idle: bool) -> bool:
        """Waits for an acknowledgement or, if idle, for an event to send. Returns False on a timeout."""
        future: asyncio.Future[bool] = self._loop.create_future()
        self._wakeup = future
        self._asleep = idle
        # An event pushed since the last check did not wake the loop.
        if self._stopping or idle and self._queue.has_queued:
            self._asleep = False
            return True
        timer = self._loop.call_later(_SWEEP, self._changed, False)
        try:
            return await future
        finally:
            timer.cancel()
            self._asleep = False

    async def _pause(self, seconds: float) -> None:
        """Waits for the given time, even if events are pushed."""
        future = self._wakeup = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._changed)
        try:
            while not self._stopping and not future.done():
                await future
        finally:
            timer.cancel()

    def _changed(self, something: bool = True) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(something)

    def _published(self, exchange: str) -> None:
        if self._config.on_published is not None:
            try:
                self._config.on_published(exchange)
            except Exception:
                log.error("llmtap: on_published raised", exc_info=True)

    def _reject(self, it: Item, error: Exception) -> None:
        log.warning("llmtap: NATS rejects an exchange, dropping it: %s", error)
        self._queue.reject(it)

    async def _connect(self) -> None:
        """Connects to the next server of the list. The client must not reconnect itself, because it would send its buffer before the
        events that the sender resends."""
        await self._disconnect()
        self._healthy = False
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
        secure = url.startswith(("tls://", "wss://")) or self._config.has_files
        if secure and "tls" not in options:
            options["tls"] = self._config.tls()
        nc = FastClient(secure)
        self._refused = None
        try:
            await asyncio.wait_for(nc.connect(url, **options), 3 * _CONNECT_TIMEOUT)
            self._inbox = f"_INBOX.{self._token}.{os.urandom(8).hex()}."
            await nc.subscribe_acks(self._inbox, self._on_ack)
        except BaseException as e:
            await _close(nc)
            if isinstance(e, nats.errors.NoServersError) and self._refused is not None:
                raise self._refused from None
            if secure and isinstance(e, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
                raise ConnectionError(f"{e}; if the server requires a client certificate of TLS, set LLMTAP_CERT_FILE") from None
            raise
        self._nc = nc

    def _connected(self) -> bool:
        return self._nc is not None and self._nc.is_connected

    async def _disconnect(self) -> None:
        nc, self._nc = self._nc, None
        if nc is not None:
            await _close(nc)

    async def _nats_error(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            self._report.denied(error)
        elif self._nc is None:
            self._refused = error
        elif clock.monotonic() - self._reported >= _REPORT:
            self._reported = clock.monotonic()
            log.warning("llmtap: NATS error: %s", error)

    async def _nats_closed(self) -> None:
        self._changed()

    async def _send(self) -> None:
        """Sends the items that the window allows."""
        sliced = 0
        while not self._stopping and self._queue.has_queued:
            if not self._connected():
                if self._queue.oldest_in_flight() is not None:
                    raise PublishError("connection lost")
                await self._connect()
            it = self._queue.next(self._window())
            if it is None:
                break
            if not it.prepared:
                self._preparer.prepare(it)
                it.prepared = True
            try:
                await self._publish(it)
            except RejectedError as e:
                self._reject(it, e)
            sliced += 1
            if sliced % _SLICE == 0:
                self._preparer.yield_gil()
        await self._flush()

    async def _publish(self, it: Item) -> None:
        """Adds the messages of an item to the batch."""
        ev = it.ev
        body = bytes(ev.body) if ev.body else b""
        size = part_size(self._nc.max_payload)
        parts = max(1, -(-len(body) // size))
        if parts > _event.MAX_PARTS:
            raise RejectedError(f"a body needs more than {_event.MAX_PARTS} parts")
        subject, headers = ev.subject(), ev.headers()
        if parts > 1:
            headers += f"Llmtap-Body-Bytes: {len(body)}\r\n"
        it.acks, it.sent = parts, clock.monotonic()
        for part in range(1, parts + 1):
            own = f"Nats-Msg-Id: {ev.message_id(part)}\r\n"
            if parts > 1:
                own += f"Llmtap-Part: {part}/{parts}\r\n"
            self._sent += 1
            reply = self._inbox + str(self._sent)
            self._replies[reply] = it
            piece = body[(part - 1) * size : part * size]
            self._batch.append(Outgoing(subject, reply, own + headers, piece))
            self._batch_bytes += len(piece)
            if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
                await self._flush()
                self._preparer.yield_gil()

    async def _flush(self) -> None:
        """Writes the batch to the connection."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch:
            await self._nc.send(batch)

    def _on_ack(self, reply: str, ack: bytes) -> None:
        """Processes the acknowledgement of one message."""
        it = self._replies.pop(reply, None)
        if it is None:
            return
        error = _ack_error(ack)
        if error is None:
            it.acks -= 1
        else:
            it.failure = error
        self._changed()
        self._acks += 1
        if self._acks % _SLICE == 0:
            self._preparer.yield_gil()


async def _close(nc: Any) -> None:
    try:
        await asyncio.wait_for(nc.close(), 1.0)
    except Exception:  # the connection is not used any more
        pass


def _ack_error(ack: bytes) -> Optional[PublishError]:
    """The error in an acknowledgement; None if the message is stored."""
    if ack.startswith(_STORED):
        return None
    if not ack:
        return PublishError(NO_STREAM)
    try:
        value = json.loads(ack)
    except ValueError:
        return PublishError("the acknowledgement is not JSON")
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        kind = RejectedError if error.get("err_code") == _MESSAGE_TOO_LARGE else PublishError
        return kind(f"{error.get('description')} ({error.get('err_code')})")
    return None if isinstance(value, dict) and value.get("stream") else PublishError("the acknowledgement names no stream")


def part_size(max_payload: int) -> int:
    """The number of body bytes that fit into one message if the server accepts max_payload bytes including headers."""
    return min(PART_BYTES, max(max_payload - _HEADER_ROOM, max_payload // 2, 1))
