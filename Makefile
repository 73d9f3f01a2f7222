# Two commands do all the set-up: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test check mutants bench clean

demo: .venv/core
	$(BIN)/python examples/false_negatives.py

test: .venv/test
	$(BIN)/python -m pytest -n 2

check: .venv/test .venv/check
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) test

mutants: .venv/test
	$(BIN)/python tests/mutants.py

bench: .venv/core .venv/bench
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf .venv

# torch goes in first and pinned: asked for by another package it would pull the GPU build.
.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0 numpy
	$(PIP) -e .
	touch $@

.venv/%: .venv/core
	$(PIP) -e '.[$*]'
	touch $@
