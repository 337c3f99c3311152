# make app    open the web app on http://127.0.0.1:7860
# make test   make check, then the suite in three processes, which keep two cores busy while some of them wait
# make test-all  the same with the tests marked thorough, which take most of the time; before a release
# make browsers  Firefox and WebKit by apt-get, for the tests of published sites in them
# make soak   the tests of faults and of long use, which make test leaves out
# make check  types, style, and whether what is generated is current
# make bench  speed, as ratios within one run; MODEL=llama2-7b counts what calibrating a published model costs on GPUs
# make docs   the documentation with the Python API as a site, in build/docs; a dead link or a bad docstring fails
# make site   the Lab of the shipped studies as files for any web server, in build/site
# make image  the steps of the Dockerfile, run without Docker
# make space  what is pushed to a Space of Hugging Face, in build/space
# make loaders  small checkpoints of every kind given to every reader that can be had; LOADERS="--only mlx-lm"
# make models  a small model of each causal type of transformers from files to files; writes docs/models.md, ONLY="phi3 gpt_oss" for some
# make torture  a running app under requests by its schema, pattern bombs, kills, full disks, many runs and viewers; TORTURE="--seed 7 …"
# make real    real models from a GGUF file to a checkpoint that others load, beside their plans; ONLY=smollm2-135m-instruct
# make test-engines  other engines make the same codes of our recipes; in build/engines, ONLY=llmcompressor for one
# make test-opened  checkpoints that other engines make, opened and decoded by their own loaders beside; in build/opened
# make test-reports  runs told to MLflow, which stands beside .venv in build/reports
# make requirements  the hashes of all versions in requirements*.txt, which takes a network
# make audit  known vulnerabilities in installed packages, from the network; a package that can't be judged counts as one
# Each does all of its own set-up in .venv.

PYTHON ?= python3
BIN := .venv/bin
# Node comes with the development requirements; nothing of it is shipped.
NPX := PATH="$(CURDIR)/$(BIN):$$PATH" npx --no-install
export HF_HUB_DISABLE_TELEMETRY := 1
export GRADIO_ANALYTICS_ENABLED := False
# Threads that spin while they wait starve each other on a busy host.
export OMP_WAIT_POLICY := PASSIVE

# Every file that is installed has one of the hashes that are written down for its version, and nothing else comes along.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps

SITE := $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees docs build/docs

.PHONY: app test test-all soak check docs site bench loaders real models torture image space test-engines test-opened test-reports chromium browsers pretrained requirements audit

app: .venv/app.done pretrained
	$(BIN)/python app.py

# Without rewritten assertions, which each process would prepare for a quarter of a minute: pytest --lf has the details.
test: check chromium pretrained
	$(BIN)/python -m pytest -m "not soak and not thorough" -n 3 --dist loadfile --no-loadscope-reorder --assert=plain

test-all: check chromium pretrained
	$(BIN)/python -m pytest -m "not soak" -n 3 --dist loadfile --no-loadscope-reorder

soak: .venv/dev.done chromium
	$(BIN)/python -m pytest -m soak -n 2 --dist loadfile --no-loadscope-reorder

check: .venv/dev.done node_modules/.package-lock.json
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(NPX) biome check --error-on-warnings .
	$(NPX) tsc --project assets/js/tsconfig.json
	$(BIN)/python docs/make_contract.py --check
	$(BIN)/python docs/make_reference.py --check
	$(BIN)/python docs/make_results.py --check
	$(SITE) --builder dummy

docs: .venv/dev.done
	$(SITE)

site: .venv/app.done
	$(BIN)/python -m sarqc publish tiny-llama tiny-moe smollm2 --output build/site

bench: .venv/dev.done
	$(BIN)/python -m benchmarks.$(if $(MODEL),model_costs $(MODEL),bench)

loaders: .venv/dev.done
	$(BIN)/python -m conformance.loaders $(LOADERS)

real: .venv/dev.done
	$(BIN)/python -m conformance.real $(if $(ONLY),--only $(ONLY))

models: .venv/dev.done
	$(BIN)/python -m conformance.every_model $(if $(ONLY),--only $(ONLY))

image: .venv/dev.done
	$(BIN)/python -m conformance.image_steps

space:
	python3 deploy/make_space.py build/space

torture: .venv/dev.done
	$(BIN)/python -m conformance.torture $(TORTURE)

test-engines: .venv/dev.done
	$(BIN)/python -m conformance.engines --folder build/engines $(if $(ONLY),--only $(ONLY))

test-opened: .venv/dev.done
	$(BIN)/python -m conformance.opened --folder build/opened $(if $(ONLY),--only $(ONLY))

REPORTS := build/reports
test-reports: .venv/dev.done
	$(BIN)/python -m venv $(REPORTS)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $$(echo $(REPORTS)/lib/python*/site-packages)/shared.pth
	$(REPORTS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[mlflow]'
	$(REPORTS)/bin/python -m pytest tests/extras/mlflow

# Real models, 93 MB to fetch and 540 MB to keep: without them the app has its own, which are small.
pretrained: .venv/app.done
	@$(BIN)/python -m deploy.fetch_models || echo "No pretrained model could be fetched: the app goes without."

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/app.done: requirements-cpu.txt requirements-cuda.txt requirements.txt | .venv/bin/python
	$(INSTALL) -r requirements-cpu.txt || \
	{ echo "pip has no PyTorch built for a CPU: that of PyPI is taken, on Linux with what it needs for a GPU."; \
	  $(INSTALL) -r requirements-cuda.txt; }
	$(INSTALL) --no-build-isolation --use-pep517 -r requirements.txt
	touch $@

.venv/dev.done: requirements-dev.txt requirements-triton.txt .venv/app.done | .venv/bin/python
	$(INSTALL) -r requirements-dev.txt
	$(BIN)/python -c "import triton" 2>/dev/null || $(INSTALL) -r requirements-triton.txt
	$(BIN)/python -m pip check --disable-pip-version-check
	touch $@

# uv and pip-audit, which nothing else here needs.
build/tools/done: requirements-tools.txt
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-tools.txt
	touch $@

requirements: build/tools/done
	PATH="$(CURDIR)/build/tools/bin:$$PATH" build/tools/bin/python deploy/make_requirements.py $(ONLY)

audit: build/tools/done
	build/tools/bin/python deploy/audit.py

node_modules/.package-lock.json: package.json package-lock.json .venv/dev.done
	PATH="$(CURDIR)/$(BIN):$$PATH" npm install --no-save --silent --no-audit --no-fund
	touch $@

# The browser tests drive a real Chromium; without one they are skipped and say so.
chromium: .venv/dev.done
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null \
	|| if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	   then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell fonts-dejavu-core >/dev/null; \
	   else $(BIN)/playwright install chromium; fi \
	|| echo "Chromium could not be installed: the browser tests will be skipped."

# Published sites are opened in Firefox and WebKit too (tests/browser/test_other_browsers.py), 110 MB to fetch and 510 MB to keep;
# tests of a browser that is not there are skipped and say so.
browsers:
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends firefox-esr webkit2gtk-driver xvfb
