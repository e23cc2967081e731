#!/bin/sh
# Makes a Python environment in a folder and installs the package hikyaku into it, like
# `pip install .` but unoptimised: `scripts/python.sh target/python`.
#
# Tools are installed from PyPI the first time. The package is built each time; cargo builds only
# what has changed.
set -eu

cd "$(dirname "$0")/.."
environment=${1:?usage: scripts/python.sh FOLDER}

fail() {
    echo "python: $1" >&2
    exit 1
}

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
python3 -c "$new_enough" || fail "$(python3 --version) is too old; install Python 3.11 or newer"

if ! [ -x "$environment/bin/pytest" ] || ! [ -x "$environment/bin/maturin" ]; then
    echo "python: making $environment" >&2
    python3 -m venv "$environment" ||
        fail "python3 -m venv failed; install it: apt-get install python3-venv"
    # The version whose suite the tests know, and for which exclusions.txt is made.
    "$environment/bin/pip" install --quiet "maturin>=1.9,<2" numpy pytest "mpi4py==4.1.2" ||
        fail "pip could not get maturin, numpy, pytest and mpi4py; is there a network, or a mirror set?"
fi

# With build isolation, pip would download maturin each time.
PATH="$environment/bin:$PATH" MATURIN_PEP517_ARGS="--profile dev" \
    "$environment/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall . ||
    fail "the package could not be built; the lines above say why"
