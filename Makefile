# The two commands of the README are `make demo` and `make test`; both do all set-up in .venv.
# Override the interpreter with: make PYTHON=python3.12 …

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
# Compiled byte code is kept even where the environment says otherwise: each command would compile anew.
export PYTHONDONTWRITEBYTECODE :=
BIN := $(VENV)/bin
SOURCES := pyproject.toml clients/python/pyproject.toml
PACKAGES := shared services simulator bench tools tests examples clients/python

.DEFAULT_GOAL := help
.PHONY: help demo test check format generate lock kafka kube clean

help:  ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

demo: $(VENV)/.server  ## Run a gang of 4 × 8 GPUs from submission to its end, on this machine alone
	@$(BIN)/python -m services.standalone.demo

test: $(VENV)/.dev  ## Pass the tests (those against Kafka need Java and Maven, against Kubernetes Go)
	@$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.dev  ## The quick gate: lint, format, types, layers, generated files, documents
	$(BIN)/ruff check $(PACKAGES)
	$(BIN)/ruff format --check $(PACKAGES)
	$(BIN)/mypy
	$(BIN)/basedpyright --level error
	$(BIN)/lint-imports
	$(BIN)/python -m tools.generate --check
	$(BIN)/python -m tools.docs

format: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff check --fix-only $(PACKAGES)
	$(BIN)/ruff format $(PACKAGES)

generate: $(VENV)/.dev  ## Write again all that is generated: CRDs, schemas, chart templates, reference
	$(BIN)/python -m tools.generate

lock: $(VENV)/.dev  ## Resolve the dependencies anew
	$(BIN)/python -m tools.lock

kafka: $(VENV)/.dev  ## A real Apache Kafka broker on loopback, until Ctrl-C
	@$(BIN)/python -m tools.kafka up

kube: $(VENV)/.dev  ## A real Kubernetes control plane with 4 simulated nodes on loopback, until Ctrl-C
	@$(BIN)/python -m tools.kube up $(or $(ARGS),--nodes 4x8)

clean:  ## Remove what these targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed, and none was found on the PATH" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) cannot make a virtual environment (on Debian: apt install python3-venv)" >&2; exit 1; }

$(VENV)/.server: locks/server.txt $(SOURCES) | $(BIN)/python
	@echo "Installing Pumice into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/server.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e clients/python -e .
	@touch $@

$(VENV)/.dev: locks/dev.txt $(VENV)/.server
	@echo "Installing the development tools into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/dev.txt
	@touch $@
