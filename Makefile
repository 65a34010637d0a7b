# Every target sets up .venv by itself; a target whose inputs did not change costs nothing.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test lint bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing safexp and what it needs into .venv ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)
	@rm -rf runs/demo
	$(BIN)/safexp train --method bare --out runs/demo/bare
	$(BIN)/safexp train --method mase --penalty 0.3 --out runs/demo/mase
	$(BIN)/safexp report runs/demo/bare runs/demo/mase --out runs/demo/report.html

test: lint
	$(BIN)/pytest

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/core.py

clean:
	rm -rf .venv runs dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
