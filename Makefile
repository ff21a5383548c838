# `make` lists the targets. PYTHON selects the interpreter for .venv.
PYTHON ?= python3

BIN := .venv/bin
STAMP := .venv/.made
RUN := $(BIN)/python

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help venv try test test-everywhere lint style types tests fix bench bench-select fuzz soak mutants interop docs map lock release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP) ## create .venv with all development dependencies

$(STAMP): requirements/base.txt requirements/dev.txt pyproject.toml
	@PYTHON='$(PYTHON)' sh scripts/venv.sh make
	@touch $@

try: $(STAMP) ## run metier on the example workspace
	@sh scripts/try.sh

test: style ## run all checks, then the tests
	@$(MAKE) --no-print-directory -j2 types tests

lint: style types ## run all checks without the tests

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

test-everywhere: $(STAMP) ## run the tests as other machines would (SAMPLE=1 for a few of them, ONLY="no-home one-core")
	@$(RUN) -m scripts.everywhere $(if $(SAMPLE),--sample) $(ONLY)

tests: $(STAMP)
	@$(RUN) -m scripts.machine
	$(RUN) -m pytest --dist worksteal -n $$($(RUN) -c 'import os; print((os.cpu_count() or 1) + 2)')

fix: $(STAMP) ## apply ruff's fixes and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure speed
	$(RUN) bench/run.py
	$(RUN) bench/schedules.py

bench-select: $(STAMP) ## measure search quality
	$(RUN) -m bench.selection --dense

fuzz: $(STAMP) ## fuzz the parsers
	@$(RUN) -c 'import atheris' 2>/dev/null || sh scripts/venv.sh add requirements/fuzz.txt
	$(RUN) fuzz/run.py
	METIER_FUZZ=10000 $(RUN) -m pytest -n auto tests/properties/test_commands.py tests/properties/test_markers_trusted.py

soak: $(STAMP) ## run all tests, including the long ones
	METIER_SOAK=1 METIER_FRESH=1 $(RUN) -m pytest

interop: $(STAMP) ## test the MCP server with third-party clients (needs npm)
	$(RUN) scripts/interop.py

mutants: $(STAMP) ## remove each defence in a copy and expect its tests to fail (ROWS="C013 C040" for some)
	$(RUN) -m scripts.mutate $(ROWS)

docs: $(STAMP) ## regenerate the documentation
	$(RUN) scripts/docs.py

map: $(STAMP) ## print the stages and the other packages
	@$(RUN) scripts/map.py

lock: ## resolve requirements/*.in into pinned, hashed *.txt (needs uv)
	@cd requirements && for name in base dev fuzz local; do \
		uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --no-header --output-file $$name.txt $$name.in || exit 1; \
	done

release: $(STAMP) ## a release without the upload: build, check, install in empty environments (QUICK=1 without the extras)
	@$(RUN) -m scripts.release $(if $(QUICK),--quick)

clean: ## remove everything that make created, including .venv
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .bench .models
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
