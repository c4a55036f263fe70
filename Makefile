# `make demo` and `make test` set up .venv by themselves; the second time that takes no time.
# Ordinary machines without a GPU may want PyTorch's CPU builds: make demo PIP_FLAGS='--extra-index-url ...'
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP_FLAGS ?=
BIN := .venv/bin
STAMP := .venv/.installed
export FLWR_TELEMETRY_ENABLED = 0
export RAY_USAGE_STATS_ENABLED = 0

.PHONY: setup demo test crash torture mutants deployment-test flower-simulation flower-deployment lint format bench crosscheck docs wheel-test picture clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/fedadavr compare --dataset mnist-5k --partition lq-1 --clients-per-round 5 --seeds 42 43 44 \
		--workers 2 --evaluate-every 5 --target 60 --algorithms fedavg fedvarp \
		fedyogi fedadavr fedadavr-quant:codec=int4 fedadavr-plus

test: setup
	$(BIN)/python -m pytest -q -n 2

crash: setup  # two hundred kills for each store, some twenty minutes
	$(BIN)/python -m pytest -q -m slow

torture: setup  # a thousand kills and faults, then 100,000 odd inputs at every door; make torture SEED=7
	$(BIN)/python -m tests.torture --faults 1000 $(if $(SEED),--seed $(SEED))
	FUZZ=20000 $(BIN)/python -m pytest -q tests/test_doors.py

mutants: setup  # wrong changes that tests should notice; make mutants SAMPLE=200 SEED=1 MINUTES=60, again to go on
	$(BIN)/python -m tests.mutants $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(MINUTES),--minutes $(MINUTES))

deployment-test: setup  # a real Flower deployment is killed in several ways, some minutes
	$(BIN)/python -m pytest -q -m deployment tests/test_flower_deployment.py tests/test_readme_commands.py

flower-simulation: setup  # the example app on Flower's simulation (Ray)
	cd examples/flower-app && PATH="$(CURDIR)/$(BIN):$$PATH" ./simulation.sh

flower-deployment: setup  # the example app on a SuperLink and four SuperNodes
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/flower-app/deployment.sh

crosscheck: setup  # the optimizers against optax, which brings jax (some 600 MB)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[crosscheck]'
	$(BIN)/python -m pytest -q tests/test_optimizers.py

docs: setup  # the site, into docs/_build/html, and its tests: links, a real browser
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -E -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python -m pytest -q -m site tests/test_site.py

wheel-test: setup  # builds wheel and sdist, and installs the wheel where nothing else is
	$(BIN)/python -m pytest -q -m wheel tests/test_wheel.py

picture: setup  # README's picture, two minutes
	rm -rf runs/picture
	$(BIN)/fedadavr compare --dataset mnist-5k --partition lq-1 --clients-per-round 5 --seeds 42 43 44 --workers 2 \
		--evaluate-every 2 --algorithms fedavg fedyogi fedadavr fedadavr-plus --out runs/picture
	$(BIN)/python docs/pictures/accuracy.py runs/picture

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup
	$(BIN)/fedadavr bench server

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants docs/_build
