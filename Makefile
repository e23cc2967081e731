# The door to this tree: `make` alone lists what one can do here.
#
# Every target first sees to it that its tools are there (scripts/setup.sh installs them or says in
# one line what to install) and prints the summary lines of the programs it runs unchanged.

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release

# Numbers to override: `make demo RANKS=8`, `make soak DURATION=60` (seconds).
RANKS := 4
DURATION := 3600
COUNT := 2000

# Of `make mutants`: one mutant in SHARE, chosen by SEED, of CRATES (all that are looked after).
SHARE := 10
SEED := 1
CRATES :=

# Version of the licence and source checker; one on PATH is taken as it is.
DENY_VERSION := 0.20.2
DENY := $(or $(shell command -v cargo-deny 2>/dev/null),$(TARGET)/tools/bin/cargo-deny)

# The same of the program that lists mutants.
MUTANTS_VERSION := 27.1.0
MUTANTS := $(or $(shell command -v cargo-mutants 2>/dev/null),$(TARGET)/tools/bin/cargo-mutants)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all unit built longest first second documented loom python programs \
	mpich-suite soak mutants bench lint fmt tidy clippy doc deny advisories clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The heat equation three times: in Rust with pictures, then the same program of MPI in C and, by
# mpi4py from PyPI, in Python. Each checks its answer against that of one rank.
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

# Everything that a change can break: what is random or exhaustive is short here. All is built first.
# Then tests run side by side, as most of them wait: for a message, for a death, for their turn in
# virtual time. The longest program begins at once, and two targets share the others. What a target
# says comes when it ends.
BESIDE = export SHARED_TESTS=$$(mktemp -d); \
	$(MAKE) --no-print-directory --jobs=$(1) --keep-going --output-sync=target $(2); \
	code=$$?; rm -r "$$SHARED_TESTS"; exit $$code
test: built ## run every test in short: unit, conformance, kill, soak, tidy, Python (10 minutes)
	+@$(call BESIDE,3,longest python first second documented)

# Random programs of the long test: half for real, half in virtual time on every machine.
PROGRAMS := 1000

# All of `make test` and more of it, by the same programs: nothing is built twice. At length they keep
# both processors busy, so that fewer run side by side. Only loom's models need a build of their own.
test-all: loom built ## run every test at length: also loom, explorer, torture, programs, mpi4py, providers
	@scripts/setup.sh libfabric || echo "without libfabric its tests are skipped, and say so"
	+@export HIKYAKU_LONG=1 HIKYAKU_PROGRAMS=$(PROGRAMS); \
	$(call BESIDE,2,LIMIT=2400 longest python first second documented)

# A program of tests that hangs is ended and has failed; the others still say what they find.
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

# No test is to find in its environment how this make was called.
ALONE := env -u MAKEFLAGS -u MFLAGS
longest:
	$(ALONE) cargo $(LIMITED) test --locked --workspace --no-fail-fast --test processes

first second:
	$(ALONE) cargo $(LIMITED) test --locked --workspace --no-fail-fast --tests

documented:
	$(ALONE) cargo test --locked --workspace --no-fail-fast --doc

# Another cfg for every crate: a target folder of its own keeps the others' builds. Models are
# explored optimised, which is the difference between seconds and minutes.
loom: ## check the loom models of the rings and queues
	@scripts/setup.sh rust cc
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom \
		cargo $(LIMITED) test --locked --release -p hikyaku-nic --test all loom

# The package is installed into an environment of its own, from PyPI but for what is built here.
python: ## build the Python package and run its tests
	@scripts/setup.sh rust cc python3
	$(ALONE) scripts/python.sh $(TARGET)/python
	$(ALONE) timeout --foreground $(if $(HIKYAKU_LONG),3600,$(LIMIT)) \
		$(TARGET)/python/bin/python -m pytest

# Its source is not ours: `apt-get source mpich` brings that of Debian. Both binary interfaces, six
# minutes each once its tests are compiled.
mpich-suite: ## run MPICH's own tests, from SOURCE=/path/to/mpich-4.0.2, by both binary interfaces
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

mutants: $(MUTANTS) ## change the code in one place at a time and see whether tests notice (an hour)
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

# Needs a database from the network, which continuous integration may not have.
advisories: $(DENY) ## check the dependencies against the advisory database
	$(DENY) check advisories

# A minute on two cores, once: unoptimised, as its checks take a second.
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
