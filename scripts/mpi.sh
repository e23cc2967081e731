#!/bin/sh
# Builds the libraries by which programs written for MPI run on hikyaku, and gives them the names by
# which programs look for them: `scripts/mpi.sh [--release]`. The folder `mpi` lies beside the
# launcher of that build, which finds it there.
set -eu

cd "$(dirname "$0")/.."
profile=debug
[ "${1:-}" != --release ] || profile=release

cargo build --locked ${1:-} -p hikyaku-mpi-abi -p hikyaku-mpi-mpich
folder=${CARGO_TARGET_DIR:-target}/$profile/mpi
mkdir -p "$folder"
ln -sf ../libmpi_abi.so "$folder/libmpi_abi.so.1"
ln -sf ../libmpi.so "$folder/libmpi.so.12"
