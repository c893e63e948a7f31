# Every target does all its own set-up: a virtual environment in .venv, made once per dependency list.
# Another Python beside it:        make test PYTHON=python3.15 VENV=.venv-3.15
# The oldest versions that we say: make test CONSTRAINTS=constraints-oldest.txt VENV=.venv-oldest

# The first Python that runs and is recent enough; or say it: make PYTHON=/path/to/python3
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON := $(or $(PYTHON),$(shell for p in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c '$(RECENT)' 2> /dev/null && echo $$p && break; done))
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
INSTALL := PIP_CONSTRAINT=$(CONSTRAINTS) $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The environment is made again when what it was made from changes.
SOURCES := pyproject.toml $(CONSTRAINTS)

LINTS := lint-style lint-shape lint-types lint-programs

.PHONY: demo test smoke lint $(LINTS) docs gallery bench against ab clean

demo: $(VENV)/examples.done
	$(BIN)/autodiff demo

test: $(VENV)/test.done
	$(BIN)/python -m pytest -q -n auto --dist worksteal $(PYTEST_ARGS)

smoke: $(VENV)/test.done
	$(BIN)/python -m pytest -q -m smoke tests $(PYTEST_ARGS)

# None of them needs another, and each takes one core: `make -j 2 -O lint` takes half as long.
lint: $(LINTS)

$(LINTS): $(VENV)/types.done

lint-style:
	$(BIN)/ruff check .

lint-shape:
	$(BIN)/python tools/scoreboard.py --check

lint-types:
	$(BIN)/mypy

lint-programs:
	$(BIN)/python -m pytest -q tests/test_type_checkers.py

# The site is build/docs/index.html; -E: docstrings are read anew, too.
docs: $(VENV)/docs.done
	$(BIN)/sphinx-build -q -E -W --keep-going -n -j auto docs build/docs

# The pictures of the gallery, drawn again by the examples.
gallery: $(VENV)/examples.done $(VENV)/viz.done
	$(BIN)/python tools/gallery.py $(GALLERY_ARGS)

bench: $(VENV)/bench.done
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# This checkout beside another one, say of the commit before: make against OTHER=../before ROWS="tiny recorded"
against: $(VENV)/bench.done
	$(BIN)/python benchmarks/against.py $(OTHER) $(ROWS) $(BENCH_ARGS)

ab: $(VENV)/bench.done
	$(BIN)/python benchmarks/mechanisms.py $(AB_ARGS)

$(VENV)/examples.done $(VENV)/test.done $(VENV)/docs.done $(VENV)/viz.done: $(VENV)/%.done: $(VENV)/python.done
	$(INSTALL) -e '.[$*]'
	$(BIN)/python -m compileall -q autodiff codegen  # as pip does with what it copies: a start takes half as long
	touch $@

# Peers are measured where they can be had, and left out where they cannot.
$(VENV)/bench.done: $(VENV)/examples.done
	-for peer in torch jax numba drjit autograd; do \
	  $(INSTALL) $$peer; \
	done
	touch $@

# pyright is asked where it can be had; mypy is among what tests need.
$(VENV)/types.done: $(VENV)/test.done
	-$(INSTALL) -e '.[types]'
	touch $@

$(VENV)/python.done: $(SOURCES)
	$(if $(PYTHON),,$(error autodiff needs Python 3.11 or later; say where it is: make PYTHON=/path/to/python3))
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
