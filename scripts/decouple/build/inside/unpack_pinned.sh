#!/bin/sh
# $1 prefix, $2 mirror, $3 nothing, or the text of inside/host_part.py and $4 its second argument; then a path and a
# SHA-256 for each package, which apt's own fetcher holds. One after the other: together they would fill the disk.
set -e
prefix=$1 mirror=$2 script=$3 older=$4
shift 4
work=$(mktemp -d)
chmod 755 "$work"
rm -rf "$prefix"
mkdir -p "$prefix"
while [ $# -gt 0 ]; do
    package=$work/${1##*/}
    /usr/lib/apt/apt-helper -q -o APT::Sandbox::User=root -o Acquire::Retries=3 \
        download-file "$mirror/$1" "$package" "SHA256:$2"
    if [ -z "$script" ]; then
        dpkg-deb -x "$package" "$prefix"
    else
        mkdir "$work/whole"
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$work/whole" --wildcards --no-wildcards-match-slash "./usr/lib/*/lib*.so*"
        python3 -c "$script" "$work/whole" "$older"
        cp -al "$work/whole/." "$prefix"
        rm -r "$work/whole"
    fi
    rm "$package"
    shift 2
done
rm -rf "$work" "$prefix/usr/share/doc" "$prefix/usr/share/man"
