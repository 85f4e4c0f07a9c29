"""How many connections there may be, and which of them gives way to a new one.

| a connection | when                                                              | gives way                         |
|--------------|-------------------------------------------------------------------|-----------------------------------|
| is owed      | a request has not arrived completely, or an answer is not taken   | first                             |
| idles        | between requests                                                  | if none is owed                   |
| is answered  | an answer has begun: a stream, or a long one that its client takes | if none idles, either            |
| works        | its client waits for the answer to begin                          | never; a new one is refused       |

So clients that do not send or do not read cannot keep others out. Of several, the one that has been so longest goes;
of those that are answered, the one that connected first.
"""

from collections import Counter
from collections.abc import Container
from itertools import chain
from typing import Protocol


class Connection(Protocol):
    @property
    def is_answered(self) -> bool: ...

    def give_way(self) -> None: ...


class Admission:
    def __init__(self, most: int, most_per_address: int) -> None:
        self.most, self.most_per_address = most, most_per_address
        self._open: dict[Connection, str] = {}  # with their addresses
        self._per_address: Counter[str] = Counter()
        self._owed: dict[Connection, None] = {}  # the longest first
        self._idle: dict[Connection, None] = {}

    def admit(self, connection: Connection, address: str) -> bool:
        """Whether there is room for it, or has been made."""
        if self._per_address[address] >= self.most_per_address:
            has_room = self._make_room([address])
        elif len(self._open) >= self.most:
            has_room = self._make_room(self._per_address)
        else:
            has_room = True
        if has_room:
            self._open[connection] = address
            self._per_address[address] += 1
            self._owed[connection] = None
        return has_room

    def leave(self, connection: Connection) -> None:
        address = self._open.pop(connection, None)
        if address is None:
            return  # it was refused, or has given way
        self.works(connection)
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def is_owed(self, connection: Connection) -> None:
        self.works(connection)
        if connection in self._open:
            self._owed[connection] = None

    def idles(self, connection: Connection) -> None:
        self.works(connection)
        if connection in self._open:
            self._idle[connection] = None

    def works(self, connection: Connection) -> None:
        self._owed.pop(connection, None)
        self._idle.pop(connection, None)

    def _make_room(self, addresses: Container[str]) -> bool:
        answered = (each for each in self._open if each.is_answered)
        candidates = chain(self._owed, self._idle, answered)
        found = next((each for each in candidates if self._open[each] in addresses), None)
        if found is None:
            return False
        self.leave(found)
        found.give_way()
        return True
