# Two commands on a fresh machine: `make demo` and `make test`. Everything goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench docs clean

demo: $(VENV)/.demo
	$(BIN)/seqlab demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/oxlint src
	$(BIN)/python .ci/lint_css.py src

bench: $(VENV)/.test
	$(BIN)/python benchmarks/step_speed.py
	$(BIN)/python benchmarks/writing_speed.py
	$(BIN)/python benchmarks/pretrain_speed.py
	$(BIN)/python benchmarks/busy_neighbour.py

docs: $(VENV)/.demo
	$(BIN)/python docs/make.py

# torch comes first and alone, pinned without a build tag: the index that is set up decides which build that is.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)" --constraint constraints.txt
	touch $@

$(VENV)/.demo $(VENV)/.test $(VENV)/.lint: $(VENV)/.%: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) .peers
