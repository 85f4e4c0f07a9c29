"""Memory and SQLite pass the suite that every storage must pass; so does PostgreSQL, in tests/postgres."""

import pytest
from helpers.studies import url

from ebbtide import testing
from ebbtide.study.storage import Storage


@pytest.mark.parametrize("check", testing.LOG_CHECKS, ids=testing.name_of)
def test_memory(check):
    check(testing.InMemory())


@pytest.mark.parametrize("check", testing.STORAGE_CHECKS, ids=testing.name_of)
def test_sqlite(check, tmp_path):
    check(lambda: Storage.of(url(tmp_path / "s.db"), create=True))


def test_a_storage_that_forgets_is_found_out(tmp_path):
    class Forgetful(Storage):
        def names(self, prefix=""):
            return super().names(prefix)[1:]

    with pytest.raises(testing.ConformanceError, match="the names: expected"):
        testing.check_storage(lambda: Forgetful(Storage.of(url(tmp_path / "s.db"), create=True).database))


def test_a_log_that_keeps_half_of_the_bits_is_found_out(monkeypatch):
    memory = testing.InMemory()

    def opened(name, space, **options):
        study = memory(name, space, **options)
        told = study.tell

        def tell(trial, value=None, **more):
            told(trial, value if value is None else round(value, 3), **more)

        monkeypatch.setattr(study, "tell", tell)
        return study

    with pytest.raises(testing.ConformanceError, match="expected"):
        testing.check_log(opened)
