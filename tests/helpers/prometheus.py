"""A Prometheus of the system's that scrapes a service every second, as `deploy/prometheus` says otherwise."""

import json
import math
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml
from helpers.serving import PATIENCE_S

T = TypeVar("T")
DEPLOYED = Path(__file__).parents[2] / "deploy"
EVERY = "1s"
# What the alerts wait for, and what it is here.
SHORTER = {r"\[1m\]": "[3s]", "> 900": "> 5"}


def until(condition: Callable[[], T], wanted: Callable[[T], bool] = bool) -> T:
    """What the condition returns once it is wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := condition()):
        assert time.monotonic() < deadline, f"still {found!r}"
        time.sleep(0.2)
    return found


@dataclass
class Prometheus:
    url: str

    def get(self, path: str, **values: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(values)}", timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series; one that is not a number is no data."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector"
        values = [(series["metric"], float(series["value"][1])) for series in found["result"]]
        return [(labels, value) for labels, value in values if not math.isnan(value)]

    def firing(self) -> set[str]:
        """The alerts that fire."""
        alerts = self.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=PATIENCE_S) as answer:
                return bool(answer.status == 200)
        except (URLError, ConnectionError):
            return False


@contextmanager
def scraping(folder: Path, target: str, token: str) -> Iterator[Prometheus]:
    """A Prometheus with our configuration and our rules, only faster; it is always ended."""
    url, log = f"127.0.0.1:{_free_port()}", folder / "log.txt"
    arguments = [
        "prometheus",
        f"--config.file={_configured(folder, target, token)}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url}",
    ]
    with log.open("wb") as said:
        process = subprocess.Popen(arguments, stdout=said, stderr=said, cwd=folder)
    prometheus = Prometheus(f"http://{url}")
    try:
        until(lambda: prometheus.is_ready() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield prometheus
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _configured(folder: Path, target: str, token: str) -> Path:
    config = yaml.safe_load((DEPLOYED / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY}
    (job,) = config["scrape_configs"]
    job["static_configs"][0]["targets"] = [target]
    job["authorization"]["credentials_file"] = _written(folder / "ebbtide.token", token)
    rules = yaml.safe_load((DEPLOYED / "prometheus" / "ebbtide.rules.yml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        rule["for"] = EVERY
        for long, short in SHORTER.items():
            rule["expr"] = re.sub(long, short, rule["expr"])
    config["rule_files"] = [_written(folder / "rules.yml", yaml.safe_dump(rules))]
    return Path(_written(folder / "prometheus.yml", yaml.safe_dump(config)))


def _written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
