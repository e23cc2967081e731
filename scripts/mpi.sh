#!/bin/sh
# Builds the libraries, headers and compiler wrappers for MPI programs:
# `scripts/mpi.sh [--release]`. They go to the folder `mpi` beside the launcher of that build, which
# looks for them there. The folder may be moved as a whole, or be installed as `lib/hikyaku` beside
# the launcher's folder.
#
#   libmpi_abi.so.1, libmpi.so.12    the libraries, under the names that programs look for
#   libmpich.so.12                   Debian's name for the second
#   libhikyaku_heap.so               what `hikyaku run --shared-heap` preloads
#   include/                         mpi.h, hikyaku.h
#   bin/                             mpicc, mpicxx, mpiexec, mpirun
#   pkgconfig/                       mpi.pc
set -eu

cd "$(dirname "$0")/.."
profile=debug
[ "${1:-}" != --release ] || profile=release

cargo build --quiet --locked ${1:-} \
    -p hikyaku-mpi-table -p hikyaku-mpi-abi -p hikyaku-mpi-mpich -p hikyaku-heap -p hikyaku-cli
built=${CARGO_TARGET_DIR:-target}/$profile
folder=$built/mpi
mkdir -p "$folder/include" "$folder/bin" "$folder/pkgconfig"

# Replaces a file instead of overwriting it, so that running programs keep the old one.
put() {
    cp "$1" "$2.$$"
    mv -f "$2.$$" "$2"
}

put "$built/libmpi_abi.so" "$folder/libmpi_abi.so.1"
put "$built/libmpi.so" "$folder/libmpi.so.12"
put "$built/libhikyaku_heap.so" "$folder/libhikyaku_heap.so"
ln -sf libmpi_abi.so.1 "$folder/libmpi_abi.so"
ln -sf libmpi.so.12 "$folder/libmpich.so.12"

"$built/hikyaku-mpi-table" >"$folder/include/mpi.h.$$"
mv -f "$folder/include/mpi.h.$$" "$folder/include/mpi.h"
put crates/c/include/hikyaku.h "$folder/include/hikyaku.h"

put scripts/mpicc "$folder/bin/mpicc"
for name in mpicxx mpic++; do ln -sf mpicc "$folder/bin/$name"; done
for name in mpiexec mpirun; do ln -sf ../../hikyaku "$folder/bin/$name"; done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
cat >"$folder/pkgconfig/mpi.pc" <<END
prefix=\${pcfiledir}/..
Name: hikyaku MPI
Description: MPI 5.0 on hikyaku, with the standard binary interface
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix} -Wl,-rpath,\${prefix} -lmpi_abi
END
