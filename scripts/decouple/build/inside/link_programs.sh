#!/bin/sh
# $1 prefix, then programs below it: they start with the loader and the libraries of the prefix. Where patchelf leaves
# a program that does not run (python3.13, which is no position-independent one), a script in its place starts it.
set -e
prefix=$1
shift
# the file itself: in lib64 an older suite has a link with an absolute target, which is the root's own loader
for loader in "$prefix"/usr/lib/*-linux-gnu/ld-linux-*.so.* "$prefix"/lib/*-linux-gnu/ld-linux-*.so.*; do
    [ -e "$loader" ] && break
done
libraries=$(cd "$prefix" && ls -d "$PWD"/usr/lib/*-linux-gnu "$PWD"/lib/*-linux-gnu 2>/dev/null | paste -sd:)
for program; do
    cp -p "$prefix$program" "$prefix$program.as-it-was"
    patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$prefix$program"
    if "$prefix$program" --version; then
        rm "$prefix$program.as-it-was"
    else
        rm "$prefix$program"
        printf '#!/bin/sh\nexec %s --argv0 "$0" --library-path %s %s "$@"\n' \
            "$loader" "$libraries" "$prefix$program.as-it-was" >"$prefix$program"
        chmod 755 "$prefix$program"
    fi
    ln -sfn "$prefix$program" "/usr/local/bin/${program##*/}"
    "/usr/local/bin/${program##*/}" --version
done
