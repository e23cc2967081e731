#!/bin/sh
# Runs a test program as cargo's `runner`: `scripts/share.sh SECONDS PROGRAM WORDS...`. A program
# that exceeds the time limit is killed and fails.
#
# Several cargo processes in parallel share the test programs through the folder $SHARED_TESTS: the
# first cargo to reach a program runs it, and the others skip it.
set -eu

limit=$1
shift
[ -z "${SHARED_TESTS:-}" ] || mkdir "$SHARED_TESTS/$(basename "$1")" 2>/dev/null || exit 0
code=0
timeout --foreground "$limit" "$@" || code=$?
[ "$code" -ne 124 ] || echo "ended after $limit s: $*" >&2
exit "$code"
