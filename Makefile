# Every target sets up what it needs in .venv: Python 3.11 or newer and make are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# --no-compile: Python compiles what it imports; all of it at once takes half a minute.
INSTALL := $(PIP) install -qq --no-compile $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable

# One stamp per set of dependencies: the demo does not wait for the development tools.
CREATED := $(VENV)/.created
RUNTIME := $(VENV)/.installed
DEV := $(VENV)/.installed-dev

# Sharded code is tested on pretended CPU devices. With fewer XLA threads than twice the devices,
# collectives can deadlock; NPROC sets their number.
EIGHT_DEVICES := JAX_PLATFORMS=cpu NPROC=16 XLA_FLAGS="$${XLA_FLAGS:-} --xla_force_host_platform_device_count=8"

# The method itself and what reads JAX's programs: where another release of JAX would show first.
CORE := tests/agreement tests/linearize tests/losses tests/regularizers tests/test_compat.py tests/test_compilation.py \
	tests/rules tests/test_sca.py tests/training tests/estimators/test_checks.py tests/models/test_compact.py

# One test file or folder per package that pyproject.toml names: where a release that is too old would show.
BOUNDS := tests/bridges tests/cli/test_bad_input.py tests/cli/test_live.py tests/cluster tests/report tests/storage \
	tests/tables tests/test_extras.py

# README, the guides, the reference and docs/: their names, numbers and examples.
DOCS := tests/test_guides.py tests/test_promises.py tests/test_extras.py tests/test_packaging.py \
	tests/cli/test_readme.py tests/reproduce/test_docs.py tests/test_reference.py tests/examples

# Some tests wait for processes they started: three at a time keep two cores busy.
TESTS := $(BIN)/python -m pytest -n 3 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test core oldest docs docs-serve check-docs torch federated flower coverage lint format wheel bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(RUNTIME)  ## Compare SCA with the usual optimizers on bundled data
	@$(BIN)/scax compare

test: $(DEV)  ## Run the tests, then those for several devices
	@$(TESTS) --ignore=tests/multidevice
	@$(EIGHT_DEVICES) $(TESTS) --timeout-method=thread tests/multidevice

core: $(DEV)  ## Run the tests that another release of JAX would break first
	@$(TESTS) $(or $(TESTED),$(CORE))

oldest:  ## Test the oldest releases that pyproject.toml allows, in .venv-oldest
	@mkdir -p build
	@$(PYTHON) tools/oldest.py > build/oldest.txt
	@$(MAKE) VENV=.venv-oldest CONSTRAINTS=build/oldest.txt TESTED="$(CORE) $(BOUNDS)" core

docs:  ## Build the manual into build/site, in .venv-docs; its tutorials are run
	@$(MAKE) --no-print-directory VENV=.venv-docs .venv-docs/.installed-docs
	@.venv-docs/bin/python tools/manual.py

docs-serve:  ## Show the manual while it is written
	@$(MAKE) --no-print-directory VENV=.venv-docs .venv-docs/.installed-docs
	@.venv-docs/bin/python tools/manual.py --serve

check-docs: $(DEV)  ## Check what the documents say: names, numbers, commands, examples
	@$(TESTS) $(DOCS)

coverage: $(DEV)  ## The same, and the lines they did not reach
	@$(TESTS) --cov --cov-report= --ignore=tests/multidevice
	@$(EIGHT_DEVICES) $(TESTS) --cov --cov-append --cov-report= --timeout-method=thread tests/multidevice
	@$(BIN)/python -m coverage report

torch: $(DEV)  ## Install PyTorch too, and run its tests: the others leave it out
	@echo "Installing PyTorch into $(VENV)"
	@$(INSTALL) '.[dev,torch]'
	@$(BIN)/python -m pytest tests/bridges/test_torch.py tests/examples -k torch

federated:  ## Install Flower in .venv-federated, and run its tests
	@$(MAKE) VENV=.venv-federated flower

flower: $(CREATED)
	@$(INSTALL) '.[federated]' pytest pytest-timeout hypothesis beartype
	@$(BIN)/python -m pytest -o addopts= tests/cluster/test_flower.py

lint: $(DEV)  ## Check the format, the style and the types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: $(DEV)  ## Format the code and repair what ruff can repair
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

wheel: $(DEV)  ## Build sdist and wheel into dist/, and try them in a new environment
	@$(BIN)/python tools/try_wheel.py

bench: $(RUNTIME)  ## Run the benchmarks
	@$(BIN)/python -m benchmarks.run

clean:  ## Remove .venv, caches and build products; run folders stay
	rm -rf $(VENV) .venv-* build dist .coverage .coverage.* htmlcov .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "scax needs Python 3.11 or newer and $(PYTHON) is %d.%d: name another, for example make PYTHON=python3.12" % v[:2])'
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); echo "Could not create $(VENV) with $(PYTHON): is Python's venv module installed (Debian: python3-venv)?" >&2; exit 1; }
	@touch $@

$(RUNTIME): pyproject.toml | $(CREATED)
	@echo "Installing scax and what its command needs into $(VENV)"
	@$(INSTALL) '.[cli]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(CREATED)
	@echo "Installing scax and what builds the manual into $(VENV)"
	@$(INSTALL) '.[docs]'
	@touch $@

$(DEV): pyproject.toml | $(CREATED)
	@echo "Installing scax and the development tools into $(VENV)"
	@$(INSTALL) '.[dev]'
	@touch $(RUNTIME) $@
