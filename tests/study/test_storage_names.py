"""The names that an error shows."""

import pytest

import ebbtide as eb
from ebbtide.study.definition import define
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0)}


def test_an_unknown_study_is_missed_without_reading_all_names(tmp_path, monkeypatch):
    """How long that takes must not tell one team how many studies the others have."""
    storage = Storage.of(f"sqlite:///{tmp_path}/s.db", create=True)
    with storage.database.transaction():
        for number in range(30):
            storage.create(f"s{number:02}", define(SPACE))
    read, rows = [], storage.database.rows

    def counted(*query):
        read.append(len(found := rows(*query)))
        return found

    monkeypatch.setattr(storage.database, "rows", counted)
    with pytest.raises(eb.UnknownStudyError, match=r"has 's00', .*'s09', …$"):
        storage.summary("none")
    assert sum(read) <= 11
    storage.close()
