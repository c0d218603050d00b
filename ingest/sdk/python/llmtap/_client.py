"""The client of nats-py with faster publishing and acknowledgements."""

from __future__ import annotations

import ssl
from typing import Any, Callable, NamedTuple, Optional

from nats.aio.client import Client


class Outgoing(NamedTuple):
    """A message to publish."""

    subject: str
    reply: str
    headers: str  # lines, each with its line end
    body: bytes

    def head(self) -> bytes:
        """The bytes on the connection before the body."""
        head = f"NATS/1.0\r\n{self.headers}\r\n"
        return f"HPUB {self.subject} {self.reply} {len(head)} {len(head) + len(self.body)}\r\n{head}".encode("ascii")


class FastClient(Client):
    """Connects as nats-py does. The publish method of nats-py checks and copies each header, and wakes a task for each message
    and one for each acknowledgement: 70 us of CPU per message, too much for an agent that makes 1,000 calls per second. FastClient
    writes messages in batches and reads acknowledgements where they arrive. It uses private attributes of nats-py; if a version
    of nats-py lacks them, it publishes as nats-py does."""

    def __init__(self, secure: bool = False) -> None:
        super().__init__()
        self._llmtap_secure = secure
        self._llmtap_inbox = b""
        self._llmtap_on_ack: Optional[Callable[[str, bytes], None]] = None

    def _connect_command(self) -> bytes:
        """The first message to the server, with the password. Raises SSLError if it would not be encrypted but must be."""
        writer: Any = getattr(getattr(self, "_transport", None), "_io_writer", None)  # None for WebSockets, whose URL decides
        if self._llmtap_secure and writer is not None and writer.get_extra_info("ssl_object") is None:
            raise ssl.SSLError("the server does not use TLS")
        protocol: Any = getattr(writer, "_protocol", None)
        if self._llmtap_secure and hasattr(protocol, "_over_ssl"):
            protocol._over_ssl = True  # nats-py does not set it, and asyncio would log a warning when the server closes
        return super()._connect_command()

    async def _process_info(self, info: Any, *args: Any, **more: Any) -> None:
        await super()._process_info(info, *args, **more)
        server: Any = getattr(self, "_server_info", None)
        if self._llmtap_secure and isinstance(server, dict) and server.get("tls_available"):
            server["tls_required"] = True  # otherwise nats-py uses TLS only if the server does not permit connections without it

    async def subscribe_acks(self, inbox: str, on_ack: Callable[[str, bytes], None]) -> None:
        """Calls on_ack with the subject and data of each message whose subject begins with inbox. The data is empty if no stream
        has the subject."""

        async def called(msg: Any) -> None:
            on_ack(msg.subject, msg.data)

        self._llmtap_inbox, self._llmtap_on_ack = inbox.encode(), on_ack
        await self.subscribe(inbox + "*", cb=called)
        await self.flush()  # before the first message of send

    async def _process_msg(self, sid: Any, subject: Any, reply: Any, data: Any, headers: Any, *more: Any) -> None:
        if self._llmtap_on_ack is not None and not more and subject.startswith(self._llmtap_inbox):
            self._llmtap_on_ack(subject.decode(), data)
        else:
            await super()._process_msg(sid, subject, reply, data, headers, *more)

    async def send(self, messages: list[Outgoing]) -> None:
        """Writes messages to the connection, in order."""
        transport: Any = getattr(self, "_transport", None)
        if hasattr(transport, "write") and hasattr(transport, "drain"):
            pieces: list[bytes] = []
            for m in messages:
                pieces += (m.head(), m.body, b"\r\n")
            transport.write(b"".join(pieces))
            await transport.drain()
            return
        for m in messages:
            headers = dict(line.split(": ", 1) for line in m.headers.splitlines())
            await self.publish(m.subject, m.body, m.reply, headers)
