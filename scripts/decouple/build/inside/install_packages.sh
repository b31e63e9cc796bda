#!/bin/sh
set -e
export DEBIAN_FRONTEND=noninteractive
dpkg --configure -a
apt-get -q update
apt-get -q -y -f install
apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io install "$@"
apt-get clean
