# Every target sets up what it needs in .venv; nothing outside this folder is changed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SNAKEMAKE := $(BIN)/snakemake
CORES ?= all
CONFIG ?= config/config.yaml
SCALE ?= 1

.PHONY: help setup reproduce paper test prove lint format docs dist lock benchmark clean

help:
	@echo "make reproduce   run everything that needs no download and write results/report.html"
	@echo "make paper       run the whole paper with the data that are present or can be downloaded"
	@echo "make setup       only build the environment in .venv"
	@echo "make test        run the tests"
	@echo "make prove       test the promises of docs/trust.md on many random cases (SCALE=0.01: fewer)"
	@echo "make lint        check style, types, spelling and configuration files"
	@echo "make format      format the code"
	@echo "make docs        build the documentation; every example in it is run"
	@echo "make dist        build the source archive and the wheel of a release"
	@echo "make benchmark   measure speed and memory"
	@echo "make lock        update the pinned versions in envs/ from pyproject.toml"
	@echo "make clean       remove .venv and everything that the workflow wrote"
	@echo "CONFIG=FILE chooses another config for reproduce and paper, CORES=N limits the cores."

$(READY): envs/requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("bjmd needs Python 3.11 or later, but $(PYTHON) is " + sys.version.split()[0] + "; call make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	@command -v g++ >/dev/null || echo "note: there is no g++, so ADVI (advi-bjmd) will run many times slower"
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --require-hashes -r envs/requirements.txt
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS_READY): $(READY) envs/docs.txt
	$(PIP_INSTALL) --no-deps --require-hashes -r envs/docs.txt
	@touch $@

setup: $(READY)

reproduce: $(READY)
	$(SNAKEMAKE) --cores $(CORES) --configfile $(CONFIG)
	@echo "The report is $(CURDIR)/results/report.html"

# The first step says which data it cannot get; the second leaves them out, and the report lists them.
paper: CONFIG = config/paper.yaml
paper: $(READY)
	-$(SNAKEMAKE) downloads --cores 1 --keep-going --configfile $(CONFIG)
	$(SNAKEMAKE) --cores $(CORES) --configfile $(CONFIG) --config skip_missing=True
	@echo "The report is $(CURDIR)/results/report.html"

# one file at a time in as many processes as there are cores
test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# takes hours at SCALE=1
prove: $(READY)
	$(BIN)/python tests/prove --scale $(SCALE)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check workflow
	$(BIN)/snakemake --lint
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[bi]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt workflow

# warnings are errors, and every example in the pages is run again
docs: $(DOCS_READY)
	rm -rf build/docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -j auto -c docs -b html . build/docs
	@echo "The site is $(CURDIR)/build/docs/index.html"

# without isolation, so that the pinned versions build it too
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# uv, because pip-compile writes index addresses into its output; docs.txt has what only the site needs
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
    pyproject.toml
EXTRAS := advi anndata scanpy workflow slurm dev
lock:
	$(COMPILE) $(EXTRAS:%=--extra %) --output-file envs/requirements.txt
	$(COMPILE) --extra docs --constraint envs/requirements.txt --output-file envs/docs.txt \
	    $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' envs/requirements.txt | sort -u)

# without those that take hours or need other packages; QUICK=1 takes tiny sizes, to see that they run
SLOW := growth harness mutants panel
benchmark: $(READY)
	for script in $(filter-out $(SLOW:%=benchmarks/%.py),$(wildcard benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv .snakemake .pytest_cache .ruff_cache .mypy_cache build dist
	find results -mindepth 1 -maxdepth 1 ! -name reference -exec rm -rf {} +
