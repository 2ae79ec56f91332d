#!/usr/bin/env bash
# Runs the official clients (Python and JavaScript SDK, React in a browser) against the real server and a scripted model.
# Installs what they need beside the build: nothing of it goes into the system but packages that Debian has.
# usage: scripts/clients.sh python|js|browser [ARGUMENT…]
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  printf 'clients: %s\n' "$@" >&2
  exit 1
}
packages() { # what for, Debian packages…
  local what=$1
  shift
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || die "$what is missing; install: $*"
  echo "clients: installing $* with apt-get" >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 || die "apt-get could not install $*"
}
binary() { # package, binary; prints where it is
  local messages path
  messages=$(cargo build --quiet -p "$1" --bin "$2" --message-format json-render-diagnostics </dev/null)
  path=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$messages" | tail -n 1)
  [ -x "$path" ] || die "cargo built no $2"
  printf '%s\n' "$path"
}

kind=${1:-}
shift || true
DEERFLOW=$(binary deerflow-cli deerflow)
SCRIPTED_MODEL=$(binary deerflow-testkit scripted-model)
export DEERFLOW SCRIPTED_MODEL
place="${CARGO_TARGET_DIR:-$PWD/target}/clients"
mkdir -p "$place"

case "$kind" in
  python)
    venv="$place/venv"
    stamp="$venv/requirements.txt"
    if ! cmp -s tests/clients/python/requirements.txt "$stamp"; then
      python3 -c 'import venv, ensurepip' 2>/dev/null || packages 'Python with venv' python3 python3-venv
      python3 -m venv --clear "$venv"
      "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/clients/python/requirements.txt
      cp tests/clients/python/requirements.txt "$stamp"
    fi
    cd tests/clients/python
    PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" -m pytest "$@"
    ;;
  js | browser)
    command -v npm >/dev/null 2>&1 || packages 'Node.js with npm' nodejs npm
    modules="$place/js"
    mkdir -p "$modules"
    cp -r tests/clients/js/. "$modules/"
    cd "$modules"
    if ! cmp -s package-lock.json node_modules/.installed; then
      npm ci --silent --no-audit --no-fund
      cp package-lock.json node_modules/.installed
    fi
    if [ "$kind" = browser ]; then
      command -v chromium >/dev/null 2>&1 || packages 'Chromium' chromium
      exec node --test --test-reporter=spec browser/ "$@"
    fi
    exec node --test --test-reporter=spec node/ "$@"
    ;;
  *) die 'say what: python, js or browser' ;;
esac
