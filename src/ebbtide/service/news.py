"""News from other replicas of the service, and from programs: whoever waits for a study on this one is woken."""

import asyncio

from ebbtide.service.queues import Notifier
from ebbtide.study.storage.urls import is_postgresql

AGAIN_S = 0.5  # after the connection was lost


async def listen(url: str, notifier: Notifier) -> None:
    """Until cancelled. A file has no news: those who wait look at it every second, as they do while these are lost."""
    if not is_postgresql(url):
        return
    import psycopg

    from ebbtide.study.storage.pools import options
    from ebbtide.study.storage.postgresql import CHANNEL

    while True:
        try:
            async with await psycopg.AsyncConnection.connect(**options(url), autocommit=True) as connection:
                await connection.execute(f"LISTEN {CHANNEL}".encode())
                notifier.announce_all()  # what happened before is not told again
                async for news in connection.notifies():
                    notifier.announce(news.payload)
        except psycopg.Error:
            await asyncio.sleep(AGAIN_S)
