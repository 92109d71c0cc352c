# Two commands do everything on a fresh machine with Python 3.11 and make: `make demo`, `make test`.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
SITE := .venv-site/bin
SERVICES := $(VENV)/.services
SETUP := $(VENV)/.ready

.PHONY: demo test test-slow test-release site test-home-assistant test-generators mutate check audit format bench docs pictures reproduce lock images compose-files compose-up play clean

demo: $(SERVICES)  ## Private rounds on real or generated meter readings; DATA=file.csv[.xz] takes yours, FULL=1 shows more
	$(BIN)/tacit demo $(if $(FULL),--full) $(if $(DATA),--data $(DATA))

# What a test compiles of the product, processes that it starts compile no second time.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/pytest

# Two at a time, each in a process of its own: none holds all tests and all that they import and
# compile, and nothing is imported and collected twice.
without = $(patsubst %,--ignore=%,$(1))
accounting := tests/tacit/accounting tests/tacit/noise
validity := tests/tacit/validity tests/tacit/query tests/tacit/report
graphs := $(addprefix tests/algorithms/,graph_der graph_random_matrix set_valued dpbv_clustering)
coordinator := $(addprefix tests/coordinator/,budget registry rounds datasets queries)
library := tests/tacit $(call without,$(accounting) $(validity))
algorithms := tests/algorithms tests/simulation $(call without,$(graphs))
jobs := tests/coordinator $(call without,$(coordinator))
curator := tests/curator
services := tests/aggregator tests/common
together := tests/e2e
adversary := tests/adversary
rest := tests $(call without,$(addprefix tests/,tacit algorithms simulation coordinator curator aggregator \
  common e2e adversary bench reproduction))  # the last two are slow tests alone
PARTS := $(addprefix test-part-,coordinator jobs curator algorithms graphs validity accounting \
  services together adversary library rest)
COSTS := build/test-costs.json

.PHONY: $(PARTS)
test: $(SETUP)  ## The tests, two parts at a time; prints their CPU minutes and the dearest files
	@rm -f $(COSTS)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(PARTS)

$(PARTS): test-part-%:
	@mkdir -p build; TACIT_TEST_COSTS=$(COSTS) $(PYTEST) -m "not slow and not release" $($*) > build/$@.log 2>&1; \
	  failed=$$?; cat build/$@.log; exit $$failed

test-slow: $(SETUP)  ## Crash, statistical and scale tests, and all examples of properties; ROOMS=tests/tacit for some
	$(PYTEST) -n 3 --dist loadfile -m "(slow or hypothesis) and not release" --hypothesis-profile full $(ROOMS)

test-release: $(SETUP)  ## What takes longer still, before a release: every table of the sources, other examples of properties
	$(PYTEST) -n 2 --dist loadfile -m release
	$(PYTEST) -n 2 --dist loadfile -m hypothesis --hypothesis-profile explore

HOME_ASSISTANT := integrations/home_assistant
test-home-assistant:  ## The integration for Home Assistant, in its own environment and test harness
	$(PYTHON) -m venv $(HOME_ASSISTANT)/.venv
	$(HOME_ASSISTANT)/.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	  -r $(HOME_ASSISTANT)/requirements.lock
	cd $(HOME_ASSISTANT) && .venv/bin/python -m pytest -q

test-generators: $(SETUP)  ## Generated clients of the API; their generator has an environment of its own
	$(PYTHON) -m venv .venv-generators
	.venv-generators/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	  -r requirements-generators.lock
	$(BIN)/pytest -q tests/e2e/test_generated_clients.py

mutate: $(SETUP)  ## Which changes of a module its tests notice; MODULE=curator/ledger.py for one
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-mutation.lock
	nice -n 15 $(BIN)/python -m tests.mutation $(MODULE)

COMPOSE_FILES := docker-compose.yml deploy/aggregator.compose.yml
MANIFESTS := $(filter-out %/kustomization.yaml, $(wildcard deploy/kubernetes/*/*.yaml))

check: $(SETUP)  ## Format, lint, types, floors, files of deployments, known vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict $(COMPOSE_FILES) deploy
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec $(COMPOSE_FILES)
	for file in $(COMPOSE_FILES); do $(BIN)/podman-compose --dry-run -f $$file config >/dev/null || exit; done
	$(BIN)/kubernetes-validate --strict --quiet --kubernetes-version 1.30.0 $(MANIFESTS)
	$(BIN)/kubernetes-validate --strict --quiet --kubernetes-version 1.36.0 $(MANIFESTS)
	$(BIN)/python .ci/audit.py

audit: $(SETUP)  ## Known vulnerabilities of the pinned packages; says so where nobody answers
	$(BIN)/python .ci/audit.py

format: $(SETUP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(SETUP)  ## Every benchmark, with its ratios; installs the peers (OpenDP, MPyC)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	$(BIN)/python -m bench

docs: $(SETUP)  ## Rewrite the generated reference pages
	$(BIN)/python -m docs.generate

site: $(SETUP)  ## All pages as a site with search, in build/site; nothing is fetched but the generator, once
	test -x $(SITE)/pip || $(PYTHON) -m venv .venv-site
	$(SITE)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.lock
	$(BIN)/python -m docs.site build/pages
	$(SITE)/zensical build --strict

pictures: $(SETUP)  ## Take the pages' pictures of the documentation again (needs Chromium)
	$(BIN)/python -m pytest -q -m slow -k "pictures_of_the_documentation or a_file_becomes" tests/browser
	$(BIN)/python -m docs.shrink_pictures

reproduce: $(SETUP)  ## The sources' tables and figures; DATA=DIR names the real data sets
	$(BIN)/python -m reproduction all --out build/reproduction $(if $(DATA),--data $(DATA))

LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --python-version 3.11

# Of what the command line and development servers need an image of one service holds nothing.
IMAGE_LOCK := $(LOCK) --constraint requirements.lock $(foreach package, colorama markdown-it-py mdurl \
  pygments rich shellingham typer watchfiles websockets, --no-emit-package $(package)) pyproject.toml

lock:  ## Refresh the lock files (needs uv)
	$(LOCK) --all-extras --group dev pyproject.toml -o requirements.lock
	$(LOCK) --extra console --group demo --constraint requirements.lock pyproject.toml \
	  -o requirements-demo.lock
	$(LOCK) --group bench --constraint requirements.lock pyproject.toml -o requirements-bench.lock
	$(LOCK) --group generators -o requirements-generators.lock
	$(LOCK) --group site -o requirements-site.lock
	$(LOCK) --group mutation --constraint requirements.lock \
	  -o requirements-mutation.lock
	$(subst --universal,,$(LOCK)) $(HOME_ASSISTANT)/requirements.in -o $(HOME_ASSISTANT)/requirements.lock
	$(LOCK) --group images --constraint requirements.lock -o deploy/requirements/build.lock
	$(IMAGE_LOCK) --extra postgres --extra tracing -o deploy/requirements/aggregator.lock
	$(IMAGE_LOCK) --extra postgres --extra tracing --extra mqtt -o deploy/requirements/curator.lock
	$(IMAGE_LOCK) --extra postgres --extra tracing --extra coordinator --extra plots \
	  --extra console \
	  -o deploy/requirements/coordinator.lock
	$(IMAGE_LOCK) --extra coordinator --extra plots --extra fast \
	  -o deploy/requirements/worker.lock
	$(LOCK) --constraint requirements.lock --extra coordinator --extra plots --extra mqtt \
	  pyproject.toml -o deploy/requirements/tools.lock

images: ## Build every image with docker, podman or buildah, whichever is there; ENGINE=... names one
	$(PYTHON) deploy/build.py $(if $(ENGINE),--engine $(ENGINE))

compose-files: $(SERVICES)  ## Write .env and deploy/secrets/ for docker-compose.yml; keeps what is there
	$(BIN)/tacit config compose

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

# What services and the command need. Python compiles what they import, once, before they start
# side by side; pip would compile five times as much.
$(SERVICES): requirements-demo.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements-demo.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	$(BIN)/python -c "import aggregator.app, coordinator.app, curator.app"
	touch $(SERVICES)

# And all that is developed with.
$(SETUP): requirements.lock $(SERVICES)
	$(INSTALL) --require-hashes -r requirements.lock
	touch $(SETUP)

DOCKER := $(shell docker compose version 2>/dev/null)
COMPOSE ?= $(if $(DOCKER),docker compose,$(BIN)/podman-compose)
compose-up: $(if $(DOCKER),,$(SETUP)) compose-files  ## The compose file in one command: files, images, services, pairing; prints the console's sign-in link
	$(COMPOSE) up --detach
	$(COMPOSE) logs --follow pairing
	@. ./.env && TACIT_URL=http://127.0.0.1:$$COORDINATOR_PORT TACIT_TOKEN=$$(cat deploy/secrets/coordinator_token) \
	  $(BIN)/tacit console --no-open

play: $(SETUP)  ## The compose file in podman, as root: a demo, kills, restore, upgrade; DIR=... keeps its images
	VENV=$(VENV) tests/deploy/play.sh $(DIR)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
