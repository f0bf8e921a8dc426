#!/bin/sh
# Builds the base images for the Docker tests, without an image registry: a minimal Debian with Python,
# and one that also has Git and patch, like benchmarks' own images. Uses debootstrap with this machine's
# Debian mirror. Skips images that already exist.
#
# Needs root, debootstrap, and a running engine.
set -eu

mirror=${DEBIAN_MIRROR:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM

make() {
    if docker image inspect "$1" >/dev/null 2>&1; then
        echo "$1 exists"
        return
    fi
    debootstrap --variant=minbase --include="$2" bookworm "$folder/root" $mirror \
        >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; exit 1; }
    rm -rf "$folder/root/var/cache/apt/archives" "$folder/root/var/lib/apt/lists"
    tar -C "$folder/root" -c . | docker import - "$1" >/dev/null
    rm -rf "$folder/root"
    echo "built $1"
}

make proctor-test:bookworm python3,python3-venv
make proctor-test:git python3,python3-venv,git,patch
