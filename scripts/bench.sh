#!/usr/bin/env bash
# Builds with optimisation and measures. The machine should be otherwise idle; docs/benchmark.md says how to read it.
# usage: scripts/bench.sh [--binary PATH] [--only NAMES] [--quick] [--json FILE] [--dir DIR]
# With --binary, that binary is measured, and the benchmark itself is built without optimisation: quick, for trying out.
set -euo pipefail
cd "$(dirname "$0")/.."

build() { # package, binary, profile; prints where it is
  # The message format tells, whatever the target directory is and whoever configured it.
  local messages path
  messages=$(cargo build --profile "$3" -p "$1" --bin "$2" --message-format json-render-diagnostics </dev/null)
  path=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$messages" | tail -n 1)
  [ -x "$path" ] || {
    echo 'bench: cargo built no binary' >&2
    exit 1
  }
  printf '%s\n' "$path"
}

json="${CARGO_TARGET_DIR:-target}/bench.json"
for argument in "$@"; do
  case "$argument" in
    --binary | --binary=*)
      bench=$(build deerflow-bench bench dev)
      exec "$bench" --json "$json" "$@"
      ;;
  esac
done

# Each by itself: built together, the binary would get features of dependencies that only the benchmark asks for.
binary=$(build deerflow-cli deerflow release)
bench=$(build deerflow-bench bench release)
exec "$bench" --binary "$binary" --profile release --json "$json" "$@"
