#!/usr/bin/env bash
# Every relative link in the project's Markdown has to lead somewhere. Test data is not documentation.
set -euo pipefail
cd "$(dirname "$0")/.."

files=$(git ls-files -co --exclude-standard -- '*.md' ':!:*/tests/*' ':!:*/fixtures/*' ':!:samples/*')
checked=0
broken=0
while IFS= read -r file; do
  [ -f "$file" ] || continue
  # Code blocks and code spans are not links.
  while IFS= read -r target; do
    target=${target%% \"*}
    target=${target%%#*}
    case "$target" in '' | *://* | mailto:*) continue ;; esac
    checked=$((checked + 1))
    case "$target" in
      /*) path=".$target" ;;
      *) path="$(dirname "$file")/$target" ;;
    esac
    if [ ! -e "$path" ]; then
      echo "$file: broken link: $target" >&2
      broken=$((broken + 1))
    fi
  done < <(awk '/^ *```/{code=!code; next} !code' "$file" | sed 's/`[^`]*`//g' | grep -oE '\]\([^)]+\)' | sed 's/^](//; s/)$//' || true)
done <<<"$files"
echo "links: $checked checked, $broken broken"
[ "$broken" = 0 ]
