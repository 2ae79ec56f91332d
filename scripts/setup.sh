#!/usr/bin/env bash
# Makes sure that what a target needs is there, and installs what it can. Says nothing when nothing is missing.
# usage: scripts/setup.sh build|test|lint
set -euo pipefail

NEXTEST_VERSION=0.9.143

have() { command -v "$1" >/dev/null 2>&1; }
die() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

have cargo || die 'Rust is not installed, and deerflow is built with it (1.95 or newer).' \
  "install it: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"

# Some dependencies contain C: SQLite, and the cryptography of TLS.
if ! have cc; then
  if [ "$(id -u)" = 0 ] && have apt-get; then
    echo 'setup: no C compiler found; installing gcc with apt-get' >&2
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >&2 ||
      die 'apt-get could not install gcc; install a C compiler and try again'
  else
    die 'no C compiler (cc) found, and SQLite and TLS contain C.' \
      'install one: sudo apt-get install gcc libc6-dev   (Debian, Ubuntu; elsewhere the package is called gcc or clang)'
  fi
fi

component() { # subcommand, rustup's name; asked to run, since rustup leaves proxies for what it has not installed
  cargo "$1" --version >/dev/null 2>&1 && return
  have rustup || die "cargo $1 does not run; it comes with Rust as the component $2"
  echo "setup: adding the Rust component $2" >&2
  rustup component add "$2" >&2
}

case "${1:-build}" in
  build) ;;
  test)
    if ! have cargo-nextest; then
      echo "setup: installing cargo-nextest $NEXTEST_VERSION, the test runner (once, some minutes)" >&2
      # With a target directory of its own: its build has nothing in common with ours.
      env -u CARGO_TARGET_DIR cargo install --quiet --locked "cargo-nextest@$NEXTEST_VERSION" >&2
      have cargo-nextest || die "cargo-nextest is installed but not found; add ${CARGO_HOME:-$HOME/.cargo}/bin to PATH"
    fi
    ;;
  lint)
    component fmt rustfmt
    component clippy clippy
    ;;
  *) die "unknown argument $1 (build, test or lint)" ;;
esac
