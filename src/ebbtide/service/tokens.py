"""The tokens that are accepted: the administrator's, which the service was started with, and those in the database.

Those in the database are read again every LOOK_S seconds, beside the requests, so no request waits for that. While they
cannot be read, the holder of one of them is refused: it may have been revoked.
"""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable

from ebbtide.service.access import EVERYTHING, Access
from ebbtide.service.logs import line, logger
from ebbtide.service.middleware import Refusal
from ebbtide.study.storage import Storage
from ebbtide.study.storage.tokens import Token, digest, id_in, stored

LOOK_S = 0.5
PATIENCE_S = 8.0  # for one look; after that, the tokens count as unreadable
NONE_SUCH = bytes(32)  # compared with where there is no digest, so that it takes as long


class Tokens:
    def __init__(self, administrator: str | None, known: Iterable[Token] = ()) -> None:
        self._administrator = None if administrator is None else digest(administrator)
        self._needed = administrator is not None
        self._readable = True
        self._began: float | None = None  # when the look began that has not ended
        self._learn(known)

    def access(self, authorization: str) -> Access:
        """What the sender of this header may do; a Refusal if that is nothing."""
        if not self._needed:
            return EVERYTHING
        scheme, _, given = authorization.partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        found = digest(token)
        # In constant time: how long it takes says nothing about how much of the token was right.
        if hmac.compare_digest(found, self._administrator or NONE_SUCH):
            return EVERYTHING
        known = self._known.get(id_in(token))
        if hmac.compare_digest(found, NONE_SUCH if known is None else known.digest) and known is not None:
            if not self._is_current:
                raise Refusal(503, "tokens cannot be checked at the moment; try again", Retry_After="1")
            if known.revoked is None:
                return Access(frozenset(known.scopes), known.prefix, known.id)
        message = 'the token is missing or wrong: send "Authorization: Bearer TOKEN"'
        raise Refusal(401, message, WWW_Authenticate="Bearer")

    def accepts(self, access: Access) -> bool:
        """Whether what was granted earlier still is."""
        if access.token_id is None:
            return self._administrator is not None or not self._needed
        known = self._known.get(access.token_id)
        return known is not None and known.revoked is None and self._is_current

    async def watch(self, read: Callable[[Callable[[Storage], list[Token]]], Awaitable[list[Token]]]) -> None:
        """Learn of new and revoked tokens, until cancelled."""
        while True:
            self._began = time.monotonic()
            try:
                self._learn(await read(lambda storage: stored(storage.database)))
                self._readable = True
            except Exception as error:  # whatever it is, the next look may succeed
                if self._readable and self._known:
                    logger.warning(line({"verb": "tokens", "error": type(error).__name__, "reason": str(error)}))
                self._readable = False
            self._began = None
            await asyncio.sleep(LOOK_S)

    @property
    def _is_current(self) -> bool:
        return self._readable and (self._began is None or time.monotonic() - self._began < PATIENCE_S)

    def _learn(self, known: Iterable[Token]) -> None:
        self._known = {token.id: token for token in known}
        self._needed |= bool(self._known)  # even if all of them are revoked
