"""nats-py's client with a short way to publish and to be told that messages are stored."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from nats.aio.client import Client


class Outgoing(NamedTuple):
    """One message on its way out."""

    subject: str
    reply: str
    headers: str  # lines, each with its end
    body: bytes

    def head(self) -> bytes:
        """What is written to the connection but for the body and the end of the line behind it."""
        head = f"NATS/1.0\r\n{self.headers}\r\n"
        return f"HPUB {self.subject} {self.reply} {len(head)} {len(head) + len(self.body)}\r\n{head}".encode("ascii")


class ShortClient(Client):
    """Connects as nats-py does. nats-py's own publish checks and copies each header, and wakes a task for each message, and one
    more for each answer: 70 us of CPU for a message, of which an agent that makes 1,000 calls a second has none to spare. Here a
    message is written as it is, many at a time, and its answer is read where it comes in. It takes what nats-py calls private; in a
    version of nats-py that has it no more the long way is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._llmtap_inbox = b""
        self._llmtap_answer: Optional[Callable[[str, bytes], None]] = None

    async def answers(self, inbox: str, answer: Callable[[str, bytes], None]) -> None:
        """Has answer called with the subject and the text of each message whose subject begins with inbox. An answer that says
        in its headers that nobody took the message has no text."""

        async def called(msg: Any) -> None:
            answer(msg.subject, msg.data)

        self._llmtap_inbox, self._llmtap_answer = inbox.encode(), answer
        await self.subscribe(inbox + "*", cb=called)
        await self.flush()  # what send writes must not overtake it

    async def _process_msg(self, sid: Any, subject: Any, reply: Any, data: Any, headers: Any, *more: Any) -> None:
        if self._llmtap_answer is not None and not more and subject.startswith(self._llmtap_inbox):
            self._llmtap_answer(subject.decode(), data)
        else:
            await super()._process_msg(sid, subject, reply, data, headers, *more)

    async def send(self, messages: list[Outgoing]) -> None:
        """Hands messages to the network, in their order."""
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
