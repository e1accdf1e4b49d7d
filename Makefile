# The two commands a newcomer types: `make tune` and `make test`.
# Each target's environment is keyed on pyproject.toml and on its extras, so that a second call
# starts at once.

# Hundreds of processes are started by the tests: each would compile all sources anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
JOBS ?= 2
# extras of the test environment; dev,torch also exports from PyTorch
EXTRAS ?= dev
comma := ,
INSTALLED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

NETWORK ?= resnet-18
EFFORT ?= draft

.PHONY: help tune test test-engine test-pipeline test-extras test-cuda test-gpu lint format docs clean

help:
	@echo "make tune    install, then tune $(NETWORK) for this CPU at effort '$(EFFORT)' (NETWORK=, EFFORT=)"
	@echo "make test    install with the development extras, then run the whole test suite"
	@echo "make test-extras EXTRAS=dev,torch,cuda13,clib    what needs PyTorch, NVRTC, a linker"
	@echo "make test-cuda, make test-gpu    long tests of CUDA code without a device; tests on one"
	@echo "make lint    ruff, mypy and the import contracts"
	@echo "make format  let ruff rewrite the sources"
	@echo "make docs    the documentation as a site, in build/site"

tune: $(VENV)/.installed
	$(BIN)/tilework tune $(NETWORK) --effort $(EFFORT)

# Both at once, for the pipeline's tests wait half of the time; what they say stands at the end.
test: $(INSTALLED)
	@$(MAKE) -j 2 test-engine test-pipeline OF_PIPELINE=$(VENV)/pipeline.txt; \
		status=$$?; cat $(VENV)/pipeline.txt; exit $$status

# The engine's tests run as on a machine that has neither Prefect nor pandas nor pyarrow. A worker that
# has nothing left takes tests of the other one.
test-engine: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --engine-only tests

test-pipeline: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --pipeline-only tests \
		$(if $(OF_PIPELINE),> $(OF_PIPELINE) 2>&1)

# What is skipped without PyTorch, NVRTC, or a linker for AArch64
EXTRA := -m "extras and not gpu and not cuda_full"
test-extras: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(JOBS) --engine-only $(EXTRA) \
		tests/conformance tests/kinds/cuda tests/library/test_aarch64.py tests/torch
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --pipeline-only $(EXTRA) tests

# CUDA code at length, without a device; and on one
test-cuda: $(INSTALLED)
	$(BIN)/python -m pytest -q -n $(JOBS) -m "cuda_full and not gpu" tests

test-gpu: $(INSTALLED)
	$(BIN)/python -m pytest -q -m gpu tests

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# warnings are errors: a link that leads nowhere is one
docs: $(VENV)/.installed-docs
	@$(BIN)/python docs/site.py build/pages
	@$(BIN)/zensical build --strict --clean

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tilework needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing Tilework into $(VENV) (a minute or two, once)"
	@$(PIP) install -e .
	@touch $@

# What the tests import is compiled when they do: a third of what pip would compile. And the pip of
# an environment made by Python 3.11 chooses among the files of an index for twice as long as today's.
$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo "installing Tilework with the extras $(EXTRAS) into $(VENV) (a minute or two, once)"
	@$(PIP) install --no-compile --upgrade pip || true
	@$(PIP) install --no-compile -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	@echo "installing Tilework and the site's generator into $(VENV) (a minute or two, once)"
	@$(PIP) install -e '.[docs]'
	@touch $@ $(VENV)/.installed
