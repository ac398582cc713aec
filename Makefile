# Everything a developer types. Each target does its own set-up; the first run of anything real builds the control
# plane once (about ten minutes on two cores), later runs take it from the user's cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DURATION ?= 20m
# Of `make test`, `demo`, `soak` and `binaries`: another pinned Kubernetes release, such as KUBERNETES=v1.34.4.
RELEASE = $(if $(KUBERNETES),--kubernetes $(KUBERNETES))
STAMP := $(VENV)/.installed
CODE := policy runtime webhook reaper quota certs cli sandbox bench tests

# Each part of the tests gets a control plane of its own: what one leaves behind (records, policies, limits) is no matter
# of the next.
PARTS = $(sort $(filter-out tests/reaper/ tests/data/ %__pycache__/,$(wildcard tests/*/)) \
  $(filter-out %__pycache__/,$(wildcard tests/reaper/*/)))

.DEFAULT_GOAL := help
.PHONY: help setup binaries check format test unit demo soak bench lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpu-tenure needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@echo "Setting up $(VENV) from requirements/dev.txt (a minute or so)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## the Python environment in .venv
	@echo "$(VENV) is ready; . $(BIN)/activate puts gpu-tenure on the path"

binaries: $(STAMP) ## build the control plane of the sandbox into the user's cache
	@$(BIN)/gpu-tenure sandbox build $(RELEASE) $(WITH)

check: $(STAMP) ## format, lint, types, generated files, import contracts and unit tests (about a minute)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(filter-out tests,$(CODE))
	$(BIN)/python manifests/generate.py --check
	$(BIN)/python manifests/dashboards.py --check
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -n auto -m "not real"

format: $(STAMP) ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

unit: $(STAMP) ## the tests that start no real program
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -n auto -m "not real"

test: WITH = --with cert-manager
test: binaries ## everything, on a real control plane and a real Prometheus; KUBERNETES=v1.34.4 takes another release
	@failed=; for part in $(PARTS); do echo "== $$part"; \
	  $(BIN)/pytest $(RELEASE) $$part || failed="$$failed $$part"; done; \
	  if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

demo: binaries ## the main job from nothing, with incidents; KEEP=1 leaves it running
	$(BIN)/gpu-tenure sandbox demo $(if $(KEEP),--keep) $(RELEASE)

soak: binaries ## a reaper under random faults; DURATION=20m, SEED= repeats a run
	$(BIN)/gpu-tenure sandbox soak --duration $(DURATION) $(if $(SEED),--seed $(SEED)) $(RELEASE)

bench: binaries ## benchmarks beside their comparators, as ratios
	$(BIN)/python -m bench

lock: ## renew the lock files from pyproject.toml (needs uv on the path)
	uv pip compile -q pyproject.toml --generate-hashes --no-header --no-emit-index-url --python-version 3.11 -o requirements/run.txt
	uv pip compile -q pyproject.toml --group dev --generate-hashes --no-header --no-emit-index-url --python-version 3.11 -o requirements/dev.txt

clean: ## remove the environment and caches of this checkout (not the user's cache)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
