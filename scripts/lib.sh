# shellcheck shell=bash
# Shared by the scripts here; sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# A toolchain installed a minute ago may not be on the PATH of this shell yet.
if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
fi

# A part that this machine cannot run. .ci/run collects these lines for its end.
skip() {
    say "skipped $*"
    if [ -n "${RL_SKIPPED:-}" ]; then printf '%s\n' "$*" >>"$RL_SKIPPED"; fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

has_docker() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }

# at_least 7.0 7.0.15: whether the second version is the first or newer.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# The version that a server binary names itself: 7.0.15.
server_version() { "$1" --version 2>/dev/null | sed -n 's/.* v=\([0-9.]*\).*/\1/p'; }

# The name and version of a server: "Redis 8.2.3".
server_name() { "$1" --version | sed -n 's/^\([A-Za-z]*\) server v=\([0-9.]*\).*/\1 \2/p'; }

# The server that run and test use: RL_SERVER, or a redis-server on the PATH that is new enough
# (Ubuntu 22.04 and Debian 11 have 6.0), or the fetched Redis, or a valkey-server on the PATH.
default_server() {
    local candidate version
    if [ -n "${RL_SERVER:-}" ]; then
        echo "$RL_SERVER"
        return
    fi
    for candidate in redis-server .servers/redis-8.2/redis-server valkey-server; do
        version=$(server_version "$candidate" || true)
        if [ -n "$version" ] && at_least 7.0 "$version"; then
            case $candidate in */*) candidate=$PWD/$candidate ;; esac
            echo "$candidate"
            return
        fi
    done
    return 1
}
