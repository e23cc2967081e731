# Entry point. `make` without a target lists the targets.
#
# Every target first checks its tools: scripts/setup.sh installs a missing one, or prints one line
# on what to install. Targets print the summary lines of the programs that they run unchanged.

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release

# Numbers to override: `make demo RANKS=8`, `make soak DURATION=60` (seconds).
RANKS := 4
DURATION := 3600
COUNT := 2000

# `make mutants` tests one in SHARE of the mutants of CRATES (default: all eight), sampled by SEED.
SHARE := 10
SEED := 1
CRATES :=

# The licence and source checker: the one on PATH if there is one, else this version.
DENY_VERSION := 0.20.2
DENY := $(or $(shell command -v cargo-deny 2>/dev/null),$(TARGET)/tools/bin/cargo-deny)

# The program that lists mutants, likewise.
MUTANTS_VERSION := 27.1.0
MUTANTS := $(or $(shell command -v cargo-mutants 2>/dev/null),$(TARGET)/tools/bin/cargo-mutants)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all unit built longest first second documented loom python programs \
	mpich-suite soak mutants bench lint fmt tidy clippy doc deny advisories clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The heat equation three times: in Rust with pictures, in C with MPI, and in Python with mpi4py
# from PyPI. Each program compares its result with that of one rank.
DEMO := $(TARGET)/demo
demo: ## solve the heat equation on 4 ranks in Rust, C and Python, write out/heat.html
	@scripts/setup.sh rust cc python3
	cargo build --locked --release -p hikyaku-cli -p heat
	scripts/mpi.sh --release
	@mkdir -p out
	$(RELEASE)/hikyaku run -n $(RANKS) -- \
		$(RELEASE)/heat examples/heat/demo.toml --check --output out --report out/heat.html
	$(RELEASE)/mpi/bin/mpicc -O2 -o $(RELEASE)/heat-mpi examples/mpi/heat.c -lm
	$(RELEASE)/hikyaku run -n $(RANKS) -- $(RELEASE)/heat-mpi
	@test -x $(DEMO)/bin/pip || python3 -m venv $(DEMO)
	@$(DEMO)/bin/pip install --quiet --disable-pip-version-check mpi4py numpy
	$(RELEASE)/hikyaku run -n $(RANKS) -- $(DEMO)/bin/python examples/mpi/heat.py

# Everything that a change can break; random and exhaustive tests are short here. All tests are
# built first. Then they run in parallel, because most of them wait: for a message, for a death, or
# for their turn in virtual time. The longest program starts at once, and two targets share the
# others. Each target prints its output when it finishes.
BESIDE = export SHARED_TESTS=$$(mktemp -d); \
	$(MAKE) --no-print-directory --jobs=$(1) --keep-going --output-sync=target $(2); \
	code=$$?; rm -r "$$SHARED_TESTS"; exit $$code
test: built ## run every test in short: unit, conformance, kill, soak, tidy, Python (10 minutes)
	+@$(call BESIDE,3,longest python first second documented)

# Random programs in the long tests: half run for real, half in virtual time on every machine.
PROGRAMS := 400

# The tests of `make test`, at length. They are the same programs, so nothing is built twice; only
# the loom models need their own build. The long tests use both CPUs, so fewer run in parallel.
test-all: loom built ## run every test at length: also loom, explorer, torture, programs, mpi4py, providers
	@scripts/setup.sh libfabric || echo "without libfabric, its tests print a line and are skipped"
	+@export HIKYAKU_LONG=1 HIKYAKU_PROGRAMS=$(PROGRAMS); \
	$(call BESIDE,2,LIMIT=2400 longest python first second documented)

# A test program that takes longer than LIMIT seconds is killed and fails; the others still run.
LIMIT := 1200
LIMITED = --config "target.'cfg(unix)'.runner=['$(CURDIR)/scripts/share.sh', '$(LIMIT)']"

programs: ## run COUNT fresh random programs, and jobs with faults (default: 2,000)
	@scripts/setup.sh rust cc
	HIKYAKU_PROGRAMS=$(COUNT) HIKYAKU_PROGRAMS_SEED=$$(od -An -N6 -tu8 /dev/urandom | tr -d ' ') \
		cargo test --locked -p hikyaku-jobs --no-fail-fast --test programs --test faults

unit: built
	+@$(call BESIDE,3,longest first second documented)

built:
	@scripts/setup.sh rust cc c++ python3 cmake pkg-config
	cargo test --locked --workspace --no-run

# Hides make's variables from the tests.
ALONE := env -u MAKEFLAGS -u MFLAGS
longest:
	$(ALONE) cargo $(LIMITED) test --locked --workspace --no-fail-fast --test processes

first second:
	$(ALONE) cargo $(LIMITED) test --locked --workspace --no-fail-fast --tests

documented:
	$(ALONE) cargo test --locked --workspace --no-fail-fast --doc

# `--cfg loom` applies to every crate, so a separate target folder keeps the other builds. Optimised
# models are explored in seconds, unoptimised ones in minutes.
loom: ## check the loom models of the rings and queues
	@scripts/setup.sh rust cc
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom \
		cargo $(LIMITED) test --locked --release -p hikyaku-nic --test all loom

# The package is built and installed into its own environment. Its dependencies come from PyPI.
python: ## build the Python package and run its tests
	@scripts/setup.sh rust cc python3
	$(ALONE) scripts/python.sh $(TARGET)/python
	$(ALONE) timeout --foreground $(if $(HIKYAKU_LONG),3600,$(LIMIT)) \
		$(TARGET)/python/bin/python -m pytest --durations=25 --durations-min=10

# MPICH's source is not in this repository. On Debian, get it with `apt-get source mpich`. The suite
# runs with both binary interfaces, six minutes each once its tests are compiled.
mpich-suite: ## run MPICH's own tests, from SOURCE=/path/to/mpich-4.0.2, with both binary interfaces
	@scripts/setup.sh rust cc python3
	@test -n "$(SOURCE)" || { echo "mpich-suite: say where MPICH's source is: SOURCE=/path/to/mpich-4.0.2"; exit 2; }
	scripts/mpi.sh --release
	@test -d $(TARGET)/mpich/include || scripts/mpich.sh $(TARGET)/mpich
	python3 tests/mpich/suite.py $(SOURCE) --interface abi
	python3 tests/mpich/suite.py $(SOURCE) --interface mpich

soak: ## run the soak test for DURATION seconds (default: an hour)
	@scripts/setup.sh rust cc
	HIKYAKU_SOAK_SECONDS=$(DURATION) \
		cargo test --locked --release -p hikyaku-jobs --test soak -- --nocapture

mutants: $(MUTANTS) ## change the code in one place at a time and check whether a test fails (an hour)
	PATH="$(abspath $(TARGET)/tools/bin):$$PATH" \
		cargo xtask mutants --share $(SHARE) --seed $(SEED) $(CRATES)

bench: ## measure everything beside the bare hardware, write out/bench.html; the simulator's speed
	@scripts/setup.sh rust cc
	cargo build --locked --release -p hikyaku-cli
	@mkdir -p out
	$(RELEASE)/hikyaku bench all --report out/bench.html
	cargo bench --locked -p hikyaku-sim --bench speed
	cargo bench --locked -p hikyaku-launch --bench processes

lint: fmt tidy clippy doc deny ## check format, tidiness, lints, documentation, licences

fmt:
	@scripts/setup.sh rust rustfmt
	cargo fmt --all --check

tidy: ## check the tree: layers, sizes, purity, unsafe code, links
	@scripts/setup.sh rust cc
	cargo xtask tidy

clippy:
	@scripts/setup.sh rust cc clippy
	cargo clippy --locked --workspace --all-targets -- -D warnings

doc:
	@scripts/setup.sh rust cc
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items

deny: $(DENY)
	$(DENY) check bans licenses sources

# Downloads a database, so it is not in `lint`: continuous integration may lack a network.
advisories: $(DENY) ## check the dependencies against the advisory database
	$(DENY) check advisories

# Built once, in a minute on two cores. Unoptimised, because its checks take only a second.
$(TARGET)/tools/bin/cargo-deny:
	@scripts/setup.sh rust cc
	CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --root $(TARGET)/tools \
		cargo-deny@$(DENY_VERSION)

$(TARGET)/tools/bin/cargo-mutants:
	@scripts/setup.sh rust cc
	cargo install --quiet --locked --root $(TARGET)/tools cargo-mutants@$(MUTANTS_VERSION)

clean: ## delete everything that was built or written by a run
	cargo clean
	rm -rf out
