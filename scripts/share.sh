#!/bin/sh
# Runs a program of tests for cargo, whose `runner` it is: `scripts/share.sh SECONDS PROGRAM WORDS...`.
# What takes longer is ended and has failed.
#
# Several cargos side by side share the programs by a folder, $SHARED_TESTS: each program runs in the
# cargo that comes to it first, and in none of the others.
set -eu

limit=$1
shift
[ -z "${SHARED_TESTS:-}" ] || mkdir "$SHARED_TESTS/$(basename "$1")" 2>/dev/null || exit 0
code=0
timeout --foreground "$limit" "$@" || code=$?
[ "$code" -ne 124 ] || echo "ended after $limit s: $*" >&2
exit "$code"
