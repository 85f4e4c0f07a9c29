# Every target sets up what it needs; the second run is quick.
PYTHON ?= python3
BIN := .venv/bin
PERF := .venv-perf/bin

.PHONY: demo test test-browser test-integrations docs lint format chaos perf perf-botorch perf-optuna perf-long perf-field perf-variants perf-inference perf-pace perf-service \
  perf-resume perf-dashboard soak clean

demo: .venv/.installed
	$(BIN)/python examples/demo.py

test: .venv/.installed
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# The dashboard in a real browser, against a real service; screenshots in out/screenshots.
test-browser: .venv/.browser
	$(BIN)/pytest tests/browser

# The integrations with BoTorch and Optuna, in an environment of their own.
test-integrations: .venv-integrations/.installed
	.venv-integrations/bin/pytest tests/integrations -W ignore -W error::ebbtide.errors.EbbtideWarning

# The site, in out/docs; a broken link or an undocumented public name fails.
docs: .venv/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d out/doctrees docs out/docs
	@echo "open out/docs/index.html"

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# A service killed 1,000 times while clients ask and tell: is everything confirmed there, once?
chaos: .venv/.installed
	$(BIN)/python -W ignore tests/helpers/chaos.py --kills 1000

# Speed beside the peers, measured in one run.
perf: .venv-perf/.installed
	$(PERF)/python perf/peers.py

# Objectives that drift: a BoTorch loop with and without forgetting; Optuna's samplers and ours.
perf-botorch: .venv-perf/.installed
	$(PERF)/python perf/botorch_loop.py

perf-optuna: .venv-perf/.installed
	$(PERF)/python perf/optuna_samplers.py

# 20,000 asks: do the response time and the dataset's size stay level?
perf-long: .venv/.installed
	$(BIN)/python perf/long_run.py

# Every algorithm on every benchmark of the paper: regret and speed.
perf-field: .venv/.installed
	$(BIN)/python perf/field.py

# Why our figures differ from the paper's: noise, speed, β, inference.
perf-variants: .venv/.installed
	$(BIN)/python perf/variants.py

# Which inference tracks better: maximum likelihood or maximum a posteriori?
perf-inference: .venv/.installed
	$(BIN)/python perf/inference.py

# The compute time of this engine as a formula of the dataset's size.
perf-pace: .venv/.installed
	$(BIN)/python perf/pace.py

# 32 clients on 8 studies of one service: how long do a tell and an ask take?
perf-service: .venv/.installed
	$(BIN)/python perf/service.py

# How long it takes to open a stored study.
perf-resume: .venv/.installed
	$(BIN)/python perf/resume.py

# The dashboard in Chromium: a study of 100,000, and browsers that are killed while it is told.
perf-dashboard: .venv/.browser
	$(BIN)/python perf/dashboard.py

# 50,000 asks and tells through the service: do memory and response time stay level?
soak: .venv/.installed
	$(BIN)/python perf/soak.py

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev,demo,cli,experiments,service]'
	touch $@

.venv/.docs: .venv/.installed
	$(BIN)/pip install --quiet --editable '.[docs,optuna]'
	touch $@

.venv/.browser: .venv/.installed
	command -v chromium || (apt-get update && apt-get install --yes --no-install-recommends chromium fonts-dejavu-core)
	$(BIN)/pip install --quiet --editable '.[browser]'
	touch $@

# The default build of torch carries gigabytes of GPU code: the pin comes first.
.venv-integrations/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/pip install --quiet torch==2.13.0
	.venv-integrations/bin/pip install --quiet --editable '.[botorch,optuna]' pytest
	touch $@

.venv-perf/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-perf
	$(PERF)/pip install --quiet torch==2.13.0
	$(PERF)/pip install --quiet --editable '.[botorch,optuna,peers]'
	touch $@

clean:
	rm -rf .venv .venv-integrations .venv-perf out build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
