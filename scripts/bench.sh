#!/usr/bin/env bash
# What a release build weighs, and how long it takes to start. The machine should be otherwise idle.
set -euo pipefail
cd "$(dirname "$0")/.."
runs="${RUNS:-50}"

messages=$(cargo build --release -p deerflow-cli --bin deerflow --message-format json-render-diagnostics </dev/null)
binary=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$messages" | tail -n 1)
printf 'binary size       %s KiB\n' "$(($(stat -c %s "$binary") / 1024))"

times=()
for _ in $(seq "$runs"); do
  begin=$(date +%s%N)
  "$binary" --version >/dev/null
  times+=($(($(date +%s%N) - begin)))
done
sorted=($(printf '%s\n' "${times[@]}" | sort -n))
printf '%-17s p50 %s us, p95 %s us, %s runs\n' 'start to --version' \
  $((sorted[runs / 2] / 1000)) $((sorted[runs * 95 / 100] / 1000)) "$runs"
