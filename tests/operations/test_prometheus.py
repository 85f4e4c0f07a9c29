"""A real Prometheus scrapes a real service: each alert fires and ends, and each panel of the dashboard has data."""

import json
import os
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest
from helpers.prometheus import DEPLOYED, scraping, until
from helpers.serving import TOKEN, served

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
STUDY = {
    "name": "edge",
    "space": SPACE,
    "seed": 0,
    "n_initial": 3,
    "explore": 0.3,
    "baseline": {"x": 0.1},
    "baseline_every": 3,
    "constraints": {"heat": {"at_most": 1.0}},
}
DISK = "64m"
DASHBOARD = json.loads((DEPLOYED / "grafana" / "ebbtide.json").read_text(encoding="utf-8"))
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
VARIABLES = {"$study": ".*", "$__rate_interval": "10s"}  # as Grafana would fill them in

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus")


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A folder on a small disk of its own, where one can be mounted."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    yield folder
    if mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def server(disk):
    with served(disk, token=TOKEN) as running:
        assert running.call("POST", "/studies", STUDY).status == 201
        yield running


@pytest.fixture(scope="module")
def prometheus(server, tmp_path_factory):
    for _ in range(24):
        measure(server)
    with scraping(tmp_path_factory.mktemp("prometheus"), server.host, TOKEN) as running:
        yield running


def measure(server):
    trial = server.call("POST", "/studies/edge/ask").json
    outcome = {"id": trial["id"], "value": trial["params"]["x"], "constraints": {"heat": 0.5}}
    assert server.call("POST", "/studies/edge/tell", outcome).status == 200


def fires(prometheus, alert):
    until(prometheus.firing, lambda firing: alert in firing)


def ends(prometheus, alert, meanwhile=lambda: None):
    def firing():
        meanwhile()
        return prometheus.firing()

    until(firing, lambda firing: alert not in firing)


# --- as they are deployed ---------------------------------------------------------------------------------------------


def test_prometheus_accepts_the_configuration_and_the_rules(tmp_path):
    config = (DEPLOYED / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    for name in ("ebbtide.rules.yml", "ebbtide.token"):
        assert f"/etc/prometheus/{name}\n" in config
    (tmp_path / "ebbtide.token").write_text(TOKEN)
    shutil.copy(DEPLOYED / "prometheus" / "ebbtide.rules.yml", tmp_path)
    (tmp_path / "prometheus.yml").write_text(config.replace("/etc/prometheus", str(tmp_path)))
    checked = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_alerts_fire_after_the_times_that_the_rules_say():
    tests = Path(__file__).with_name("alerts.yml")
    done = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


# --- for real ---------------------------------------------------------------------------------------------------------


def test_it_is_scraped_with_its_token(prometheus):
    targets = until(
        lambda: prometheus.get("targets")["activeTargets"],
        lambda found: [target["health"] for target in found] == ["up"],
    )
    assert targets[0]["lastError"] == ""
    rules = until(
        lambda: prometheus.get("rules")["groups"][0]["rules"],
        lambda rules: all(rule["health"] != "unknown" for rule in rules),
    )
    assert [rule["lastError"] for rule in rules if rule["health"] != "ok"] == []


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_of_the_dashboard_returns_data(expression, prometheus, server):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression

    def found():
        measure(server)
        return prometheus.query(expression)

    until(found)


def test_the_dashboard_lists_the_studies(prometheus):
    (variable,) = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    assert variable["definition"] == variable["query"]["query"] == "label_values(ebbtide_told_total, study)"
    until(lambda: prometheus.get("label/study/values", **{"match[]": "ebbtide_told_total"}), lambda n: n == ["edge"])


def test_no_tells(prometheus, server):
    ends(prometheus, "EbbtideNoTells", meanwhile=lambda: measure(server))
    fires(prometheus, "EbbtideNoTells")
    ends(prometheus, "EbbtideNoTells", meanwhile=lambda: measure(server))


def test_the_file_is_gone(prometheus, server):
    ends(prometheus, "EbbtideFileGone")
    path = server.folder / "s.db"
    path.rename(server.folder / "away.db")
    fires(prometheus, "EbbtideFileGone")
    (server.folder / "away.db").rename(path)
    ends(prometheus, "EbbtideFileGone")


def test_the_disk_is_nearly_full(prometheus, server):
    if not os.path.ismount(server.folder):
        pytest.skip("needs a disk of its own")
    ends(prometheus, "EbbtideDiskNearlyFull")
    disk = shutil.disk_usage(server.folder)
    ballast = server.folder / "ballast"
    ballast.write_bytes(bytes(disk.free - disk.total // 20))
    fires(prometheus, "EbbtideDiskNearlyFull")
    ballast.unlink()
    ends(prometheus, "EbbtideDiskNearlyFull")


def test_asks_are_stuck(prometheus, server):
    ends(prometheus, "EbbtideAsksStuck")
    answers = []
    asking = threading.Thread(target=lambda: answers.append(server.call("POST", "/studies/edge/ask")))
    with closing(sqlite3.connect(server.folder / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # and then it does nothing
        asking.start()
        fires(prometheus, "EbbtideAsksStuck")
        other.execute("ROLLBACK")
    asking.join()
    ends(prometheus, "EbbtideAsksStuck")
    assert answers[0].status in (200, 503)


def test_every_alert_has_a_test_and_none_fires_without_a_reason(prometheus, server):
    rules = [rule["name"] for rule in prometheus.get("rules")["groups"][0]["rules"]]
    assert rules == ["EbbtideDown", "EbbtideFileGone", "EbbtideAsksStuck", "EbbtideDiskNearlyFull", "EbbtideNoTells"]
    ends(prometheus, "EbbtideNoTells", meanwhile=lambda: measure(server))
    without_reason = {"EbbtideDown", "EbbtideFileGone", "EbbtideAsksStuck"}
    until(prometheus.firing, lambda firing: not firing & without_reason)


def test_the_service_is_down(prometheus, server):
    server.process.terminate()
    fires(prometheus, "EbbtideDown")
