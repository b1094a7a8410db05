#!/bin/bash
# Builds Citus for Debian 12's PostgreSQL 15, beside a copy of that PostgreSQL in PREFIX: two to ten minutes. PostgreSQL
# finds its files relative to its programs, so any account can run them. Nothing is written outside PREFIX.
set -euo pipefail

usage="usage: build.sh citus-13.2.2.tar.xz PREFIX"
source=$(realpath -e "${1:?$usage}")
prefix=$(realpath -m "${2:?$usage}")
system=usr/lib/postgresql/15

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$source" -C "$work" --strip-components=1
mkdir -p "$prefix/usr/lib/postgresql" "$prefix/usr/share/postgresql"
cp -a "/$system" "$prefix/usr/lib/postgresql/"
cp -a /usr/share/postgresql/15 "$prefix/usr/share/postgresql/"

cd "$work"
# Debian's PostgreSQL 15 already declares this function, which Citus 13.2.2 defines again.
sed -i -z 's/static inline bool\nhave_createdb_privilege(void)\n{[^}]*}[^}]*}[^}]*}\n//' src/include/pg_version_compat.h
./configure -q PG_CONFIG="/$system/bin/pg_config" --without-libcurl
make -s -j"$(nproc)" extension
make -s install-all DESTDIR="$prefix"
