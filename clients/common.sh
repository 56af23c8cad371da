# shellcheck shell=bash disable=SC2154
# What every clients/<language>/run shares; it is sourced, not run. The script that sources it sets `client` and
# `modules` (the folder that holds what was installed), defines `prepare`, `install`, `experiment`, `smoke`, `auth` and `app`,
# and ends with `main "$@"`.
#
# Exit codes: 0 as it should be, 1 a difference, 2 wrong arguments, 77 skipped (something is missing on this machine).

set -euo pipefail

# The folder of the script that sourced this file.
here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)

usage() {
    cat >&2 <<EOF
usage: clients/$client/run URI [MODE]
       clients/$client/run --install

Modes:
  experiment   arm the fail point, write with retries, count the copies (the default)
  smoke        what a user of this client does in the first five minutes, with the results checked
  auth         log in with each mechanism on an encrypted connection, to: backfire serve --auth --tls-cert FILE --tls-key FILE;
               BACKFIRE_PASSWORD is the password of root, BACKFIRE_CA the file with the authority
  app          the write with its retries alone, for: backfire rehearse --app 'clients/$client/run "\$BACKFIRE_URI" app'

BACKFIRE_SCALE multiplies the times of the experiment: 0.1 (the default) is a socket timeout of 500 ms.
EOF
    exit 2
}

say() {
    echo "$client: $*" >&2
}

skip() {
    echo "SKIPPED: $client: $*" >&2
    exit 77
}

# no_socket_timeout: for a driver that has none, in the place of what needs one.
no_socket_timeout() {
    skip "this driver has no socket timeout, so there is a smoke suite only"
}

# need COMMAND: skips where there is no such command.
need() {
    command -v "$1" >/dev/null || skip "no '$1' on this machine"
}

# need_node VERSION: skips where Node.js is missing or older.
need_node() {
    need npm
    need node
    local version
    version=$(node -p 'process.versions.node')
    [ "$(printf '%s\n' "$1" "$version" | sort -V | head -n 1)" = "$1" ] || skip "needs Node.js $1 or newer, this is $version"
}

# scaled MS: that time at this run's scale, in whole milliseconds.
scaled() {
    LC_ALL=C awk -v ms="$1" -v scale="${BACKFIRE_SCALE:-0.1}" 'BEGIN {
        if (scale !~ /^[0-9]+([.][0-9]+)?$/ || scale + 0 <= 0) exit 1
        printf "%d", (ms * scale < 1) ? 1 : ms * scale + 0.5
    }' || { say "BACKFIRE_SCALE='${BACKFIRE_SCALE:-}' is not a number above 0, such as 0.1"; exit 2; }
}

# with_options URI OPTIONS: the connection string with more options.
with_options() {
    case $1 in
    *\?*) echo "$1&$2" ;;
    *://*/*) echo "$1?$2" ;;
    *) echo "$1/?$2" ;;
    esac
}

# ensure_installed FILE...: installs the client's dependencies, where that was not done with these files before.
ensure_installed() {
    local wanted stamp=$modules/.installed-from try
    wanted=$(cd "$here" && cat "$@" | cksum)
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    mkdir -p "$here/target"
    # A registry is a network away: a second try often helps.
    for try in 1 2 3; do
        say "installing the client, try $try (log: $here/target/install.log)"
        if (cd "$here" && install) >"$here/target/install.log" 2>&1; then
            echo "$wanted" >"$stamp"
            return 0
        fi
    done
    tail -n 20 "$here/target/install.log" >&2
    skip "the client could not be installed"
}

main() {
    [ $# -ge 1 ] && [ $# -le 2 ] || usage
    case $1 in
    --install)
        [ $# -eq 1 ] || usage
        prepare
        return
        ;;
    mongodb://* | mongodb+srv://*) ;;
    *) usage ;;
    esac
    case ${2:-experiment} in
    experiment)
        local socket_timeout_ms block_time_ms
        socket_timeout_ms=$(scaled 5000)
        block_time_ms=$(scaled 60000)
        prepare
        experiment "$1" "$(with_options "$1" "socketTimeoutMS=$socket_timeout_ms&retryWrites=true&appName=retry-lab")" \
            "$block_time_ms"
        ;;
    smoke | auth | app)
        prepare
        "$2" "$1"
        ;;
    *) usage ;;
    esac
}
