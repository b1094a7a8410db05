#!/bin/sh
# limited-program.sh SECONDS [NAME=VALUE]... PROGRAM [ARGUMENT]...
#
# In a container gdb starts the card's program with this script (exec-wrapper). The limits apply to the program and to
# its children. They do not apply to gdb, Neovim and the MCP server, which must keep running when the program is ended.
set -eu
seconds=$1
shift

# When the container's memory is used up, the kernel ends this process first.
echo 1000 >/proc/self/oom_score_adj
# The soft limit sends SIGXCPU, the hard limit SIGKILL. The soft limit is set first, because it may not exceed the hard
# limit. A process cannot raise its hard limit, so container_limits.py finds the program's processes by this limit.
ulimit -St "$seconds"
ulimit -Ht $((seconds + 5))

# gdb starts this script with an empty environment, to which shells add these variables.
unset PWD OLDPWD
while case $1 in *=*) true ;; *) false ;; esac; do
  export "$1"
  shift
done
exec "$@"
