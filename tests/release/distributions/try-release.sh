#!/usr/bin/env bash
# Tries the repository on a fresh Debian. See tests/release/distributions/try-release.sh --help
set -euo pipefail
here=$(readlink -f "${BASH_SOURCE[0]}")

usage() {
    cat <<'TEXT'
Usage: tests/release/distributions/try-release.sh RELEASE [--tests [ARGUMENTS OF bin/test...] | --systemd]

Makes a bare root of a Debian release (bookworm, trixie, …) with debootstrap, clones the last commit of this repository
into it and runs bin/start there until the program's state at the card's first step is proved; then ends it. Nothing else
of this machine is in that root but its settings for apt, pip, npm and certificates. All of it is removed at the end.

  --tests    afterwards run bin/test in that root, too
  --systemd  instead boot that root with systemd, install the units as etc/systemd/README.md says, and start, kill and stop the
             services; it needs control groups of version 2, also beside those of version 1

It needs root, debootstrap, and a mirror of Debian. TMPDIR has to have 2 GB free, with --tests 5 GB.
DEBIAN_MIRROR names the mirror; the default is the one that this machine's apt uses.
Exit codes: 0 it works, 1 it failed, 2 wrong use, 3 something needed is missing (it is named).
TEXT
}

give_up() {
    printf 'try-release: %s\n' "${@:2}" >&2
    exit "$1"
}

check_machine() {
    local program
    ((EUID == 0)) || give_up 3 "only root can make a bare root of Debian; run it as root"
    for program in debootstrap unshare setpriv wget git; do
        command -v "$program" >/dev/null || give_up 3 "$program is not on PATH; install it (Debian: apt-get install $program)"
    done
    unshare "${namespaces[@]}" true 2>/dev/null ||
        give_up 3 "this machine allows no namespaces of its own (unshare ${namespaces[*]}), as inside many containers"
}

find_mirror() {
    local found
    # shellcheck disable=SC2016 # apt-get replaces it
    found=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 2>/dev/null) || found=''
    found=${found%%$'\n'*}
    [[ $found ]] || give_up 3 "apt knows no mirror of Debian here; name one in DEBIAN_MIRROR"
    printf '%s\n' "$found"
}

check_mirror() {
    local status=0
    wget --quiet --spider --timeout=15 --tries=2 "${mirror%/}/dists/$release/Release" || status=$?
    # 8: the server answered with an error.
    ((status != 8)) || give_up 3 "the mirror $mirror has no release named $release"
    ((status == 0)) || give_up 3 "the mirror $mirror does not answer; check the network, or name another in DEBIAN_MIRROR"
}

# Makes a control group for systemd, in $group.
make_control_group() {
    local base
    for base in /sys/fs/cgroup /sys/fs/cgroup/unified; do
        [[ $(stat --file-system --format %T "$base" 2>/dev/null) == cgroup2fs ]] || continue
        if mkdir "$base/${folder##*/}" 2>/dev/null; then
            group=$base/${folder##*/}
            return
        fi
    done
    give_up 3 "this machine has no control groups of version 2 that can be changed; systemd needs one"
}

# shellcheck disable=SC2317 # run by the trap
clean_up() {
    local status=$?
    trap '' INT TERM HUP
    [[ -z ${inside-} ]] || kill -KILL "$inside" 2>/dev/null || true
    wait
    [[ -z $group ]] || find "$group" -depth -type d -exec rmdir {} + || true
    rm -rf --one-file-system "$folder"
    exit "$status"
}

release=${1-}
case $release in
--help | -h) usage; exit ;;
'' | *[!a-z]*) give_up 2 "name a Debian release, for example: tests/release/distributions/try-release.sh trixie" ;;
esac
case $#:${2-} in
1: | *:--tests | 2:--systemd) ;;
*) give_up 2 "unknown arguments: ${*:2}; it takes only --tests or --systemd after the release" ;;
esac

# Mounts and processes are in namespaces that end with their first process, even when that is killed. With the memory
# that PostgreSQL shares they do not meet those of this machine.
namespaces=(--mount-proc --mount --pid --ipc --fork --kill-child)
mirror=${DEBIAN_MIRROR:-$(find_mirror)}
check_machine
check_mirror
folder=$(mktemp -d --tmpdir "$release-XXXXXX")
group=''
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[[ ${2-} != --systemd ]] || make_control_group
(
    [[ -z $group ]] || echo "$BASHPID" >"$group/cgroup.procs"
    exec setpriv --pdeathsig KILL unshare "${namespaces[@]}" "${here%/*}/bare-root.sh" "$folder" "$mirror" "$@"
) </dev/null &
inside=$!
status=0
wait "$inside" || status=$?
cat "$folder/root/prove-units.log" 2>/dev/null || true
((status == 0)) || give_up 1 "the repository does not work in a fresh $release, or the root could not be made; see above"
inside=''
echo "try-release: $release: works"
