"""Three services, a database and the connections between them, all of which fail; `make chaos-postgres` is longer."""

from helpers.chaos_postgres import unleash


def test_every_confirmed_tell_is_stored_once_whatever_fails(tmp_path):
    counts = {"kill": 20, "restart": 3, "end": 5, "cut": 5, "cut commit": 10}
    seen = unleash(tmp_path, counts)
    assert seen["asks"] > 0
    assert seen["tells"] > 100
