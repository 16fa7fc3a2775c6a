#!/bin/sh
# Installs the servers that the tests start and the tools that they ask: by itself as root on Debian,
# otherwise it says what is missing. A test never runs against a stand-in for them.
set -eu
PATH="$PATH:/usr/sbin"
packages=""
command -v mosquitto >/dev/null || packages="$packages mosquitto"
command -v mosquitto_sub >/dev/null || packages="$packages mosquitto-clients"
command -v curl >/dev/null || packages="$packages curl"
command -v npm >/dev/null || packages="$packages npm"
command -v strace >/dev/null || packages="$packages strace"
command -v systemd-analyze >/dev/null || packages="$packages systemd"
command -v shellcheck >/dev/null || packages="$packages shellcheck"
[ -z "$packages" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "The tests need:$packages. Install them and run make test again." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # a list of names
apt-get install -y -qq --no-install-recommends $packages >/dev/null
# The broker is started by the tests, on ports of their own.
if command -v systemctl >/dev/null; then systemctl disable --now mosquitto >/dev/null 2>&1 || true; fi
