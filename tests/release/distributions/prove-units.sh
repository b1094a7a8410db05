#!/usr/bin/env bash
# prove-units.sh: installs the units of etc/systemd as etc/systemd/README.md says, and starts, kills and stops the services.
# Only for bare-root.sh, which boots a root with systemd for it; there this is the only service at first.
set -euo pipefail
cd "$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../..")"
state=/var/lib/marketdata
services=(marketdata-frontend marketdata-api marketdata-api@2 marketdata-db card-session cardapp)

say() { printf 'prove-units: %s\n' "$*"; }

fail() {
    say "$*"
    systemctl --no-pager --failed
    journalctl --no-pager --lines 80
    exit 1
}
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

# The commands of a section of etc/systemd/README.md.
commands_of() {
    awk -v title="## $1" '/^## / { found = $0 == title } found && /^    / { print substr($0, 5) }' etc/systemd/README.md
}

# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
    local until=$((SECONDS + $1))
    until "${@:2}" >/dev/null 2>&1; do
        ((SECONDS < until)) || fail "not within $1 s: ${*:2}"
        sleep 0.2
    done
}

answers() { curl --fail --silent --show-error --max-time 10 "$@"; }

# serves PORT TABLE: whether the API there is ready with this version.
serves() { [[ $(answers "http://127.0.0.1:$1/ready") == *"\"ticks_table\":\"$2\""* ]]; }

# owns_database: whether the main process of the unit marketdata-db is the one that keeps PostgreSQL running.
owns_database() {
    grep -q "\"pid\": $(systemctl show --value --property MainPID marketdata-db)," "$state/owner.lock" &&
        systemctl --quiet is-active marketdata-db
}

as_marketdata() { runuser -u marketdata -- env MARKET_STATE_DIR="$state" MARKET_ENV_FILE=/etc/marketdata.env "$@"; }

say "the commands of etc/systemd/README.md …"
bash -euo pipefail -c "$(commands_of 'Installing')"
within 60 serves 8787 md_ticks_v1
within 60 answers http://127.0.0.1:8081/healthz
within 60 answers http://127.0.0.1:8080/api/identity
within 60 systemctl --quiet is-active card-session

say "the debugger …"
card=http://127.0.0.1:8080/api
answers --json '{"level": "step", "delta": 1}' $card/navigation/move >/dev/null
within 60 answers $card/session
[[ $(answers --json '{}' $card/navigation/sync) == *'"state":"ready"'* ]]

say "a service that is killed …"
for service in marketdata-api marketdata-frontend cardapp card-session marketdata-db; do
    systemctl kill --signal KILL --kill-whom=main "$service"
    within 30 systemctl --quiet is-active "$service"
done
within 60 owns_database
within 60 serves 8787 md_ticks_v1
systemctl restart marketdata-db
owns_database
within 60 serves 8787 md_ticks_v1

say "another version …"
as_marketdata bin/marketdata-version 2
systemctl enable --quiet --now marketdata-api@2
within 60 serves 8788 md_ticks_v2
auth=$(sed 's/.*"token": "\([^"]*\)".*/Authorization: Bearer \1/' $state/secrets/alg.json)
tick='{"symbol": "DEMO:ETH-USD", "id": "a", "ts": "2026-01-31T12:00:00Z", "price": "2500.25", "size": "0.5"}'
answers -H "$auth" --json "$tick" http://127.0.0.1:8787/v1/ingest/tick >/dev/null
as_marketdata bin/marketdata-copy 1 2
as_marketdata bin/marketdata-cutover 2
within 30 serves 8787 md_ticks_v2

say "the nightly backup …"
line=$(grep marketdata-backup /etc/cron.d/marketdata)
line=${line#* marketdata }
as_marketdata sh -c "${line//\\%/%}"
grep -q database.dump /var/backups/marketdata/*/manifest.json

say "the end …"
for service in "${services[@]}"; do
    began=$SECONDS
    systemctl stop "$service"
    ((SECONDS - began <= 15)) || fail "$service took $((SECONDS - began)) s to stop"
    [[ $(systemctl show --value --property Result "$service") == success ]] || fail "$service ended badly"
done
! pgrep --uid marketdata,cardapp --list-full || fail "processes are left"
tail -n 1 $state/database.log | grep -q 'database system is shut down'
say "the units work"
