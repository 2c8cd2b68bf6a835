# Everything runs in a virtual environment that is made on first use. PYTHON names the interpreter to make it with.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: reproduce test quick check format bench chaos clean

reproduce: .venv/ready
	$(BIN)/mac reproduce cart-pole

# Tests of a file mostly stay in one process, which has compiled for the next one what it compiled for the last
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
# The programs of most tests run for a moment only, so that making them fast takes longer than they do; those of tests
# that are marked as `optimised` are what users have
QUICKLY := JAX_DISABLE_MOST_OPTIMIZATIONS=1 XLA_FLAGS=--xla_cpu_use_fusion_emitters=false

test: .venv/ready
	$(BIN)/python scripts/optional.py browser minatar stable-baselines3
	$(QUICKLY) $(PYTEST) -m "not optimised"
	$(PYTEST) -m optimised

# Without what is marked as slow, and with nothing installed: for a look while a change is being made
quick: .venv/ready
	$(QUICKLY) $(PYTEST) -m "not slow"

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready
	$(BIN)/python scripts/optional.py minatar minigrid stable-baselines3
	$(BIN)/python -m benchmarks

# Attacks what is installed, in all ways or in those that KIND names (.venv/bin/python -m chaos --help lists them): N
# times the usual number of faults, in at most SECONDS, all of it decided by SEED; with TO, the counts are added to those of a page such as results/chaos.md
chaos: .venv/ready
	$(BIN)/python -m chaos --n $(or $(N),1) --seconds $(or $(SECONDS),1200) --seed $(or $(SEED),0) $(if $(TO),--to $(TO)) $(KIND)

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
