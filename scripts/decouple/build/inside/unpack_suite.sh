#!/bin/sh
# $1 prefix, $2 suite, $3 mirror, $4 keyring, $5 components, $6 "alone" or not, then packages. Unpacks them, with all
# that they need unless "alone": apt sees no package of the root, so that nothing of the root is taken for theirs.
set -e
prefix=$1 suite=$2 mirror=$3 keyring=$4 components=$5 how=$6
shift 6
work=$(mktemp -d)
chmod 755 "$work"
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
# those of an earlier call: apt asks whether they are the newest, and verifies them, before it takes them
cp -p "/var/lib/apt/lists/"*"_dists_${suite}_"* "$work/state/lists/" 2>/dev/null || :
: >"$work/status"
echo "deb [signed-by=$keyring] $mirror $suite $components" >"$work/sources.list"
apt() {
    apt-get -q -y -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State="$work/state" -o Dir::State::Status="$work/status" -o Dir::Cache="$work/cache" "$@"
}
apt update
if [ "$how" = alone ]; then
    (cd "$work/cache/archives" && apt download "$@")
else
    apt --no-install-recommends --download-only install "$@"
fi
rm -rf "$prefix"
mkdir -p "$prefix"
for package in "$work"/cache/archives/*.deb; do dpkg-deb -x "$package" "$prefix"; done
(cd "$work/cache/archives" && sha256sum -- *.deb) >"$prefix/.decouple-sha256"
# for the record of what vouches for them; apt's next update sweeps them away
cp -p "$work"/state/lists/*_InRelease "$work"/state/lists/*_Packages /var/lib/apt/lists/
rm -rf "$work"
