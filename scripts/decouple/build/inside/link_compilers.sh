#!/bin/sh
# $1 prefix, then compilers below it: a script calls each with the headers and the libraries of the prefix. There the
# loader, which a linker reads, is a link with an absolute target: the root's own.
set -e
prefix=$1
shift
[ $# = 0 ] || mkdir -p "$prefix/bin"
for program; do
    script=$prefix/bin/${program##*/}
    printf '#!/bin/sh\nexec %s --sysroot=%s "$@"\n' "$prefix$program" "$prefix" >"$script"
    chmod 755 "$script"
    "$script" --version
    for link in "$prefix"/lib64/*; do
        case $(readlink "$link") in "$prefix"/*) ;; /*) ln -sfn "$prefix$(readlink "$link")" "$link" ;; esac
    done
done
