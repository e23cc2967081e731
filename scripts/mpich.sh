#!/bin/sh
# Installs MPICH from PyPI into a folder, for tests that compare with it: `scripts/mpich.sh target/mpich`.
set -eu

folder=${1:?usage: scripts/mpich.sh FOLDER}
python3 -m venv "$folder" && "$folder/bin/pip" install --quiet "mpich>=5,<6" || {
    echo "mpich: pip could not get mpich; is there a network, or a mirror set?" >&2
    exit 1
}
