#!/usr/bin/env bash
# bare-root.sh FOLDER MIRROR RELEASE [--tests [ARGUMENTS...] | --systemd]: makes a bare root in FOLDER and tries the
# repository there.
# Only for try-release.sh, which runs it in namespaces of its own and removes the folder.
set -euo pipefail
here=$(readlink -f "${BASH_SOURCE[0]}")
repository=${here%/tests/*}
root=$1/root mirror=$2 release=$3
shift 3
packages=ca-certificates,curl place=/root/repository
if [[ ${1-} == --systemd ]]; then
    packages+=,cron,procps,systemd,systemd-sysv
    place=/opt/cards    # as the units expect
fi

say() { printf 'try-release: %s\n' "$*"; }

# What names the servers that packages come from, the certificates that they show, and the proxy to them.
settings() {
    compgen -e | grep -E '^(PIP_.*|npm_config_.*|NPM_CONFIG_.*|.*_proxy|.*_PROXY|.*_CA_BUNDLE|.*_CA_CERTS|SSL_CERT_.*)$'
}

copy() {
    local file
    for file in "$@"; do
        [[ ! -e $file ]] || { mkdir -p "$root${file%/*}" && cp -aL "$file" "$root$file"; }
    done
}

copy_settings() {
    local name
    copy /etc/hosts /etc/resolv.conf /etc/pip.conf /etc/xdg/pip /etc/npmrc /usr/etc/npmrc /etc/apt/auth.conf \
        /etc/apt/auth.conf.d /usr/local/share/ca-certificates
    for name in $(settings); do
        if [[ ${!name} == /* && -f ${!name} ]]; then copy "${!name}"; fi
    done
    for name in .npmrc .pip/pip.conf .config/pip/pip.conf; do
        [[ ! -e ~/$name ]] || { mkdir -p "$(dirname "$root/root/$name")" && cp -L ~/"$name" "$root/root/$name"; }
    done
    apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Retries|ForceIPv[46])\>' >"$root/etc/apt/apt.conf.d/00host" ||
        true   # not a Debian
}

# A certificate that this machine trusts is trusted there, whichever way it was added here.
trust_certificates() {
    chroot "$root" update-ca-certificates >/dev/null 2>&1
    copy /etc/ssl/certs/ca-certificates.crt
}

# A root of this namespace rather than chroot: tests enter namespaces of their own (nsenter), which would leave a chroot.
change_root() {
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sys "$root/sys"
    make_devices
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    cd "$root"
    pivot_root . .
    umount -l .
    cd /
}

# Devices of its own: systemd would change those of this machine.
make_devices() {
    local name
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    mkdir "$root/dev/pts" "$root/dev/shm"
    for name in null zero full random urandom tty; do
        touch "$root/dev/$name"
        mount --bind "/dev/$name" "$root/dev/$name"
    done
    mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    for name in stdin:0 stdout:1 stderr:2; do ln -s "fd/${name#*:}" "$root/dev/${name%:*}"; done
}

# Becomes systemd, which runs prove-units.sh and ends with its result. The network has only the loopback, so that the
# services can have their usual ports.
boot() {
    cat >/etc/systemd/system/prove-units.service <<UNIT
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
FailureActionExitStatus=1

[Service]
Type=oneshot
ExecStart=$place/tests/release/distributions/prove-units.sh
StandardOutput=append:/prove-units.log
StandardError=append:/prove-units.log
TimeoutStartSec=10min
UNIT
    # shellcheck disable=SC2016 # it is the inner shell that expands them
    exec unshare --net --cgroup bash -c 'mount -t cgroup2 cgroup2 /sys/fs/cgroup &&
        exec env -i container=try-release PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --unit=prove-units.service'
}

# Ports that the kernel chooses: the network is this machine's.
run() {
    local name passed=()
    for name in $(settings); do passed+=("$name=${!name}"); done
    env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        CARD_API_PORT=0 MARKET_API_PORT=0 MARKET_FRONTEND_PORT=0 "${passed[@]}" "$@"
}

[[ $$ == 1 ]] || { echo "bare-root.sh: run try-release.sh, which gives it namespaces of its own" >&2; exit 2; }
say "$release: making a bare root …"
debootstrap --variant=minbase --include="$packages" "$release" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" "$root/debootstrap/debootstrap.log" 2>/dev/null || true
    exit 1
}
mkdir -p "$root/root"
copy_settings
trust_certificates
git clone --quiet --no-hardlinks "$repository" "$root$place"
change_root
if [[ ${1-} == --systemd ]]; then
    say "$release: bin/start --setup …"
    run "$place/bin/start" --setup
    say "$release: booting …"
    boot
fi
say "$release: bin/start …"
run "$place/tests/release/distributions/prove-sync.sh"
if [[ ${1-} == --tests ]]; then
    say "$release: bin/test …"
    run "$place/bin/test" "${@:2}"
fi
