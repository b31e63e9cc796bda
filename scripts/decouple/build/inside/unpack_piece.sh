#!/bin/sh
# $1 prefix, $2 a wheel, $3 "empty" or "keep" what is in the prefix; then a name and a target for each link to make.
set -e
prefix=$1 wheel=$2
[ "$3" = keep ] || rm -rf "$prefix"
shift 3
mkdir -p "$prefix"
python3 -m zipfile -e "$wheel" "$prefix"
while [ $# -gt 0 ]; do
    mkdir -p "$(dirname "$prefix/$1")"
    ln -sfn "$2" "$prefix/$1"
    shift 2
done
