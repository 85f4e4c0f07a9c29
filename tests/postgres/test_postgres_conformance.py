"""PostgreSQL passes the suite that every storage must pass."""

import pytest

from ebbtide import testing
from ebbtide.study.storage import Storage


@pytest.mark.parametrize("check", testing.STORAGE_CHECKS, ids=testing.name_of)
def test_postgresql(check, url):
    check(lambda: Storage.of(url, create=True))
