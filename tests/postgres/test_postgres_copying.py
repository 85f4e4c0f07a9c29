"""Studies from a file to PostgreSQL and back are the same, to the last bit."""

from contextlib import closing
from itertools import pairwise

from helpers.copying import expect_the_same, studies_of_all_kinds
from helpers.studies import url as url_of_file

from ebbtide.study.storage import Storage, copying


def test_there_and_back(url, tmp_path):
    urls = [url_of_file(tmp_path / "from.db"), url, url_of_file(tmp_path / "back.db")]
    with closing(Storage.of(urls[0], create=True)) as source:
        studies_of_all_kinds(source)
    for here, there in pairwise(urls):
        with closing(Storage.of(here)) as source, closing(Storage.of(there, create=True)) as target:
            assert len(list(copying.copy(source, target))) == 2
            expect_the_same(source, target)


def test_from_postgresql_to_postgresql(server, url):
    other = server.database()
    with closing(Storage.of(url, create=True)) as source, closing(Storage.of(server.url(other), create=True)) as target:
        studies_of_all_kinds(source)
        list(copying.copy(source, target, ["window"]))
        assert target.names() == ["window"]
        assert target.summary("window") == source.summary("window")
    server.run(f"DROP DATABASE {other} WITH (FORCE)")
