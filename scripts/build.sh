#!/usr/bin/env bash
# Builds the binary with the `quick` profile and prints its path. Says nothing when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

guess="${CARGO_TARGET_DIR:-target}/quick/deerflow"
quiet=()
if [ -x "$guess" ]; then
  # Cargo's own words would come with every run. So it is quiet, and a rebuild is only announced when there is one.
  quiet=(--quiet)
  # The sleeper outlives its parent by a moment, so it must not hold anybody's pipe open.
  (sleep 1 </dev/null >/dev/null 2>&1 && echo 'building deerflow: something has changed' >&2) >/dev/null &
  note=$!
  trap 'kill "$note" 2>/dev/null || true' EXIT
else
  echo 'building deerflow (the first time takes some minutes)' >&2
fi

# The message format tells where the binary is, whatever the target directory is and whoever configured it.
messages=$(cargo build --profile quick -p deerflow-cli --bin deerflow "${quiet[@]}" \
  --message-format json-render-diagnostics </dev/null)
binary=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$messages" | tail -n 1)
[ -x "$binary" ] || {
  echo 'build: cargo built no binary' >&2
  exit 1
}
printf '%s\n' "$binary"
