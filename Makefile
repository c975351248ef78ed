# Everything a person or CI does here. Nothing is installed outside this folder, save the control plane's cache.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
BIN := $(VENV)/bin
REPORTS := build/reports
IMAGE ?= vidra:dev
export PYTHONPATH := dev

# $(call pytest,REPORT,ARGUMENTS): the last line says passed, failed and skipped, and stands alone.
define pytest
	@rm -f $(REPORTS)/$(1).xml
	@status=0; $(BIN)/pytest --junitxml=$(REPORTS)/$(1).xml $(2) || status=$$?; \
	$(BIN)/python dev/closing_line.py $(REPORTS)/$(1).xml || status=1; exit $$status
endef

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: venv ## from nothing to artifacts in a real control plane, shown live; Ctrl-C ends it
	@exec $(BIN)/python -m demo

.PHONY: test
test: lint binaries ## what CI runs: lint, then every test but e2e, on the real control plane
	$(call pytest,test,--ignore=tests/e2e --ignore=tests/contract)

.PHONY: unit
unit: venv ## the tests without I/O, in seconds
	$(call pytest,unit,tests/unit)

.PHONY: integration
integration: binaries ## the tests on the real control plane and the Infrahub stand-in
	$(call pytest,integration,tests/integration)

.PHONY: e2e
e2e: venv ## the operator as a pod: on kind, or on any cluster by E2E_KUBECONFIG (see dev/e2e/run)
	@dev/e2e/run

.PHONY: e2e-node
e2e-node: venv ## the same on a single-node cluster tool, E2E_NODE_TOOL (see dev/e2e/node)
	@dev/e2e/node

.PHONY: contract
contract: binaries ## the client and the main job against a real Infrahub: INFRAHUB_URL, INFRAHUB_TOKEN
	@: "$${INFRAHUB_URL:?the address of an Infrahub}" "$${INFRAHUB_TOKEN:?an API token of it}"
	$(call pytest,contract,tests/contract)

.PHONY: bench
bench: binaries ## the benchmarks of docs/benchmarks.md
	@PYTHONPATH=dev:. $(BIN)/python -m bench

.PHONY: lint
lint: venv ## format, lint, types, import rules, and that generated files are fresh
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m vidra.api.crd --check

.PHONY: format
format: venv ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: generate
generate: venv ## write manifests/crds from src/vidra/api
	$(BIN)/python -m vidra.api.crd

.PHONY: image
image: ## build the image IMAGE (vidra:dev) with docker, podman or buildah; BASE_IMAGE replaces its base
	@dev/image $(IMAGE)

.PHONY: lock
lock: venv ## renew the pinned, hashed constraints to the newest versions pyproject.toml allows
	@dev/lock $(BIN)/uv

.PHONY: venv
venv: $(VENV)/.installed ## the virtual environment, from the constraints; quick when up to date

$(VENV)/.installed: constraints/dev.txt pyproject.toml
	@[ -x $(BIN)/python ] || { python=$${PYTHON:-$$(dev/find-python)} && "$$python" -m venv $(VENV); }
	@echo "installing into $(VENV), $$($(BIN)/python -V)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r constraints/dev.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Before the tests, since a build from Go modules takes minutes and should be seen at work.
.PHONY: binaries
binaries: venv ## obtain the control plane's binaries; built once if need be
	@$(BIN)/python -m controlplane binaries

.PHONY: clean
clean: ## remove what make made here; the control plane's cache stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src dev tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
