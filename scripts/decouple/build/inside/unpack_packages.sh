#!/bin/sh
# $1 prefix, then packages. Unpacks what apt gives (and has verified) without installing it.
set -e
prefix=$1
shift
work=$(mktemp -d)
chmod 755 "$work"
cd "$work"
apt-get -q -o APT::Sandbox::User=root download "$@"
rm -rf "$prefix"
mkdir -p "$prefix"
for package in *.deb; do dpkg-deb -x "$package" "$prefix"; done
sha256sum -- *.deb >"$prefix/.decouple-sha256"
cd /
rm -rf "$work"
