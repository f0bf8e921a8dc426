#!/bin/sh
# Makes the images that the Docker tests start sandboxes from, without an image registry: a minimal
# Debian with Python, and the same with Git and patch as benchmarks' own images have them, by
# debootstrap from the machine's own Debian mirror. Leaves what is there already.
#
# Needs root, debootstrap, and an engine that answers.
set -eu

mirror=${DEBIAN_MIRROR:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM

make() {
    if docker image inspect "$1" >/dev/null 2>&1; then
        echo "$1 is there"
        return
    fi
    debootstrap --variant=minbase --include="$2" bookworm "$folder/root" $mirror \
        >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; exit 1; }
    rm -rf "$folder/root/var/cache/apt/archives" "$folder/root/var/lib/apt/lists"
    tar -C "$folder/root" -c . | docker import - "$1" >/dev/null
    rm -rf "$folder/root"
    echo "$1 is made"
}

make proctor-test:bookworm python3,python3-venv
make proctor-test:git python3,python3-venv,git,patch
