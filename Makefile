# Two commands do all the set-up: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet -c constraints.txt

# Flags for `make bench`, `make demo` and the pytest of `make faults`, numbers for `make mutants`; empty means all.
BENCH ?=
DEMO ?=
MUTANTS ?=
FAULTS ?=

.PHONY: demo test test-fast faults check mutants bench figures docs docs-serve package clean

demo: .venv/core .venv/vision $(if $(findstring control,$(DEMO)),.venv/control)
	$(BIN)/debiased demo $(DEMO)

test: .venv/test .venv/test-integrations .venv/docs .venv/control
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Under a minute: laws and references of the core, ten steps of every method, mistakes at the command line, the rules.
FAST := tests/objectives tests/losses tests/negatives tests/kernels/test_tiled.py tests/kernels/test_bank.py \
	tests/golden tests/cli/test_cli.py::test_a_mistake_is_one_line_and_code_2 tests/test_project.py
test-fast: .venv/test .venv/control
	$(BIN)/python -m pytest -n 2 --dist worksteal $(FAST) -k "not readme_runs and not example"

# Every fault that docs/faults.md promises to survive, the slow ones too.
faults: .venv/test
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/faults $(FAULTS)

check: .venv/test .venv/test-integrations .venv/check .venv/docs
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) test

mutants: .venv/test
	$(BIN)/python tests/mutants.py $(MUTANTS)

bench: .venv/core .venv/bench
	$(BIN)/python -m benchmarks $(BENCH)

# The pictures of the site and of README.md, from results/; tests compare their data.
figures: .venv/core .venv/vision
	$(BIN)/python -m figures

# Strict: a broken link or a missing page is an error. Nothing is fetched, neither now nor by who reads it.
docs: .venv/core .venv/vision .venv/docs
	$(BIN)/python -m mkdocs build --strict --site-dir build/site

docs-serve: .venv/core .venv/vision .venv/docs
	$(BIN)/python -m mkdocs serve

# What a user's `pip install` brings: the built package alone, typed, importable beside torch.
package: .venv/core .venv/release
	rm -rf build/package build/dist
	$(BIN)/python -m build --outdir build/dist >/dev/null
	$(BIN)/twine check --strict build/dist/*
	$(BIN)/check-wheel-contents build/dist/*.whl
	$(PIP) --no-deps --target build/package build/dist/*.whl
	test -f build/package/debiased_contrastive/py.typed
	cd build && PYTHONPATH=package ../$(BIN)/python -c "import debiased_contrastive as dc; assert 'package' in dc.__file__"

clean:
	rm -rf .venv build

# torch goes in first and pinned: asked for by another package it would pull the GPU build.
.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0 numpy
	$(PIP) -e .
	touch $@

# What draws frames without a screen is no Python package.
DRAWS := $(BIN)/python -c "from debiased_contrastive.control.task import PixelTask; PixelTask('cartpole-balance', size=8, repeat=8).frame()" 2>/dev/null
.venv/control: .venv/core
	$(PIP) -e '.[control]'
	@$(DRAWS) || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	&& apt-get install -qqy libosmesa6 >/dev/null; } || true
	@if $(DRAWS); then touch $@; else \
	echo "tasks of the control suite cannot be drawn: install libosmesa6, as root: apt-get install libosmesa6"; fi

.venv/%: .venv/core
	$(PIP) -e '.[$*]'
	touch $@
