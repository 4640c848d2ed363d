# Each target sets up .venv by itself, and again only when what it is made from has changed. The package alone is enough
# for the demo; tests and linters need the extras too.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

.PHONY: demo test test-slow lint security format bench docs docs-serve faults dist clean

demo: .venv/.package
	$(BIN)/pyrite demo

# Two processes; the tests of a file stay together, because they share fixtures that take long to make. Files are
# taken in the order of their names. By default those with few tests come last, among them the longest.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: .venv/.dev
	$(PYTEST)

test-slow: .venv/.dev
	$(PYTEST) -m slow

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/bandit -q -c pyproject.toml -r pyrite

# Known vulnerabilities of the installed packages; it fails where the database of PyPI cannot be asked.
security: .venv/.dev .venv/.release
	$(BIN)/bandit -q -c pyproject.toml -r pyrite
	$(BIN)/pip-audit --strict --skip-editable

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.dev
	$(BIN)/python -m benchmarks.losses
	$(BIN)/python -m benchmarks.losses --every
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.diagnostics
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.meta
	$(BIN)/python -m benchmarks.growth

# The site, in `site`; opens from the disk, without the search. NOTEBOOKS=false leaves out the notebooks, which are executed otherwise.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Deliberate faults, each of which the tests must catch: docs/testing.md.
faults: .venv/.dev
	$(BIN)/python -m benchmarks.faults

# The sdist, and from it the wheel: for this kind of machine with a C compiler, for every one without.
dist: .venv/.release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

.venv/.package: pyproject.toml constraints.txt hatch_build.py pyrite/kernel/kernel.c
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	@touch $@

.venv/.dev: .venv/.package
	$(INSTALL) ".[dev]"
	@touch $@

.venv/.docs: .venv/.dev
	$(INSTALL) ".[docs]"
	@touch $@

.venv/.release: .venv/.package
	$(INSTALL) ".[release]"
	@touch $@

clean:
	rm -rf .venv demo dist site
