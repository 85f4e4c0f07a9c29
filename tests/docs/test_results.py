"""The published figures are those of docs/data: every table, and every number in a sentence (see docs/measured.py)."""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

import ebbtide as eb
from ebbtide.experiments import paper

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import measured  # noqa: E402
import measured_sentences  # noqa: E402
import measured_tables  # noqa: E402

DATA = sorted(path.stem for path in (DOCS / "data").glob("*.csv") if path.stem != "sources")
SOURCES = pd.read_csv(DOCS / "data" / "sources.csv").set_index("file")


def page(name):
    return " ".join(measured.read(name).replace("`", "").split())


def quotations():
    """Which page quotes which file."""
    marked = [(name, table) for name in measured.pages() for table in measured.MARK.findall(measured.read(name))]
    yield from ((name, file) for name, table in marked for file in measured_tables.TABLES[table].data)
    yield from ((sentence.page, file) for sentence in measured_sentences.SENTENCES for file in sentence.data)


QUOTATIONS = sorted(set(quotations()))


@pytest.mark.parametrize("name", measured.pages())
def test_a_page_says_what_was_measured(name):
    assert list(measured.differences(name)) == []


def test_every_table_that_is_made_is_on_a_page():
    marks = [mark for name in measured.pages() for mark in measured.MARK.findall(measured.read(name))]
    assert sorted(marks) == sorted(measured_tables.TABLES)
    tables = [match for name in measured.pages() for match in measured.MARKED.findall(measured.read(name))]
    assert len(tables) == len(marks)  # each mark has a table below it


def test_every_file_has_a_source_and_is_quoted():
    assert sorted(SOURCES.index) == DATA
    assert SOURCES.notna().all(axis=None)
    assert set(SOURCES["origin"]) <= {"written", "copied"}
    assert sorted({file for _, file in QUOTATIONS}) == DATA


@pytest.mark.parametrize("file", DATA)
def test_no_column_of_a_file_is_empty(file):
    assert measured_tables.data(file).notna().any().all()


@pytest.mark.parametrize("file", DATA)
def test_the_command_stands_beside_what_it_measured(file):
    """On one of the pages that quote it, at least without its options."""
    command = SOURCES.at[file, "command"].partition(" --")[0]
    assert [name for name, quoted in QUOTATIONS if quoted == file and command in page(name)] != []


def test_the_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for command in SOURCES["command"]:
        program, what = command.split()[:2]
        if program == "make":
            assert f"\n{what}:" in makefile
        elif program == "python":
            assert (ROOT / what).exists()
        else:
            assert program == "ebbtide"


def test_a_stale_number_is_found_and_put_right(tmp_path, monkeypatch):
    """A table, a number in a sentence, and a number that no file knows."""
    (tmp_path / "docs").mkdir()
    stale = tmp_path / "docs" / "service.md"
    right = measured.read("docs/service.md")
    confirmed = re.search(r"([\d,]+) (?:tells )?confirmed", right)
    assert confirmed
    told = confirmed[1]
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    wrong = right.replace(told, "99,999").replace("| tell | 182 |", "| tell | 183 |")
    stale.write_text(wrong, encoding="utf-8")
    assert len(list(measured.differences("docs/service.md"))) == 2
    assert measured.updated("docs/service.md") == (right, [])
    stale.write_text(right + "\nIt took 0.123 s.\n", encoding="utf-8")
    (found,) = measured.differences("docs/service.md")
    assert "0.123" in found


def test_the_table_is_complete():
    table = measured_tables.data("table")
    assert len(table) == 960
    assert sorted(set(table["problem"])) == sorted(eb.benchmarks.PAPER)
    assert sorted(set(table["algorithm"])) == sorted([*paper.ALGORITHMS, "w-dbo-exact", "tide"])
    assert set(table["seed"]) == set(range(10))
    assert not table.duplicated(["problem", "algorithm", "seed"]).any()


def test_a_script_records_what_it_measured(tmp_path, monkeypatch):
    """A file with the figures, and a line in the list of sources."""
    sys.path.insert(0, str(ROOT / "perf"))
    import record

    shutil.copy(DOCS / "data" / "sources.csv", tmp_path)
    monkeypatch.setattr(record, "DATA", tmp_path)
    monkeypatch.setattr(record, "SOURCES", tmp_path / "sources.csv")
    monkeypatch.setattr(sys, "argv", ["perf/resume.py"])
    record.record("resume", [{"told": 10, "open_s": 0.5}], "make perf-resume")
    assert not (tmp_path / "resume.csv").exists()  # without --record nothing is written
    monkeypatch.setattr(sys, "argv", ["perf/resume.py", "--told", "10", "--folder", str(tmp_path), "--record"])
    record.record("resume", [{"told": 10, "open_s": 0.5}], "make perf-resume")
    assert (tmp_path / "resume.csv").read_text() == "told,open_s\n10,0.5\n"
    sources = pd.read_csv(tmp_path / "sources.csv").set_index("file")
    assert sources.at["resume", "command"] == "python perf/resume.py --told 10 --folder …"  # no path of a machine
    assert sources.at["resume", "origin"] == "written"
    assert len(sources) == len(SOURCES)
