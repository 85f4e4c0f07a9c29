"""What `/metrics` says of each study, of the asks and of the file."""

import re
from contextlib import closing
from pathlib import Path

import pytest
from helpers.direct import running
from helpers.serving import storage_of
from prometheus_client.parser import text_string_to_metric_families

import ebbtide as eb
from ebbtide.service import figures
from ebbtide.study.gain import gain

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("metrics") / "s.db"


@pytest.fixture(scope="module")
def shared(path):
    with running(path) as direct:
        yield direct


@pytest.fixture
def direct(shared):
    """Without studies, at the end."""
    yield shared
    for study in shared.call("GET", "/studies").json["studies"]:
        assert shared.call("DELETE", f"/studies/{study['name']}").status == 204


def scraped(direct):
    """Every sample, by its name and its study."""
    answer = direct.call("GET", "/metrics")
    assert answer.status == 200
    families = text_string_to_metric_families(answer.body.decode())
    return {(sample.name, sample.labels.get("study")): sample.value for family in families for sample in family.samples}


def create(direct, name, **options):
    body = {"name": name, "space": SPACE, "algorithm": "random", "seed": 0} | options
    assert direct.call("POST", "/studies", body).status == 201


def measure(direct, name, times, value=lambda x: x, **also):
    for _ in range(times):
        trial = direct.call("POST", f"/studies/{name}/ask").json
        outcome = {"id": trial["id"], "value": value(trial["params"]["x"])} | also
        assert direct.call("POST", f"/studies/{name}/tell", outcome).status == 200


def opened(path, name):
    return closing(eb.Optimizer.open(storage_of(path), name))


def test_a_study_with_a_model_has_its_timescale(direct, path):
    create(direct, "edge", algorithm="tide")
    measure(direct, "edge", 14)
    with opened(path, "edge") as opt:
        expected, last = opt.hyperparameters["timescale"], opt.history[-1].time
    found = scraped(direct)
    assert found["ebbtide_timescale_seconds", "edge"] == expected
    assert found["ebbtide_last_told_timestamp_seconds", "edge"] == pytest.approx(last, abs=60.0)
    assert found["ebbtide_active", "edge"] + found["ebbtide_removed_total", "edge"] == 14.0


def test_a_study_with_a_baseline_has_its_gain(direct, path):
    create(direct, "edge", algorithm="tide", baseline={"x": 0.1}, baseline_every=3, explore=0.3, n_initial=3)
    measure(direct, "edge", 24)
    with opened(path, "edge") as opt:
        known = opt.gain
    found = scraped(direct)
    assert (known.mean, known.low, known.high) == tuple(
        found[f"ebbtide_gain{end}", "edge"] for end in ("", "_low", "_high")
    )


def test_a_study_with_constraints_has_its_violation_rate(direct, path):
    create(direct, "edge", constraints={"heat": {"at_most": 1.0}})
    assert ("ebbtide_violation_rate", "edge") not in scraped(direct)  # none counts yet
    measure(direct, "edge", 3, constraints={"heat": 0.5})
    measure(direct, "edge", 1, constraints={"heat": 1.5})
    assert scraped(direct)["ebbtide_violation_rate", "edge"] == 0.25


def test_what_a_study_does_not_have_is_left_out(direct):
    create(direct, "edge")
    found = scraped(direct)
    assert found["ebbtide_told_total", "edge"] == 0.0
    for name in ("timescale_seconds", "gain", "gain_low", "gain_high", "violation_rate", "last_told_timestamp_seconds"):
        assert (f"ebbtide_{name}", "edge") not in found


def test_a_study_by_another_clock_has_no_seconds(direct, path):
    clock = eb.ManualClock()
    with closing(eb.Optimizer({"x": eb.Float(0, 1)}, storage=storage_of(path), name="manual", clock=clock)) as opt:
        for _ in range(14):
            opt.tell(opt.ask(), 1.0)
    found = scraped(direct)
    assert found["ebbtide_told_total", "manual"] == 14.0
    assert ("ebbtide_timescale_seconds", "manual") not in found
    assert ("ebbtide_last_told_timestamp_seconds", "manual") not in found


def test_asks_and_tells_are_timed(direct):
    create(direct, "edge")
    before = scraped(direct)
    measure(direct, "edge", 3)
    found = scraped(direct)
    for verb in ("ask", "tell"):
        assert found[f"ebbtide_{verb}_seconds_count", None] == before[f"ebbtide_{verb}_seconds_count", None] + 3.0
    assert found["ebbtide_oldest_ask_seconds", None] == 0.0


def test_the_guide_has_every_metric(direct):
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    documented = re.findall(r"`(ebbtide_[a-z_]+)`", "".join(re.findall(r"^\| `ebbtide_.*$", page, re.MULTILINE)))
    families = text_string_to_metric_families(direct.call("GET", "/metrics").body.decode())
    exported = [family.name + ("_total" if family.type == "counter" else "") for family in families]
    assert sorted(documented) == sorted(exported)


# --- a scrape costs little --------------------------------------------------------------------------------------------


def test_only_the_studies_that_were_told_last_have_figures(direct, monkeypatch):
    monkeypatch.setattr(figures, "SHOWN", 2)
    for name in "abcd":
        create(direct, name)
    measure(direct, "b", 1)
    measure(direct, "a", 1)
    found = scraped(direct)
    assert {study for _, study in found if study} == {"a", "b"}
    assert found["ebbtide_studies", None] == 4.0
    measure(direct, "d", 1)
    assert {study for _, study in scraped(direct) if study} == {"a", "d"}


def test_a_scrape_computes_few_gains_and_the_next_ones_the_others(direct, monkeypatch):
    monkeypatch.setattr(figures, "GAINS", 1)
    computed = []
    monkeypatch.setattr(figures, "gain", lambda *given: computed.append(1) or gain(*given))
    names = ["a", "b", "c"]
    for name in names:
        create(direct, name, baseline={"x": 0.1}, baseline_every=2, explore=0.0, n_initial=1, algorithm="tide")
        measure(direct, name, 12)
    for known in (1, 2, 3, 3):
        found = scraped(direct)
        assert len([name for name in names if ("ebbtide_gain", name) in found]) == known
    assert len(computed) == 3  # none again while nothing was told
    measure(direct, "b", 1)
    scraped(direct)
    assert len(computed) == 4


# --- the file ---------------------------------------------------------------------------------------------------------


def test_metrics_say_that_the_file_is_gone_and_that_it_is_back(direct, path):
    create(direct, "edge")
    found = scraped(direct)
    assert found["ebbtide_storage_readable", None] == 1.0
    assert 0.0 < found["ebbtide_disk_free_bytes", None] <= found["ebbtide_disk_bytes", None]
    path.rename(path.with_name("away"))
    found = scraped(direct)
    assert found["ebbtide_storage_readable", None] == 0.0
    assert ("ebbtide_told_total", "edge") not in found
    path.with_name("away").rename(path)
    assert scraped(direct)["ebbtide_told_total", "edge"] == 0.0


def test_a_folder_that_is_gone_has_no_disk(tmp_path):
    (tmp_path / "folder").mkdir()
    with running(tmp_path / "folder" / "s.db") as direct:
        (tmp_path / "folder").rename(tmp_path / "away")
        found = scraped(direct)
        (tmp_path / "away").rename(tmp_path / "folder")
    assert found["ebbtide_storage_readable", None] == 0.0
    assert ("ebbtide_disk_bytes", None) not in found
