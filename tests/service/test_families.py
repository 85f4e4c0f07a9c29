"""Families over HTTP: the library's words, and the borders of tenants."""

import json
from contextlib import closing

import pytest
from helpers.serving import storage_of
from helpers.studies import Tables
from helpers.tenants import SPACE, Team, everything, shared

import ebbtide as eb
from ebbtide.study.storage import Storage

X = {"x": eb.Float(0.0, 1.0)}
LEARNED = [(k / 11.0, (k / 11.0 - 0.4) ** 2) for k in range(12)]


def learn(study):
    for x, value in LEARNED:
        study.tell({"x": x}, value)
    study.ask()


def test_a_study_says_its_family_and_learns_from_its_siblings(client):
    first, second = (client.create(f"kin.{k}", X, seed=k, family="http") for k in range(2))
    assert first.describe()["family"] == "http"
    assert client.create("kin.plain", X, seed=0).describe()["family"] is None
    learn(first)
    learn(second)
    assert (first.state()["siblings"], second.state()["siblings"]) == (0, 1)
    assert client.create_or_open("kin.0", X, family="http").name == "kin.0"
    assert client.create_or_open("kin.0", X).name == "kin.0"
    with pytest.raises(eb.StudyError, match="its family is 'http', not 'other'"):
        client.create_or_open("kin.0", X, family="other")


@pytest.mark.parametrize("family", ["", "a/b", "x" * 101, " ", "\x07"])
def test_a_bad_family_is_refused(family, client):
    with pytest.raises((eb.ConfigurationError, eb.ServiceError), match="family"):
        client.create("never", X, family=family)
    with pytest.raises(eb.UnknownStudyError):
        client.study("never")


def test_asks_of_the_service_follow_from_what_is_recorded(client, server):
    """They were computed in worker processes, which were told what the siblings are like."""
    for number in range(3):
        study = client.create(f"repeat.{number}", X, seed=number, family="repeat")
        learn(study)
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, (trial.params["x"] - 0.4) ** 2)
    tables = Tables(server.folder / "s.db", "repeat.2")
    assert json.loads(tables.asks[0]["state"])["family"]["siblings"] == 2
    for k in range(len(tables.asks)):
        assert tables.recomputed(k) == tables.recorded(k)


def test_the_family_of_another_team_is_another_one(tmp_path):
    path = tmp_path / "s.db"
    Storage.of(storage_of(path), create=True).close()
    teams = [everything(path, f"team-{letter}.*") for letter in "ab"]
    with shared(path) as direct:
        for letter, token in zip("ab", teams, strict=True):
            team = Team(direct, token)
            for number in range(3 if letter == "a" else 1):
                name = f"team-{letter}.{number}"
                new = {"name": name, "space": SPACE, "seed": 0, "family": "edge"}
                assert team.call("POST", "/studies", new).json["family"] == "edge"
                for x, value in LEARNED:
                    told = {"params": {"x": x}, "value": value}
                    assert team.call("POST", f"/studies/{name}/tell", told).status == 200
                assert team.call("POST", f"/studies/{name}/ask", {}).status == 200
                assert team.call("GET", f"/studies/{name}/state").json["siblings"] == number
    with closing(Storage.of(storage_of(path))) as storage:
        assert (storage.log("team-a.0").siblings() or {})["siblings"] == 2
        assert storage.log("team-b.0").siblings() == {}
