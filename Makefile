# `make` alone lists what there is. PYTHON chooses the interpreter that .venv is made from.
PYTHON ?= python3

BIN := .venv/bin
STAMP := .venv/.made
RUN := $(BIN)/python

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help venv try test lint style types tests fix bench bench-select fuzz soak mutants interop docs map lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

venv: $(STAMP) ## make .venv with everything needed to work on metier

$(STAMP): requirements/base.txt requirements/dev.txt pyproject.toml
	@PYTHON='$(PYTHON)' sh scripts/venv.sh make
	@touch $@

try: $(STAMP) ## show metier at work on the example workspace
	@sh scripts/try.sh

test: style ## run every check, then the tests
	@$(MAKE) --no-print-directory -j2 types tests

lint: style types ## run every check but the tests

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(RUN) -m pytest --dist worksteal -n $$($(RUN) -c 'import os; print((os.cpu_count() or 1) + 2)')

fix: $(STAMP) ## mend and format what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure
	$(RUN) bench/run.py
	$(RUN) bench/schedules.py

bench-select: $(STAMP) ## measure how well the right skill is found
	$(RUN) -m bench.selection --dense

fuzz: $(STAMP) ## feed the parsers what nobody would write
	@$(RUN) -c 'import atheris' 2>/dev/null || sh scripts/venv.sh add requirements/fuzz.txt
	$(RUN) fuzz/run.py
	METIER_FUZZ=10000 $(RUN) -m pytest -n auto tests/properties/test_commands.py tests/properties/test_markers_trusted.py

soak: $(STAMP) ## run the tests, the long ones too
	METIER_SOAK=1 METIER_FRESH=1 $(RUN) -m pytest

interop: $(STAMP) ## let other people's MCP clients try the server (needs npm)
	$(RUN) scripts/interop.py

mutants: $(STAMP) ## take each defence away in a copy, and see that its tests fail (ROWS="C013 C040" for some)
	$(RUN) -m scripts.mutate $(ROWS)

docs: $(STAMP) ## write the generated documentation
	$(RUN) scripts/docs.py

map: $(STAMP) ## print the stages in order, then the other packages
	@$(RUN) scripts/map.py

lock: ## resolve requirements/*.in into pinned, hashed *.txt (needs uv)
	@cd requirements && for name in base dev fuzz local; do \
		uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --no-header --output-file $$name.txt $$name.in || exit 1; \
	done

clean: ## remove all that make has made, .venv included
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .bench .models
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
