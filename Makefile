# Every target sets up .venv by itself; a target whose inputs did not change costs nothing.
PYTHON ?= python3
SHELL := bash
BIN := .venv/bin
READY := .venv/.ready

export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test quick lint docs docs-serve dist bench faults soak mutants clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing safexp and what it needs into .venv ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

DEMO := $(BIN)/safexp train --task safexp/PointGoalStatic-v0 --budget 20 --learner TRPO --num-envs 50 --steps 400000

demo: $(READY)
	@rm -rf runs/demo
	@$(MAKE) --no-print-directory -j2 runs/demo/bare runs/demo/mase
	$(BIN)/safexp report runs/demo/bare runs/demo/mase --out runs/demo/report.html

# Both learn at the same time, one on each core, and each line says whose it is.
runs/demo/%: $(READY)
	@set -o pipefail; $(DEMO) --method $* --out $@ | sed -u 's/^/$* | /'

test: lint
	$(BIN)/pytest

# All but the tests marked `slow`, without lint.
quick: $(READY)
	$(BIN)/pytest -m "not slow"

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

# The site, in build/site; a broken link, or a public name without an entry, is an error. Nothing is fetched.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs-serve: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Wheel and sdist of a release, in dist.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

bench: $(READY)
	$(BIN)/python tools/step_overhead.py
	$(BIN)/safexp bench tasks
	$(BIN)/safexp bench learners
	$(BIN)/safexp bench quantifiers
	$(BIN)/safexp bench shield --decisions 100000

faults: $(READY)
	PYTHONPATH=tools $(BIN)/python -m faults $(FAULTS)

soak: $(READY)
	PYTHONPATH=tools $(BIN)/python -m faults.soak $(SOAK)

# Others: make mutants MUTANTS="--seed 7 --count 200 --only '*/guard.py'"; the same again goes on, --again tries survivors.
MUTANTS ?= --seed 0 --count 500 --minutes 60
mutants: $(READY)
	PYTHONPATH=tools $(BIN)/python -m mutants $(MUTANTS)

clean:
	rm -rf .venv runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
