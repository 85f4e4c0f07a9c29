"""What a release is made of agrees with itself: versions, bounds, make targets, workflows."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import ebbtide as eb

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USERS = ("demo", "cli", "experiments", "service", "postgres")  # extras that `make test-minimum` installs


def requirements(*extras):
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(line) for lines in lists for line in lines]


def jobs():
    return [
        (workflow.name, name, job)
        for workflow in WORKFLOWS
        for name, job in yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].items()
    ]


def steps():
    return [step for _, _, job in jobs() for step in job["steps"]]


def make_targets(commands):
    """The targets that shell commands give to make."""
    return {word for line in commands.splitlines() if line.startswith("make ") for word in shlex.split(line)[1:2]}


def test_the_constraints_are_the_lower_bounds():
    lines = (ROOT / "constraints" / "minimum.txt").read_text(encoding="utf-8").splitlines()
    pinned = {
        pin.name: str(pin.specifier) for pin in map(Requirement, filter(None, (x.partition("#")[0] for x in lines)))
    }
    lowest = {
        (need.name, bound.version)
        for need in requirements(*USERS)
        for bound in need.specifier
        if bound.operator == ">="
    }
    assert {(name, pin.removeprefix("==")) for name, pin in pinned.items()} == lowest


@pytest.mark.parametrize("library", ["uvicorn", "optuna"])
def test_libraries_whose_internals_are_used_have_an_upper_bound(library):
    (need,) = (need for need in requirements("service", "optuna") if need.name == library)
    assert any(bound.operator == "<" for bound in need.specifier)


def test_the_version_is_written_once():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_changelog_has_the_version_and_a_place_for_what_comes():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(eb.__version__)}\] - (unreleased|\d{{4}}-\d\d-\d\d)", headings[1])


def test_help_names_every_target():
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"^  make ([a-z-]+) +\S", shown, flags=re.MULTILINE)) == TARGETS


def test_what_ci_calls_exists():
    calls = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert make_targets(calls)
    assert make_targets(calls) <= TARGETS


def test_the_workflows_call_what_ci_calls():
    """All of it, and nothing that does not exist; a matrix names its targets."""
    run = "\n".join(step.get("run", "") for step in steps())
    matrix = {
        case["target"] for _, _, job in jobs() for case in job.get("strategy", {}).get("matrix", {}).get("include", [])
    }
    called = (make_targets(run) - {"$TARGET"}) | matrix
    assert called <= TARGETS
    assert called >= make_targets((ROOT / ".ci" / "run").read_text(encoding="utf-8"))


def test_the_hooks_call_make():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert {hook["id"]: hook["entry"] for hook in repository["hooks"]} == {"lint": "make lint", "quick": "make quick"}


def test_actions_are_pinned_to_commits():
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action)] == []


def test_only_publishing_may_do_more_than_read():
    for workflow in WORKFLOWS:
        assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    more = {(workflow, name): job["permissions"] for workflow, name, job in jobs() if "permissions" in job}
    assert more == {("release.yml", "publish"): {"id-token": "write"}}


def test_every_supported_python_has_its_classifier_and_is_tested():
    prefix = "Programming Language :: Python :: 3."
    classified = {f"3.{line.removeprefix(prefix)}" for line in PROJECT["classifiers"] if line.startswith(prefix)}
    assert PROJECT["requires-python"] == f">={min(classified)}"
    (matrix,) = (job["strategy"]["matrix"] for workflow, _, job in jobs() if "strategy" in job)
    assert {case["python"] for case in matrix["include"] if case["target"] in ("test", "coverage")} == classified
    (call,) = (step["run"] for step in steps() if "TAG=" in step.get("run", ""))
    assert set(re.findall(r"python(3\.\d+)", call)) == classified
