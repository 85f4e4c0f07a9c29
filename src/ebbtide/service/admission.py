"""How many connections there may be, and which of them gives way to a new one.

A connection waits for its client while a request has not arrived completely, while an answer is not taken, and between
requests. When there are as many connections as there may be, the one that has waited longest is ended: clients that do
not send or do not read cannot keep others out. Only if the service itself is at work for all of them, a new one is
refused.
"""

from collections import Counter
from typing import Protocol


class Connection(Protocol):
    def give_way(self) -> None: ...


class Admission:
    def __init__(self, most: int, most_per_address: int) -> None:
        self.most, self.most_per_address = most, most_per_address
        self._open: dict[Connection, str] = {}  # with their addresses
        self._waiting: dict[Connection, str] = {}  # those that wait for their clients; the longest wait comes first
        self._per_address: Counter[str] = Counter()

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
            self.waits(connection)
        return has_room

    def leave(self, connection: Connection) -> None:
        address = self._open.pop(connection, None)
        if address is None:
            return  # it was refused, or has given way
        self._waiting.pop(connection, None)
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def waits(self, connection: Connection) -> None:
        """From now on it waits for its client."""
        self._waiting.pop(connection, None)
        if connection in self._open:
            self._waiting[connection] = self._open[connection]

    def works(self, connection: Connection) -> None:
        """From now on its client waits for us."""
        self._waiting.pop(connection, None)

    def _make_room(self, addresses: "list[str] | Counter[str]") -> bool:
        longest = next((each for each, address in self._waiting.items() if address in addresses), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.give_way()
        return True
