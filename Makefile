# `make` lists the targets. Each sets up the environment it needs, so the first run takes longer.
PYTHON ?= python3
JOBS ?= 2# test processes
T ?=# what to test: a folder, a file or one test, e.g. T=tests/gp
ALL ?=# of `make test-minimum`: ALL=1 runs the slow tests, too
N ?= 1000000# of `make fuzz`: how many requests
PY ?= python3.13# of `make test-python`
PYTHONS ?=# of `make dist`: all of these must be there; by default those that are found
TAG ?=# of `make dist`: the tag to release, e.g. v0.1.0

BIN := .venv/bin
PERF := .venv-perf/bin
# The demo needs little: it has a light environment of its own unless the full one is there already.
DEMO := $(if $(wildcard .venv/.installed),.venv,.venv-demo)
# Two files at a time, in the order of `testpaths`.
PYTEST := -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# The tests of the service that depend on its storage: `make test-postgres` runs them with PostgreSQL, too.
ON_POSTGRES := verbs bulk families events list_pages tenants tokens service_conditions spaces metrics limits
export PIP_DISABLE_PIP_VERSION_CHECK = 1
unexport PYTHONDONTWRITEBYTECODE# the tests start hundreds of processes: none should have to compile the package again

.DEFAULT_GOAL := help
.PHONY: help demo quick lint format test coverage test-slow test-minimum test-python test-browser test-operations test-postgres test-integrations \
  docs dist chaos chaos-postgres fuzz hostile perf perf-botorch perf-optuna perf-long perf-controls perf-variants perf-inference \
  perf-values perf-caution perf-tracker perf-jumps perf-sparse perf-siblings perf-world perf-arenas perf-pace perf-pace-botorch perf-service perf-throughput perf-worst perf-first-ask perf-resume perf-fleet perf-unread perf-dashboard \
  perf-live test-systems soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO)/.installed ## watch W-DBO track a moving optimum; draws out/demo.png
	$(DEMO)/bin/python examples/demo.py

quick: lint ## lint and the tests that are not slow: after every change (T=... as for test)
	$(BIN)/python $(PYTEST) -m "not slow and not very_slow" $(T)

lint: .venv/.installed ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.installed ## format the code and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: .venv/.installed ## the test suite; T=tests/gp runs one part, T=tests/gp/test_linalg.py one file
	$(BIN)/python $(PYTEST) -m "not very_slow" $(T)

coverage: .venv/.installed ## the test suite with branch coverage; fails below the floor in pyproject.toml
	$(BIN)/python $(PYTEST) -m "not very_slow" --cov=ebbtide

test-slow: .venv/.installed ## what the test suite leaves out: long campaigns, many kills
	$(BIN)/python $(PYTEST) -m very_slow $(T)

test-minimum: .venv-minimum/.installed ## the quick tests with the oldest supported versions of all dependencies; ALL=1: the test suite
	.venv-minimum/bin/python $(PYTEST) -m "$(if $(ALL),,not slow and )not very_slow" -W ignore::DeprecationWarning $(T)

test-python: .venv-$(notdir $(PY))/.installed ## the test suite with another Python: PY=python3.13
	.venv-$(notdir $(PY))/bin/python $(PYTEST) -m "not very_slow" $(T)

test-browser: .venv/.browser ## the dashboard in Chromium; screenshots in out/screenshots
	$(BIN)/pytest tests/browser

test-operations: .venv/.operations ## the systemd units, the alerts and Grafana's dashboard; it installs Debian's systemd and Prometheus
	$(BIN)/pytest tests/operations

test-postgres: .venv/.postgres ## PostgreSQL as a storage, several services over it, and a short chaos; it installs Debian's PostgreSQL and PgBouncer
	$(BIN)/pytest tests/postgres
	$(BIN)/pytest -p helpers.on_postgres -m "not slow and not very_slow" $(ON_POSTGRES:%=tests/service/test_%.py)

test-integrations: .venv-integrations/.installed ## BoTorch, Optuna and the arenas, in an environment of their own
	.venv-integrations/bin/pytest tests/integrations -W ignore -W error::ebbtide.errors.EbbtideWarning

test-systems: .venv/.installed .venv/.systems ## a few measurements of PostgreSQL, zstd and Redis, which it installs on Debian
	$(BIN)/pytest tests/smoke

docs: .venv/.docs ## the site, in out/docs; a broken link or an undocumented public name fails
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d out/doctrees docs out/docs
	@echo "open out/docs/index.html"

dist: .venv/.installed .venv-dist/.installed ## build the wheel and the sdist in dist, and try them out
	.venv-dist/bin/python tools/dist.py --suite-python $(BIN)/python $(PYTHONS:%=--python %) $(TAG:%=--tag %)

chaos: .venv/.installed ## a service killed, its file deleted, moved or replaced, 1,000 times each: is everything confirmed there?
	$(BIN)/python -W ignore perf/chaos.py --kills 1000 --losses 1000

chaos-postgres: .venv/.postgres ## three services over one PostgreSQL: 300 kills, 20 restarts of the database, lost connections
	$(BIN)/python -W ignore perf/chaos_postgres.py

fuzz: .venv/.installed ## generated requests, a million unless N=... says otherwise: does the service fail or grow? Goes on if interrupted
	$(BIN)/python -W ignore perf/fuzz.py --requests $(N)

hostile: .venv/.installed ## 10,000 hostile histories: is every ask finite, feasible, and the same after a restart? Goes on if interrupted
	$(BIN)/python perf/hostile.py

perf: .venv-perf/.installed ## speed beside the peers, measured in one run
	$(PERF)/python perf/peers.py

perf-botorch: .venv-perf/.installed ## a BoTorch loop with and without forgetting
	$(PERF)/python perf/botorch_loop.py

perf-optuna: .venv-perf/.installed ## Optuna's samplers and ours on objectives that drift
	$(PERF)/python perf/optuna_samplers.py

perf-long: .venv/.installed ## 100,000 asks: do the response time and the dataset's size stay level?
	$(BIN)/python perf/long_run.py

perf-controls: .venv/.installed ## tide against simpler ways to forget: the oldest, any, a window of the best length
	$(BIN)/python perf/controls.py --runs out/controls

perf-variants: .venv/.installed ## why our figures differ from the paper's: noise, speed, β, inference
	$(BIN)/python perf/variants.py

perf-inference: .venv/.installed ## maximum likelihood or maximum a posteriori: which tracks better?
	$(BIN)/python perf/inference.py

perf-values: .venv/.installed ## tide against w-dbo: clean values, multiples, outliers, a jump
	$(BIN)/python perf/values.py

perf-caution: .venv/.installed ## failures that teach, and recommendations that hold: how many asks fail, what is recommended
	$(BIN)/python perf/caution.py

perf-tracker: .venv/.installed ## variants of tide on problems that it is developed on, which are not the paper's
	$(BIN)/python perf/tracker.py

perf-jumps: .venv/.installed ## objectives that jump: tide with and without noticing it
	$(BIN)/python perf/jumps.py --jobs $(JOBS)

perf-sparse: .venv/.installed ## few queries per l_T: how often must one ask?
	$(BIN)/python perf/sparse.py --jobs $(JOBS)

perf-siblings: .venv/.installed ## the 20th study of a family, and an odd one, against studies alone. Goes on if interrupted
	$(BIN)/python perf/siblings.py --jobs $(JOBS)

perf-world: .venv/.installed ## a context, a cycle, constraints: what do they buy? Goes on if interrupted
	$(BIN)/python perf/world.py --jobs $(JOBS)

perf-arenas: .venv-perf/.installed ## ebbtide and its peers in arenas that others wrote. Goes on if interrupted
	$(PERF)/python perf/arenas.py --jobs $(JOBS)

perf-pace: .venv/.installed ## the compute time of this engine as a formula of the dataset's size
	$(BIN)/python perf/pace.py

perf-pace-botorch: .venv-perf/.installed ## the same of BoTorch: what the published tables count as compute time
	$(PERF)/python perf/pace_botorch.py

perf-service: .venv/.installed ## 32 clients on 8 studies of one service: how long do a tell and an ask take?
	$(BIN)/python perf/service.py

perf-throughput: .venv/.installed ## asks per second of 32 clients on 8 studies of one service, as a share of the bare engine's
	$(BIN)/python perf/throughput.py

perf-worst: .venv/.installed ## the service in trouble: how long until an ask is answered, and until it has stopped?
	$(BIN)/python perf/worst.py

perf-first-ask: .venv/.installed ## thousands of measurements from elsewhere: how long does the first ask take?
	$(BIN)/python perf/first_ask.py

perf-resume: .venv/.installed ## how long it takes to open a stored study, to ask, to tell and to look at it, with up to a million observations
	$(BIN)/python perf/resume.py

perf-fleet: .venv/.postgres ## two services over one PostgreSQL against one, and 10,000 studies against 200
	$(BIN)/python perf/fleet.py

perf-unread: .venv/.installed ## 1,000 clients that do not read: how are others served, and how much memory does it take?
	$(BIN)/python perf/unread.py

perf-dashboard: .venv/.browser ## the dashboard in Chromium with a study of 100,000 observations
	$(BIN)/python perf/dashboard.py

perf-live: .venv/.docs .venv/.systems ## PostgreSQL, zstd and Redis under loads that drift: three hours; goes on if interrupted
	$(BIN)/python -W ignore perf/live.py

soak: .venv/.installed ## 50,000 asks and tells through the service: do memory and response time stay level?
	$(BIN)/python perf/soak.py

clean: ## remove the environments, out, dist and the caches
	rm -rf .venv .venv-* out build dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments. Compiling what is installed takes most of the time, so small ones leave that to the first import.

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev,demo,cli,experiments,service,postgres]'
	touch $@

.venv/.docs: .venv/.installed
	$(BIN)/pip install --quiet --editable '.[docs,optuna]'
	touch $@

.venv/.browser: .venv/.installed
	command -v chromium || (apt-get update && apt-get install --yes --no-install-recommends chromium fonts-dejavu-core)
	$(BIN)/pip install --quiet --editable '.[browser]'
	touch $@

.venv/.operations: .venv/.installed
	command -v systemd-analyze && command -v promtool || (apt-get update && apt-get install --yes --no-install-recommends systemd prometheus)
	touch $@

.venv/.postgres: .venv/.installed
	command -v pgbouncer && ls /usr/lib/postgresql/*/bin/initdb || (apt-get update && apt-get install --yes --no-install-recommends postgresql pgbouncer)
	touch $@

.venv/.systems: .venv/.installed
	for system in postgresql zstd-pipe redis-cache; do $(MAKE) -C examples/$$system packages || exit 1; done
	touch $@

.venv-demo/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/pip install --quiet --no-compile --editable '.[demo]'
	touch $@

.venv-dist/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install --quiet --no-compile build twine
	touch $@

.venv-minimum/.installed: pyproject.toml constraints/minimum.txt
	$(PYTHON) -m venv .venv-minimum
	.venv-minimum/bin/pip install --quiet --constraint constraints/minimum.txt --editable '.[test,demo,cli,experiments,service,postgres]'
	touch $@

.venv-python%/.installed: pyproject.toml
	$(PY) -m venv $(@D)
	$(@D)/bin/pip install --quiet --editable '.[test,demo,cli,experiments,service,postgres]'
	touch $@

# The default build of torch carries gigabytes of GPU code: the pin comes first.
.venv-integrations/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/pip install --quiet torch==2.13.0
	.venv-integrations/bin/pip install --quiet --editable '.[botorch,optuna,arenas]' pytest hypothesis
	touch $@

.venv-perf/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-perf
	$(PERF)/pip install --quiet torch==2.13.0
	$(PERF)/pip install --quiet --editable '.[botorch,optuna,peers,arenas]'
	touch $@
