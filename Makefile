# Each target sets up .venv by itself; it is made anew only when what it is made from has changed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint format bench clean

demo: .venv/.ready
	$(BIN)/pyrite demo

# Two at a time, a file to each: a file's tests share what is dear to make.
test: .venv/.ready
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: .venv/.ready
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.ready
	$(BIN)/python -m benchmarks.losses
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.diagnostics
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.meta

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf .venv demo
