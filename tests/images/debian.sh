#!/bin/sh
# Makes the image that the Docker tests start rooms from, without an image registry: a minimal
# Debian with Python, by debootstrap from the machine's own Debian mirror. Does nothing where the
# image is there already.
#
# Needs root, debootstrap, and an engine that answers.
set -eu

image=proctor-test:bookworm
mirror=${DEBIAN_MIRROR:-}

if docker image inspect "$image" >/dev/null 2>&1; then
    echo "$image is there"
    exit 0
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
debootstrap --variant=minbase --include=python3,python3-venv bookworm "$folder/root" $mirror \
    >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; exit 1; }
rm -rf "$folder/root/var/cache/apt/archives" "$folder/root/var/lib/apt/lists"
tar -C "$folder/root" -c . | docker import - "$image" >/dev/null
echo "$image is made"
