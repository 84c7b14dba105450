# One place for every command. `make help` lists them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Modules are compiled when they are first imported, into a cache of their own: installing is quick, the tree stays clean.
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/$(VENV)/pycache

.PHONY: prove-platforms help demo test lint types layers unit lock clean bench wheel prove-main prove-kv prove-eligibility prove-canary prove-kubernetes prove-panels prove-seen docs cluster-tools chart-files

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "the observer needs Python 3.11 or newer, found " + sys.version.split()[0] + " as $(PYTHON); set PYTHON=…")'
	@echo "making the environment in $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/run.lock pyproject.toml $(VENV)/pyvenv.cfg
	@echo "installing the run-time dependencies (hash-checked)"
	@$(PIP) install --no-compile --require-hashes -r requirements/run.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.lock $(VENV)/run.stamp
	@echo "installing the development tools (hash-checked)"
	@$(PIP) install --no-compile --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/bench.stamp: requirements/bench.lock $(VENV)/dev.stamp
	@echo "installing the benchmarks' peers (hash-checked)"
	@$(PIP) install --no-compile --require-hashes -r requirements/bench.lock
	@touch $@

demo: $(VENV)/run.stamp ## a simulated fleet on loopback and the observer on it, with a live table
	@$(BIN)/observer demo $(ARGS)

test: lint types layers unit ## lint, types, layers, all tests

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/security.py bandit

types: $(VENV)/dev.stamp
	$(BIN)/mypy

layers: $(VENV)/dev.stamp
	$(BIN)/lint-imports

unit: $(VENV)/dev.stamp
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered $(ARGS)

wheel: $(VENV)/dev.stamp ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

bench: $(VENV)/bench.stamp ## all benchmarks, as ratios against peers, and artifacts/benchmarks.html (ARGS=--quick: a short run)
	$(BIN)/python -m benchmarks.run $(ARGS)

lock: ## write the locked, hashed requirements again
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --custom-compile-command "make lock" pyproject.toml requirements/build.in -o requirements/run.lock
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --custom-compile-command "make lock" --extra dev pyproject.toml requirements/build.in -c requirements/run.lock -o requirements/dev.lock
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --custom-compile-command "make lock" --extra kubernetes pyproject.toml requirements/build.in -c requirements/dev.lock -o requirements/image.lock
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --custom-compile-command "make lock" --extra bench pyproject.toml requirements/build.in -c requirements/dev.lock -o requirements/bench.lock
	rm -rf $(VENV)-lock

clean: ## remove the environment and everything made
	rm -rf $(VENV) dist artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage

prove-main: $(VENV)/dev.stamp ## every proof of the main job that a command can run
	$(BIN)/python scripts/prove_main.py

prove-kv: $(VENV)/dev.stamp ## every proof about KV events
	$(BIN)/python scripts/prove_kv.py

cluster-tools: $(VENV)/dev.stamp ## build etcd, kube-apiserver and helm once into the cache outside the clone
	$(BIN)/python scripts/cluster_tools.py etcd kube helm

prove-kubernetes: $(VENV)/dev.stamp ## every proof about a cluster, on a real kube-apiserver (make cluster-tools first)
	$(BIN)/python scripts/prove_kubernetes.py

prove-eligibility: $(VENV)/dev.stamp ## every proof about eligibility
	$(BIN)/python scripts/prove_eligibility.py

prove-platforms: $(VENV)/dev.stamp ## every proof about the platforms
	$(BIN)/python scripts/prove_platforms.py

prove-canary: $(VENV)/dev.stamp ## every proof about canary analysis and its gate
	$(BIN)/python scripts/prove_canary.py

fuzz: $(VENV)/dev.stamp ## ten minutes of CPU for each reader of foreign bytes
	$(BIN)/python -m fuzz.all --seconds 600 --jobs 2

docs: $(VENV)/dev.stamp ## write the reference pages and the KV diagram from the tables
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/doctor_page.py
	$(BIN)/python scripts/platforms_page.py
	$(BIN)/python scripts/kv_diagram.py

prove-seen: $(VENV)/dev.stamp ## every proof about what people look at
	$(BIN)/python scripts/prove_seen.py

chart-files: $(VENV)/dev.stamp ## write what the chart keeps of settings, platforms, rules, dashboards and manifests
	$(BIN)/python scripts/chart_files.py

audit: $(VENV)/dev.stamp ## known advisories of the locked packages, where a source answers
	$(BIN)/python scripts/security.py audit

sbom: $(VENV)/dev.stamp ## a CycloneDX document of what is installed, into artifacts/
	$(BIN)/python scripts/security.py sbom artifacts/observer.cdx.json

prove-hardening: $(VENV)/dev.stamp ## every proof about hostile input, faults, limits and secrets
	$(BIN)/python scripts/prove_hardening.py

soak: $(VENV)/dev.stamp ## an hour of faults with a ledger that knows the truth
	$(BIN)/python scripts/soak.py --seconds 3600

prove-speed: $(VENV)/bench.stamp ## every proof about speed and scale (ARGS=--quick: without the ten minutes at 10,000 targets)
	$(BIN)/python scripts/prove_speed.py $(ARGS)
