#!/bin/sh
# Runs a compiler so that what it names after its process number is the same every time: as process 2 of a namespace of
# its own, with a folder for temporary files that nobody shares. nvcc calls its intermediate files, and after them local
# symbols and anonymous namespaces, tmpxft_<process number>_..., so without this no two compiles give the same object.
# The compiler cache calls it (CCACHE_PREFIX), so a cached object costs nothing more. Where the machine does not allow
# such a namespace the compiler runs as ever.
unshare --pid --fork true 2>/dev/null || exec "$@"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
# process 1 is a shell, which says 137 of a compiler that was killed, as the build expects; if this is interrupted, all go
TMPDIR=$folder unshare --pid --fork --kill-child sh -c '"$@"; exit $?' sh "$@"
