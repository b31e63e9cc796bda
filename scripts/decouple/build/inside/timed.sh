#!/bin/sh
# Runs a compiler and adds a line "object user system" to the file that DECOUPLE_SECONDS names: the processor time that
# it and what it called took, as the shell's `times` says it (POSIX). The compiler cache calls this (CCACHE_PREFIX), so
# that only what was really compiled is counted, and no waiting for other programs of the machine.
"$@"
status=$?
[ $status = 0 ] && [ -n "$DECOUPLE_SECONDS" ] || exit $status
object= before=
for argument; do
    [ "$before" = -o ] && object=$argument
    before=$argument
done
# in this shell: a subshell has no times of its own; `command`: a failed redirection of a special builtin ends a shell
command times >"$DECOUPLE_SECONDS.$$" || exit 0
{ read -r _; read -r user system; } <"$DECOUPLE_SECONDS.$$"
rm -f "$DECOUPLE_SECONDS.$$"
printf '%s\t%s\t%s\n' "$object" "$user" "$system" >>"$DECOUPLE_SECONDS"
