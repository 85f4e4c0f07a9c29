"""The running counts of a database, against a count of everything in it."""

from collections import Counter

from ebbtide.study.storage import Storage


def check_counts(storage: Storage) -> None:
    """Of each study: what its lines and asks say of those before them, and which lines are active."""
    for study in storage.numbers():
        _check_lines(storage, study)
        removed = _check_asks(storage, study)
        seen = storage.database.row("SELECT coalesce(max(told), 0) FROM asks WHERE study = ?", (study,))[0]
        valued = storage.database.rows("SELECT line FROM tells WHERE study = ? AND value IS NOT NULL", (study,))
        active = storage.database.rows("SELECT line FROM active WHERE study = ? ORDER BY line", (study,))
        assert [line for (line,) in active] == sorted({line for (line,) in valued if line < seen} - removed)


def _check_lines(storage: Storage, study: int) -> None:
    rows = storage.database.rows(
        "SELECT time, value, abandoned, broken, valued, failed, first, last, alike "
        "FROM tells WHERE study = ? ORDER BY line",
        (study,),
    )
    valued, failed, first, last, broken = 0, 0, None, None, Counter[int | None]()
    for time, value, abandoned, bits, *counted in rows:
        if value is not None:
            valued += 1
            first, last = (time, time) if first is None else (min(first, time), max(last, time))
        failed += value is None and not abandoned
        broken[bits] += 1
        assert counted == [valued, failed, first, last, None if bits is None else broken[bits]]


def _check_asks(storage: Storage, study: int) -> set[int]:
    """The lines that were removed."""
    gone = set[int]()
    for ask, counted in storage.database.rows("SELECT ask, gone FROM asks WHERE study = ? ORDER BY ask", (study,)):
        assert counted == len(gone)
        lines = storage.database.rows("SELECT line FROM removals WHERE study = ? AND ask = ?", (study, ask))
        gone |= {line for (line,) in lines}
    return gone
