#!/usr/bin/env bash
# Runs bin/start, brings the program to the card's first step and ends all of it. Fails unless the API says that the
# program's state is proved, and unless nothing is left. Only for bare-root.sh: there no other process runs.
set -euo pipefail
here=$(readlink -f "${BASH_SOURCE[0]}")
output=$(mktemp)
PATIENCE=900    # seconds for the set-up with its downloads, and the start

fail() {
    cat "$output"
    printf 'prove-sync: %s\n' "$@" >&2
    exit 1
}

wait_until_ready() {
    until grep -q '^Ctrl-C here ends it' "$output"; do
        kill -0 "$start" 2>/dev/null || fail "bin/start ended before it was ready"
        ((SECONDS < PATIENCE)) || fail "bin/start was not ready after $PATIENCE s"
        sleep 0.2
    done
}

# post PATH JSON
post() { curl -sS --fail-with-body --max-time 60 --json "$2" "$address/api/$1"; }

prove() {
    local answer
    post navigation/move '{"level": "step", "delta": 1}' >/dev/null
    answer=$(post navigation/sync '{}') || fail "the sync was refused: $answer"
    python3 -c 'import json, sys; sys.exit(json.loads(sys.argv[1])["state"] != "ready")' "$answer" ||
        fail "the sync was not proved: $answer"
}

# The command lines of all processes but the first one and this.
others() {
    local place command
    for place in /proc/[0-9]*; do
        [[ ${place##*/} != 1 && ${place##*/} != "$$" ]] || continue
        { mapfile -d '' -t command <"$place/cmdline"; } 2>/dev/null || continue
        ((${#command[@]} == 0)) || echo "${command[*]}"
    done
}

"${here%/tests/*}/bin/start" >"$output" 2>&1 &
start=$!
wait_until_ready
address=$(sed -n 's/^Open the card in a browser: \(\S*\).*/\1/p' "$output")
prove
kill -TERM "$start"
wait "$start" || fail "bin/start ended with status $?"
others >"$output.left"
[[ ! -s $output.left ]] || fail "processes are left:" "$(<"$output.left")"
cat "$output"
echo "prove-sync: proved and ended within $SECONDS s"
