# SPDX-License-Identifier: MIT
# make demo       set up, build, and see it work on this machine
# make test       what CI runs: minutes
# make test-full  conformance suites, sanitizers: an hour
# make mutants    breaks each rule of docs/thunderbolt.md; a test must see it
# make lint       formatters, linters, layers, generated files
VENV ?= $(CURDIR)/.venv
PYTHON ?= python3
BIN := $(VENV)/bin
RUN := env PATH="$(BIN):$$PATH"

.PHONY: demo test test-full mutants lint format setup clean unit sanitize
.DEFAULT_GOAL := demo

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml CMakeLists.txt $(shell find csrc tools -name '*.[ch]' -o -name '*.py' -o -name '*.txt')
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet scikit-build-core cffi cmake ninja setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation -e '.[test,plot,lint]'
	touch $@

demo: setup
	$(RUN) python tools/demo.py

test: setup
	$(RUN) python tools/check test

test-full: setup
	$(RUN) python tools/check full

mutants: setup
	$(RUN) python tools/mutants.py

lint: setup
	$(RUN) python tools/check lint

format:
	$(RUN) ruff format tbmpi tools tests examples
	$(RUN) ruff check --fix tbmpi tools tests examples
	clang-format -i $$(git ls-files 'csrc/*.[ch]' 'tests/*.[ch]' | grep -v -e csrc/gen -e csrc/include/mpi.h -e csrc/mpi/api.h)

clean:
	rm -rf build dist $(VENV) demo-out
