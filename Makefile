# Everything runs from a private virtual environment that the first target makes. Python 3.11 or newer is all it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?= 2
SECONDS ?= 600
SEED    ?= 1
COUNT   ?= 200
MINUTES ?= 600
READY  := $(VENV)/.ready

# Tests start hundreds of processes, which would each compile the engine anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run run-all test docs lint types rooms generate check-generated explore mutate soak clean

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --use-pep517 --constraint constraints.txt --editable '.[dev]'
	touch $@

install: $(READY) ## Only what all the others do first: .venv with memwal and all that it needs

run: $(READY) ## The main job: a Spark-run workload on real flights data, checked row by row (revision B)
	$(BIN)/memwal spark validate --out out/validate

run-all: $(READY) ## The main job under every revision
	for revision in B A R; do $(BIN)/memwal spark validate --revision $$revision --out out/validate-$$revision || exit 1; done

test: $(READY) ## Everything that has to be green: style, types, rooms, generated files, tests
	$(MAKE) --jobs $(WORKERS) lint types rooms check-generated
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile -m "not long"

docs: $(VENV)/.docs ## The documentation as a site, in out/site: open out/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --use-pep517 --constraint constraints.txt --editable '.[docs]'
	touch $@

lint: $(READY) ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## Types
	$(BIN)/mypy

rooms: $(READY) ## Which package may import which
	$(BIN)/lint-imports

generate: $(READY) ## Write the generated files anew: protobuf code, vectors, messages, options, clause matrix, notes, native versions, gallery
	$(BIN)/python protos/generate.py
	$(BIN)/python conformance/vectors/bless.py
	$(BIN)/python -m memwal_conformance.document --write
	$(BIN)/python -m memwal_model.page --write
	$(BIN)/python -m memwal_spark.page --write
	$(BIN)/python -m memwal_conformance.matrix clauses --write
	$(BIN)/python -m memwal_conformance.matrix planted --write
	$(BIN)/python -m memwal_conformance.matrix notes --write
	$(BIN)/python -m memwal_conformance.matrix native --write
	$(BIN)/python docs/transactions.py
	$(BIN)/memwal docs gallery

check-generated: $(READY) ## Compare the generated files with what would be written
	$(BIN)/python protos/generate.py --check
	$(BIN)/python -m memwal_conformance.document --check
	$(BIN)/python -m memwal_spark.page --check
	$(BIN)/memwal conformance planted check
	$(BIN)/memwal conformance clauses check

explore: $(READY) ## The long explorations
	$(BIN)/memwal docs certify --check --jobs 2
	$(BIN)/memwal conformance planted kill --again --jobs 2
	$(BIN)/memwal conformance clauses mutate --seed $(SEED) --count $(COUNT) --minutes $(MINUTES)
	$(BIN)/memwal explore two_writers --faults 1 --merge
	$(BIN)/memwal explore two_writers_merger_collector --preemptions -1 --merge --memory-max 12000
	$(BIN)/memwal explore two_writers_merger_collector --faults 1 --fate late --preemptions -1 --merge --memory-max 14000
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile -m "long or hypothesis"
	HYPOTHESIS_PROFILE=long $(BIN)/python -m memwal_sim.machines

mutate: $(READY) ## Change the protocol modules at random, COUNT (200) times with SEED (1): do the tests notice 95 %?
	$(BIN)/memwal conformance clauses mutate --seed $(SEED) --count $(COUNT) --minutes $(MINUTES)

soak: $(READY) ## Kill, stop and starve real processes for SECONDS (600) with SEED (1), and judge every acknowledged row
	$(BIN)/memwal explore soak-processes --seconds $(SECONDS) --seed $(SEED)

clean: ## Remove the virtual environment and all output
	rm -rf $(VENV) out
