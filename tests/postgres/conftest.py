"""One server for all tests; each test has a database of its own."""

import pytest
from helpers.postgres import Cluster, cluster


@pytest.fixture(scope="session")
def server():
    with cluster() as made:
        yield made


@pytest.fixture
def url(server: Cluster):
    """Of an empty database; afterwards, nothing of it may be left open."""
    name = server.database()
    yield server.url(name)
    server.run(f"DROP DATABASE {name} WITH (FORCE)")
