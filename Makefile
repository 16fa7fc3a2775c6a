# wakebridge: `make` lists what it can do.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Most tests wait for a board, a broker or a deadline, so three at a time keep two cores busy.
# A test that met a deadline of the real world too late beside two others gets two more chances; the
# report names it as rerun.
JOBS ?= 3
PYTEST := $(BIN)/python -m pytest

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

# -- set-up: each step leaves a mark and is done again when what it depends on has changed ---------

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[desk,dev]'
	@touch $@

.PHONY: setup
setup: $(VENV)/.ready ## make the virtual environment

.PHONY: system-packages
system-packages:
	@sh tests/system-packages.sh

tests/node_modules/.ready: tests/package.json tests/package-lock.json
	cd tests && npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: ovos
ovos: $(VENV)/.ready
	@$(BIN)/python tests/fixtures/ovos_envs.py

.PHONY: test-setup
test-setup: system-packages setup tests/node_modules/.ready ovos

# -- everyday --------------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.ready ## the whole product on your desk in under a minute
	@$(BIN)/python -m wakebridge.demo

.PHONY: run
run: $(VENV)/.ready ## the bridge in the foreground; PORT=/dev/... for a real board
	@$(BIN)/python -m wakebridge.demo --serve $(if $(PORT),--port $(PORT))

.PHONY: lint
lint: $(VENV)/.ready ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy host protocol tests
	$(BIN)/lint-imports

.PHONY: test
test: test-setup lint ## install what the tests need, then run all of them
	$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not alone" --reruns 2
	$(PYTEST) -m alone --reruns 2

.PHONY: doors
doors: test-setup ## only floods, possessed boards and crashes, one test at a time
	$(PYTEST) -m alone

# -- measured and reported -------------------------------------------------------------------------

.PHONY: bench
bench: test-setup ## measure the bridge beside its peers; SIZE=full for a quarter of an hour more
	PYTHONPATH=tests:tests/fixtures $(BIN)/python -m bench --size $(or $(SIZE),short) $(MEASURE)

# -- long runs -------------------------------------------------------------------------------------

SECONDS ?= 30

.PHONY: fuzz
fuzz: test-setup ## hostile bytes for every parser; SECONDS=30 each
	@$(BIN)/python tests/fuzz/fuzz_all.py $(SECONDS)

ROUNDS ?= 200
SEED ?= 1

.PHONY: crash
crash: test-setup ## kill -9, full disks and cut links; ROUNDS=200 SEED=1
	@$(BIN)/python tests/crash/crash_rounds.py --rounds $(ROUNDS) --seed $(SEED)

YEARS ?= 10

.PHONY: simulate
simulate: $(VENV)/.ready ## whole devices in virtual time under all faults; YEARS=1000 SEED=1 JOBS=2
	@$(BIN)/python -m tests.simulation --years $(YEARS) --seed $(SEED) --jobs $(JOBS)

.PHONY: mutants
mutants: test-setup ## change the product wrongly on purpose: does the simulation see? ONLY=planner
	@$(BIN)/python -m tests.mutants $(if $(ONLY),--only $(ONLY)) $(PAGE)

.PHONY: conformance
conformance: test-setup ## run what proves each requirement, and print it; ONLY=--black-box for both transports
	PYTHONPATH=tests:tests/fixtures $(BIN)/python -m conformance $(ONLY)
