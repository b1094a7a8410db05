#!/bin/sh
# gdb starts the card's program with this in a container (exec-wrapper). The limits hold for the program and for what it
# starts, and not for gdb, Neovim and the MCP server, which have to go on when the program has used up its share.
set -eu

# When the container's memory is used up, the kernel ends this process first.
echo 1000 >/proc/self/oom_score_adj
# SIGXCPU at the limit, SIGKILL for a program that ignores it. The lower limit is set first: it may not be above the
# other. A process cannot raise the upper one again, so container_limits.py finds the program's processes by it.
ulimit -St "$CARDAPP_PROGRAM_SECONDS"
ulimit -Ht $((CARDAPP_PROGRAM_SECONDS + 5))
exec "$@"
