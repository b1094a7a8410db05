# shellcheck shell=bash
# Sets the repository up for the launcher that sources this file. Sets ROOT and PYTHON, and defines
#
#   set_up LEVEL    LEVEL is "card" (to run) or "test" (card, and what the tests need). Makes the virtual
#                   environment, installs the pinned packages, and the system programs where it is allowed to.
#                   Does nothing in a few milliseconds when all is in place. Ends the launcher with exit code 3
#                   and one message when something is missing that it may not install.
#
# The stamp .venv/.setup names what the environment was made from. It is removed before any change and written
# last, so an environment without a stamp was interrupted half-way and is made anew.

ROOT=$(readlink -f "${BASH_SOURCE[0]%/*}/..")
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python
STAMP=$VENV/.setup

# The API must answer quickly: byte-code is written even where the shell around us switches it off.
unset PYTHONDONTWRITEBYTECODE

# Each program with the Debian package that brings it.
PROGRAMS=(nvim:neovim gdb:gdb tmux:tmux gcc:gcc make:make)

say() { printf '%s\n' "$*" >&2; }
give_up() { say "$@"; exit 3; }

# What the set-up depends on, as one line. A program that appears, vanishes or moves changes it too.
fingerprint() {
    local program places=$ROOT
    for program in "${PROGRAMS[@]}"; do
        places+=:$(command -v "${program%%:*}" || true)
    done
    { "$PYTHON" -V && printf '%s\n' "$places" &&
        cat "$ROOT/setup.cfg" "$ROOT/etc/constraints.txt" "$ROOT/etc/setup.sh"; } 2>&1 | sha256sum
}

# 0 when the stamp says that LEVEL is in place.
is_set_up() {
    local known_print='' known_level=''
    [[ -r $STAMP && -x $PYTHON ]] || return 1
    read -r known_print _ known_level <"$STAMP" || return 1
    [[ $known_level == test || $known_level == "$1" ]] && [[ "$known_print  -" == "$(fingerprint)" ]]
}

set_up() {
    is_set_up "$1" && return
    local lock
    # The directory itself is the lock: two launchers started at once do the work one after the other.
    exec {lock}<"$ROOT"
    flock "$lock"
    is_set_up "$1" || do_set_up "$1"
    exec {lock}<&-
}

do_set_up() {
    local level=$1 known_level=''
    [[ -w $ROOT ]] || give_up "$ROOT is not writable for $(id -un), so .venv cannot be made there." \
        "Clone the repository into a folder of your own, or run the set-up once as its owner: bin/start --setup"
    if [[ -r $STAMP ]]; then
        read -r _ _ known_level <"$STAMP" || true
        [[ $known_level == "test" ]] && level="test"
    fi
    need_programs
    need_environment
    rm -f "$STAMP"
    say "set-up: installing the pinned Python packages ($level) …"
    install_packages setuptools
    install_packages --no-build-isolation --editable "${ROOT}[$(extras "$level")]"
    printf '%s %s\n' "$(fingerprint)" "$level" >"$STAMP.new"
    mv "$STAMP.new" "$STAMP"
    say "set-up: done."
}

extras() {
    if [[ $1 == test ]]; then echo card,test; else echo card; fi
}

install_packages() {
    local options=(--quiet --disable-pip-version-check --constraint "$ROOT/etc/constraints.txt")
    [[ -n ${HOME:-} ]] || options+=(--no-cache-dir)
    "$PYTHON" -m pip install "${options[@]}" "$@" >&2 || give_up \
        "set-up: pip could not install the packages (its reason stands above)." \
        "It needs a package index: https://pypi.org, or your own by PIP_INDEX_URL. Then run the command again."
}

# -- system programs ---------------------------------------------------------------------------------------------

need_programs() {
    local packages
    read -ra packages <<<"$(missing_packages)"
    [[ ${#packages[@]} == 0 ]] && return
    install_system "${packages[@]}"
    hash -r
    read -ra packages <<<"$(missing_packages)"
    [[ ${#packages[@]} == 0 ]] || refuse_without "${packages[@]}"
}

# The packages of what is not there, on one line.
missing_packages() {
    local program packages=()
    for program in "${PROGRAMS[@]}"; do
        command -v "${program%%:*}" >/dev/null || packages+=("${program##*:}")
    done
    if command -v nvim >/dev/null && ! has_termdebug; then packages+=(neovim-runtime); fi
    if command -v gcc >/dev/null && ! has_libc_headers; then packages+=(libc6-dev); fi
    echo "${packages[*]}"
}

has_termdebug() {
    nvim --headless -u NONE -i NONE -n +'packadd termdebug' +'if !exists(":Termdebug") | cquit | endif' +qall \
        >/dev/null 2>&1 </dev/null
}

has_libc_headers() { gcc -E -x c - >/dev/null 2>&1 <<<'#include <stdio.h>'; }

# Installs Debian packages when that is allowed without a question; otherwise ends with the message.
install_system() {
    local apt_get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    command -v apt-get >/dev/null || refuse_without "$@"
    if [[ $(id -u) != 0 ]]; then
        sudo -n true 2>/dev/null || refuse_without "$@"
        apt_get=(sudo -n "${apt_get[@]}")
    fi
    local wanted=("$@")
    # Recommended by gcc, and nothing compiles without it.
    [[ " $* " != *" gcc "* ]] || wanted+=(libc6-dev)
    say "set-up: installing system programs: ${wanted[*]} …"
    { "${apt_get[@]}" update && "${apt_get[@]}" install -y --no-install-recommends "${wanted[@]}"; } >&2 ||
        refuse_without "$@"
}

refuse_without() {
    give_up "Missing on this machine: $*." \
        $'\n'"Install it and run the command again. On Debian or Ubuntu: sudo apt-get install $*" \
        $'\n'"(This launcher does it by itself as root, or where sudo asks for no password.)"
}

# -- the virtual environment -------------------------------------------------------------------------------------

# Leaves a working environment in .venv: the present one when it is whole, else a new one.
need_environment() {
    [[ -r $STAMP ]] && is_new_enough "$PYTHON" && "$PYTHON" -m pip --version >/dev/null 2>&1 && return
    local python
    python=$(find_python) || install_system python3 python3-venv
    python=$(find_python) || give_up "Python 3.11 or newer is needed; this machine has $(python3 -V 2>&1 || true)." \
        $'\n'"Install one (Debian 12, Ubuntu 24.04 and newer: sudo apt-get install python3 python3-venv)," \
        "see that python3 or python3.N is found on PATH, and run the command again."
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        install_system "$(venv_package "$python")"
    fi
    say "set-up: making .venv with $("$python" -V) …"
    "$python" -m venv --clear "$VENV" >&2 || give_up "set-up: $python could not make $VENV (its reason stands above)."
}

# Debian keeps ensurepip of each of its Pythons in a package of its own.
venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The first suitable Python on PATH: the machine's own python3, else the newest.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}
