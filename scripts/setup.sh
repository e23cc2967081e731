#!/bin/sh
# Checks that tools are installed: `scripts/setup.sh rust cc c++ python3 cmake`.
#
# It installs a missing component of a rustup toolchain and, as root, a missing Debian package. For
# any other missing tool it prints one line on what to install. It never replaces an installed tool.
# Without arguments it checks all tools.
set -eu

cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- rust cc c++ python3 cmake pkg-config libfabric rustfmt clippy

fail() {
    echo "setup: $1" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# debian COMMAND PACKAGES: installs the Debian packages if the command is missing.
debian() {
    wanted=$1
    packages=$2
    if has "$wanted"; then
        return
    fi
    if [ "$(id -u)" != 0 ] || ! has apt-get; then
        fail "$wanted is missing; install it: apt-get install $packages"
    fi
    echo "setup: installing $packages" >&2
    # shellcheck disable=SC2086 # one word per package
    {
        apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages
    } >/dev/null || fail "apt-get install $packages failed; install $wanted by hand"
}

# component COMMAND: adds the component of the toolchain that provides `cargo COMMAND`.
component() {
    if cargo "$1" --version >/dev/null 2>&1; then
        return
    fi
    has rustup || fail "cargo $1 is missing; install it beside your Rust, or use https://rustup.rs"
    rustup component add "$2" || fail "rustup component add $2 failed; run it by hand"
}

rust() {
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    if ! has rustc || ! has cargo; then
        fail "Rust is missing; install $wanted or newer from https://rustup.rs"
    fi
    present=$(rustc --version | cut -d ' ' -f 2)
    oldest=$(printf '%s\n%s\n' "$wanted" "$present" | sort -V | head -n 1)
    [ "$oldest" = "$wanted" ] || fail "rustc $present is older than $wanted; run: rustup update stable"
}

for tool in "$@"; do
    case $tool in
    rust) rust ;;
    cc) debian cc "gcc libc6-dev" ;;
    c++) debian g++ g++ ;;
    python3) debian python3 python3 ;;
    cmake) debian cmake cmake ;;
    pkg-config) debian pkg-config pkg-config ;;
    # The library, its headers (a test compares our structures with them), and fi_info, whose
    # presence shows that it is installed.
    libfabric) debian fi_info "libfabric-dev libfabric-bin" ;;
    rustfmt) component fmt rustfmt ;;
    clippy) component clippy clippy ;;
    *) fail "unknown tool $tool; known: rust cc c++ python3 cmake pkg-config libfabric rustfmt clippy" ;;
    esac
done
