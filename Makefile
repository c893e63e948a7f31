# Every target does all its own set-up: a virtual environment in .venv, made once per dependency list.

# The first Python that runs and is recent enough; or say it: make PYTHON=/path/to/python3
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON := $(or $(PYTHON),$(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c '$(RECENT)' 2> /dev/null && echo $$p && break; done))
BIN := .venv/bin
# The environment is made again when what it was made from changes.
SOURCES := pyproject.toml constraints.txt

.PHONY: demo test smoke lint docs bench ab clean

demo: .venv/examples.done
	$(BIN)/autodiff demo

test: .venv/test.done
	$(BIN)/python -m pytest -q -n auto $(PYTEST_ARGS)

smoke: .venv/test.done
	$(BIN)/python -m pytest -q -m smoke tests $(PYTEST_ARGS)

lint: .venv/test.done
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site is build/docs/index.html; -E: docstrings are read anew, too.
docs: .venv/docs.done
	$(BIN)/sphinx-build -q -E -W --keep-going -n -j auto docs build/docs

bench: .venv/bench.done
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

ab: .venv/bench.done
	$(BIN)/python benchmarks/mechanisms.py $(AB_ARGS)

.venv/examples.done .venv/test.done .venv/docs.done: .venv/%.done: .venv/python.done
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	$(BIN)/python -m compileall -q autodiff codegen  # as pip does with what it copies: a start takes half as long
	touch $@

# Peers are measured where they can be had, and left out where they cannot.
.venv/bench.done: .venv/examples.done
	-for peer in torch jax numba drjit autograd; do \
	  PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check $$peer; \
	done
	touch $@

.venv/python.done: $(SOURCES)
	$(if $(PYTHON),,$(error autodiff needs Python 3.11 or later; say where it is: make PYTHON=/path/to/python3))
	$(PYTHON) -m venv --clear .venv
	touch $@

clean:
	rm -rf .venv build *.egg-info
