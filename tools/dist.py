"""Build the wheel and the source distribution in dist/, and try them out as their users will.

    make dist                                       # with the Pythons 3.11 to 3.13 that are found
    make dist PYTHONS="python3.11 python3.13"       # with these; one that is missing is an error
    make dist TAG=v0.1.0                            # for a release: tag, version and changelog must agree

The source distribution is unpacked and a part of its own tests is run. The wheel is installed into a clean environment
for each Python, where the README's code and `ebbtide --help` are run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SUPPORTED = ("3.11", "3.12", "3.13")
IN_WHEEL = (
    "ebbtide/py.typed",
    "ebbtide/dashboard/static/page.html",
    "ebbtide/dashboard/static/page.js",
    "ebbtide/dashboard/static/style.css",
    "ebbtide/benchmarks/data/optima.npz",
    "ebbtide/benchmarks/data/mote_locs.csv",
)
IN_SDIST = (
    "Makefile",
    "CITATION.cff",
    "deploy/systemd/ebbtide.service",
    "docs/index.md",
    "examples/demo.py",
    "tests/conftest.py",
    "constraints/minimum.txt",
)
SUITE = ("tests/gp", "tests/docs", "tests/release")  # the part of the tests that is run from the source distribution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite-python", type=Path, required=True, help="a Python with the tools of the test suite")
    parser.add_argument("--python", action="append", default=[], help="a Python to install the wheel into; repeatable")
    parser.add_argument("--tag", help="the tag to be released, e.g. v0.1.0")
    chosen = parser.parse_args()
    version = declared_version()
    if chosen.tag is not None:
        check_tag(chosen.tag, version)
    pythons = [found(name) for name in chosen.python] or installed_pythons()
    wheel, sdist = build(version)
    check_wheel(wheel)
    with tempfile.TemporaryDirectory() as scratch:
        check_sdist(sdist, chosen.suite_python.absolute(), Path(scratch))
    for python in pythons:
        with tempfile.TemporaryDirectory() as scratch:
            check_installed(wheel, python, version, Path(scratch))
    say(f"{wheel.name} and {sdist.name} are good with {', '.join(map(version_of, pythons))}")


def declared_version() -> str:
    text = (ROOT / "src/ebbtide/version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, flags=re.MULTILINE)
    return match[1] if match else sys.exit("src/ebbtide/version.py has no __version__")


def check_tag(tag: str, version: str) -> None:
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, but src/ebbtide/version.py says {version}: tag v{version}, or change the version")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, flags=re.MULTILINE):
        sys.exit(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD': give the release its date")


def build(version: str) -> tuple[Path, Path]:
    """The wheel is built from the source distribution, so that one is complete."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT, quiet=True)
    wheel, sdist = DIST / f"ebbtide-{version}-py3-none-any.whl", DIST / f"ebbtide-{version}.tar.gz"
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def check_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    require(wheel, names, IN_WHEEL)
    unexpected = [
        name for name in names if not re.match(r"ebbtide(-[^/]+\.dist-info)?/", name) or "__pycache__" in name
    ]
    if unexpected:
        sys.exit(f"{wheel.name} must hold the package only, but holds {', '.join(unexpected[:5])}")


def check_sdist(sdist: Path, python: Path, scratch: Path) -> None:
    """Unpack it and run a part of its own tests, with its own source."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    (top,) = scratch.iterdir()
    require(sdist, [str(path.relative_to(top)) for path in top.rglob("*")], IN_SDIST)
    source = str(top / "src")
    place = run(python, "-c", "import ebbtide; print(ebbtide.__file__)", cwd=top, quiet=True, PYTHONPATH=source)
    if not Path(place.strip()).is_relative_to(top.resolve()):
        sys.exit(f"the tests would run against {place.strip()}, not against the source distribution")
    say(f"{sdist.name}: its own tests of {', '.join(SUITE)}")
    run(python, "-m", "pytest", "-m", "not slow and not very_slow", *SUITE, cwd=top, PYTHONPATH=source)


def check_installed(wheel: Path, python: str, version: str, scratch: Path) -> None:
    """The core alone runs the README's code and says what the command line needs; with the extra the command works."""
    say(f"{wheel.name} with Python {version_of(python)}")
    run(python, "-m", "venv", scratch / "env")
    bin_ = scratch / "env" / ("Scripts" if os.name == "nt" else "bin")
    pip = (bin_ / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
    run(*pip, wheel)
    run(bin_ / "python", "-W", "error", "-c", readme_code(), cwd=scratch)
    lacking = subprocess.run([bin_ / "ebbtide", "--help"], cwd=scratch, capture_output=True, text=True)
    if lacking.returncode == 0 or "pip install 'ebbtide[cli]'" not in lacking.stderr:
        sys.exit(
            f"without its extra, `ebbtide --help` must say what to install; it said: {lacking.stderr or lacking.stdout}"
        )
    run(*pip, f"{wheel}[cli]")
    if "Usage: ebbtide" not in run(bin_ / "ebbtide", "--help", cwd=scratch, quiet=True):
        sys.exit("`ebbtide --help` does not print its usage")
    if version not in (shown := run(bin_ / "ebbtide", "--version", cwd=scratch, quiet=True)):
        sys.exit(f"the installed command says {shown.strip()}, the source says {version}")


def readme_code() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)) or sys.exit("README.md has no code")


def installed_pythons() -> list[str]:
    pythons = {version: find(f"python{version}") for version in SUPPORTED}
    for version in (version for version, python in pythons.items() if python is None):
        say(f"Python {version} is not installed here: not tested with it")
    there = [python for python in pythons.values() if python is not None]
    return there or sys.exit(f"none of Python {', '.join(SUPPORTED)} is installed here")


def found(name: str) -> str:
    return find(name) or sys.exit(f"{name} is not installed here, or does not run; PYTHONS asks for it")


def find(name: str) -> str | None:
    """A Python by its name, if it runs: on the PATH, or among those of pyenv, whose shims may lead nowhere."""
    version = name.removeprefix("python")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [name, *map(str, sorted(pyenv.glob(f"{version}.*/bin/{name}"), reverse=True))]
    return next((python for python in candidates if shutil.which(python) and runs(python)), None)


def runs(python: str) -> bool:
    return subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0


def version_of(python: str) -> str:
    return run(python, "-c", "import platform; print(platform.python_version())", quiet=True).strip()


def require(archive: Path, names: list[str], wanted: tuple[str, ...]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        sys.exit(f"{archive.name} lacks {', '.join(missing)}")


def run(*command: str | Path, cwd: Path = ROOT, quiet: bool = False, **variables: str) -> str:
    """Run a command that must succeed; `quiet` gives what it prints and shows it only if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=os.environ | variables,
        stdout=subprocess.PIPE if quiet else None,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout or ''}\nfailed: {' '.join(map(str, command))[:200]}")
    return done.stdout or ""


def say(text: str) -> None:
    print(f"dist: {text}", flush=True)


if __name__ == "__main__":
    main()
