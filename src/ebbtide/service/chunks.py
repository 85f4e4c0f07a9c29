"""Answers are written a chunk at a time, and the next one when the client has taken the one before: what a client does
not read stays where it is, and costs no second copy.
"""

from ebbtide.service.middleware import Message, Send

CHUNK = 1 << 16  # bytes


def in_chunks(send: Send) -> Send:
    async def sending(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= CHUNK:
            await send(message)
            return
        for start in range(0, len(body), CHUNK):
            more = start + CHUNK < len(body) or message.get("more_body", False)
            await send({"type": message["type"], "body": body[start : start + CHUNK], "more_body": more})

    return sending
