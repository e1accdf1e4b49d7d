# The two commands a newcomer types: `make tune` and `make test`.
# Each target's environment is keyed on pyproject.toml, so that a second call starts at once.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
JOBS ?= 2
# extras of the test environment; dev,torch also exports from PyTorch
EXTRAS ?= dev

NETWORK ?= resnet-18
EFFORT ?= draft

.PHONY: help tune test test-engine test-pipeline test-cuda test-gpu lint format clean

help:
	@echo "make tune    install, then tune $(NETWORK) for this CPU at effort '$(EFFORT)' (NETWORK=, EFFORT=)"
	@echo "make test    install with the development extras, then run the whole test suite"
	@echo "make test-cuda, make test-gpu    long tests of CUDA code without a device; tests on one"
	@echo "make lint    ruff, mypy and the import contracts"
	@echo "make format  let ruff rewrite the sources"

tune: $(VENV)/.installed
	$(BIN)/tilework tune $(NETWORK) --effort $(EFFORT)

test: test-engine test-pipeline

# The engine's tests run as on a machine that has neither Prefect nor pandas nor pyarrow; those that
# measure time have it for themselves.
TIMING := tests/measure
test-engine: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -n $(JOBS) --engine-only --ignore=$(TIMING) tests
	$(BIN)/python -m pytest -q --engine-only $(TIMING)

test-pipeline: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --pipeline-only tests

# CUDA code at length, without a device; and on one
test-cuda: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -n $(JOBS) -m "cuda_full and not gpu" tests

test-gpu: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -m gpu tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tilework needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing Tilework into $(VENV) (a minute or two, once)"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing Tilework and its development extras into $(VENV) (a minute or two, once)"
	@$(PIP) install -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.installed
