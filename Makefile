# Every target sets up what it needs in .venv by itself. `make` alone prints the targets.
#
# PYTHON     the interpreter the environment is made from (3.10 or later)
# PARALLEL   how pytest spreads the whole suite; empty for one process
# FULL       for `make release-check`: also a large trace by double click, in JupyterLab 4.0 and the newest hosts; minutes
# OUT        where `make lessons` and `make class` write, and `make release-check` leaves a release that passed
# LOCALE     the language of `make lessons` and of `make class`: zh
# TORCH      system: the torch that PYTHON has, in place of one that pip fetches
# PORT       of JupyterLab, in place of the first that is free from 8888 on
# LAB_ARGS   more options for JupyterLab: --no-browser on a machine without one, --allow-root in a container
# REVEAL     the folder of reveal.js 4 for `make slides`, in place of one that npm fetches
# PIP_ARGS   more options for pip, for example an index that holds torch builds without CUDA: they are a tenth of the size

# images of containers often set it; each of the hundreds of processes of the tests would compile torch and itself again
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
PIP_ARGS ?=
LAB_ARGS ?=
LOCALE ?=
PORT ?=
TORCH ?=
VENV := .venv
FLOOR := .venv-floor
BUILD := build
BIN := $(VENV)/bin
# --no-compile: most of torch is never imported here; what is gets compiled when it is
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check --no-compile $(PIP_ARGS)
REVEAL ?= $(BUILD)/reveal/node_modules/reveal.js
TESTS ?= tests
# what shares a kernel, a browser or a module's fixtures stays together (tests/conftest.py)
PARALLEL ?= -n auto --dist loadgroup
# these leave exceptions behind in their process (see the marker in pyproject.toml)
INTERRUPTS := tests/capture/bench/test_interrupts.py tests/shell/test_interrupts.py

# what `make test` runs: first, two at a time, what needs one core each; then, one after the other, what needs all of
# them. The suite builds the documentation with the same warnings (tests/browser/test_docs_site.py)
SINGLE := lint floor
PARTS := measured beside suite loaded
FAILED := $(BUILD)/failed-parts
# where make itself was called without -j
TWO = $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j2)

# a warning is an error: a link or a name that leads nowhere, a page that nobody finds. Nothing is fetched
SPHINX := $(BIN)/python -m sphinx --builder html --conf-dir docs --fail-on-warning --jobs auto
DEMOS := $(wildcard demos/*.ipynb)
MEASURED := $(filter demos/06% demos/07%,$(DEMOS))  # they time this machine; the others keep a virtual clock
SANITIZE := $(BUILD)/nbval-sanitize.cfg
# keeps a core busy until the shell that began it is gone
BURN = $(BIN)/python -c 'import itertools, os; shell = os.getppid(); any(os.getppid() != shell for _ in itertools.count())'
NBVAL = PYTHONPATH=$(abspath tests/without)$${PYTHONPATH:+:$$PYTHONPATH} PERFMAGIC_DISPLAY=static $(BIN)/python -m pytest \
  -q -n auto --dist loadfile --nbval --nbval-current-env --nbval-sanitize-with $(SANITIZE)

# what pip takes: the versions last tried, or those with the torch that is there
PINS := $(if $(filter system,$(TORCH)),$(VENV)/constraints.txt,constraints-dev.txt)

# said before anything is made: how much will be fetched
ifneq ($(filter demo lab slides lessons class,$(MAKECMDGOALS)),)
ifeq ($(wildcard $(VENV)/demo.stamp $(VENV)/lab.stamp $(VENV)/dev.stamp),)
$(info pip fetches into $(VENV) what a notebook needs: 200 MB on disk, 300 MB with JupyterLab.)
ifneq ($(TORCH),system)
$(info It fetches torch, too, which is the bulk: 200 MB without CUDA; about 5 GB on disk with it, which Linux gets by default.)
$(info PIP_ARGS names another index; TORCH=system takes the torch that $(PYTHON) has.)
endif
endif
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo lab slides lessons class test notebooks measured virtual beside suite interrupts loaded quick test-gpu record-gpu bench-gpu lint format floor matrix docs release-check front screenshots clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/dev.stamp $(FLOOR)/floor.stamp  ## only make both environments (make -j2 setup does so at once)

demo: $(VENV)/demo.stamp  ## run the tour in a real kernel, print what each cell found, write it as notebook and page
	$(BIN)/python demos/run.py demos/00_tour.ipynb --out $(BUILD)/demo

lab: $(VENV)/lab.stamp  ## open the tour in JupyterLab, the lessons beside it
	$(BIN)/jupyter lab demos --LabApp.default_url=/lab/tree/00_tour.ipynb $(if $(PORT),--port=$(PORT) --ServerApp.port_retries=0) $(LAB_ARGS)

slides: $(VENV)/demo.stamp $(REVEAL)/package.json  ## make slides of the lessons, in build/slides, pages that open offline
	$(BIN)/python demos/slides.py $(DEMOS) --reveal $(REVEAL) --out $(BUILD)/slides

lessons: $(VENV)/lab.stamp  ## write the lessons in Chinese: OUT=build/lessons
	$(BIN)/python demos/translation.py $(or $(LOCALE),zh) --out $(or $(OUT),$(BUILD)/lessons)

class: $(VENV)/$(if $(LOCALE),lab,demo).stamp  ## write the students' lessons, the solutions and nbgrader's folder: OUT=build/class, LOCALE=zh
	$(BIN)/python demos/editions.py --out $(or $(OUT),$(BUILD)/class) $(if $(LOCALE),--language $(LOCALE))

# what two parts would make at once is made before them
test: $(VENV)/dev.stamp $(FLOOR)/floor.stamp $(SANITIZE)  ## lint, types, layers, docs, tests here and on the floor, demos compared; runs all, then fails
	@trap 'exit 130' INT; mkdir -p $(dir $(FAILED)); rm -f $(FAILED); \
	$(if $(SINGLE),$(MAKE) --no-print-directory --output-sync=target $(TWO) $(SINGLE:%=try-%);) \
	for part in $(PARTS); do $(MAKE) --no-print-directory try-$$part; done; \
	test ! -s $(FAILED) || { echo "make test: failed in" $$(cat $(FAILED)) >&2; exit 1; }

# runs a part, and notes that it failed; the others go on
try-%:
	@$(MAKE) --no-print-directory $* || echo $* >> $(FAILED)

notebooks: $(VENV)/dev.stamp $(SANITIZE)  ## the demos' outputs compared, numbers too beside a busy core
	@$(MAKE) --no-print-directory measured
	@$(MAKE) --no-print-directory virtual

measured: $(VENV)/dev.stamp $(SANITIZE)
	$(if $(DEMOS),$(NBVAL) $(MEASURED))

virtual: $(VENV)/dev.stamp $(SANITIZE)
	$(if $(DEMOS),$(BURN) & $(NBVAL).virtual $(filter-out $(MEASURED),$(DEMOS)))

# neither times this machine: each keeps the cores busy for the other
beside: $(VENV)/dev.stamp $(SANITIZE)
	@$(MAKE) --no-print-directory --output-sync=target $(TWO) BURN=: try-virtual try-interrupts

suite: $(VENV)/dev.stamp $(FLOOR)/floor.stamp  ## every test but those of interrupts, a part of `make test`
	PERFMAGIC_DISPLAY=static PERFMAGIC_FLOOR_PYTHON=$(abspath $(FLOOR))/bin/python $(BIN)/python -m pytest $(PARALLEL) -p no:nbval -m "not interrupts" $(TESTS)

interrupts: $(VENV)/dev.stamp  ## interrupts at lines of our own code, a part of `make test`
	$(BIN)/python -m pytest -q -n auto -p no:nbval -m interrupts $(INTERRUPTS)

loaded: $(VENV)/dev.stamp  ## figures of the virtual clock, alone and beside a busy process on every core, a part of `make test`
	$(BIN)/python -m tests.virtual_load

quick: $(VENV)/dev.stamp  ## the inner loop, under a minute of CPU: no browser, no kernel, nothing marked slow
	$(BIN)/python -m pytest -q -p no:nbval -m "not (browser or gpu or slow or interrupts)" --ignore=tests/kernel --ignore=tests/browser $(TESTS)

test-gpu:  ## what only a real GPU can show, with the python in PATH (it has torch; IPython is not needed)
	$(PYTHON) -m pytest -q -m gpu -o addopts=-ra -p no:cacheprovider $(wildcard tests/gpu tests/conformance)

record-gpu:  ## record small traces of this machine's GPU with their reference numbers into tests/data/gpu
	$(PYTHON) -m tests.gpu.record

bench-gpu:  ## what measuring costs on this machine's GPU, and how far it agrees with itself, as a table and as JSON
	$(PYTHON) benchmarks/gpu.py --out tests/data/gpu

lint: $(VENV)/dev.stamp  ## ruff, the import rule, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/dev.stamp  ## put code, demos and stored JSON into their form
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.json_rows

floor: $(FLOOR)/floor.stamp  ## the shell's tests on the oldest IPython and ipykernel promised
	$(FLOOR)/bin/python -m pytest -q -m floor -p no:cacheprovider tests/shell/test_cell_behaviour.py tests/shell/test_loading.py

matrix: $(VENV)/matrix.stamp  ## the quick tests on each Python that is there, oldest and newest versions, with and without torch
	$(BIN)/nox

docs: $(VENV)/dev.stamp  ## the documentation as a site in build/docs, from Markdown, docstrings and the demos as they are saved
	$(SPHINX) --fresh-env --write-all --quiet . $(BUILD)/docs

# nothing of it needs torch: the small group, unless the large one is there, or a browser is asked for
release-check: $(if $(FULL),$(VENV)/dev.stamp,$(firstword $(wildcard $(VENV)/dev.stamp) $(VENV)/release.stamp))  ## build the wheel, install it alone, say how large and how quick it is
	$(BIN)/python .ci/release_check.py $(if $(OUT),--out $(OUT)) $(if $(FULL),--full)

front: $(VENV)/dev.stamp  ## build perfmagic/static/*.js from its TypeScript and test it (needs node and npm)
	npm --prefix perfmagic/frontend install --no-save --no-audit --no-fund
	npm --prefix perfmagic/frontend run --silent build
	$(BIN)/python -m pytest -q tests/frontend tests/view/timeline/test_wire.py

screenshots: $(VENV)/dev.stamp  ## draw again the pictures of the live timeline that README and docs show
	$(BIN)/python docs/screenshots.py

clean:  ## remove what was built; the environments stay (rm -r .venv .venv-floor removes those)
	rm -rf $(BUILD) dist .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

# The environments. A stamp is newer than what it was made from, so a second call does nothing.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo 'perfmagic needs Python 3.10 or later: make PYTHON=/path/to/python3 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo 'this Python cannot make environments: apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/constraints.txt: constraints-dev.txt | $(BIN)/python
	$(PYTHON) demos/system_torch.py $(VENV)

$(VENV)/%.stamp: pyproject.toml $(PINS) | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) 'pip>=25.1'  # which knows dependency groups
	$(BIN)/python $(PIP_INSTALL) --editable . --group '$*' --constraint $(PINS)
	@touch $@

$(FLOOR)/floor.stamp: pyproject.toml constraints-floor.txt | $(BIN)/python
	$(BIN)/python -m venv $(FLOOR)
	$(FLOOR)/bin/python $(PIP_INSTALL) --editable '.[torch]' ipykernel pytest pytest-timeout --constraint constraints-floor.txt
	@touch $@

$(BUILD)/reveal/node_modules/reveal.js/package.json:
	npm install --prefix $(BUILD)/reveal --no-save --no-audit --no-fund reveal.js@4.6.1

$(SANITIZE): $(VENV)/dev.stamp $(wildcard perfmagic/*.py perfmagic/view/*.py)
	@mkdir -p $(@D)
	$(BIN)/python -m perfmagic nbval-sanitize > $@
	$(BIN)/python -m perfmagic nbval-sanitize --virtual > $@.virtual
