#!/bin/bash
# Names what this machine lacks, all at once and before anything is built.
#
# usage: machine.sh lab|build, where `lab` needs what hosts of the lab need, and `build` a compiler only
set -uo pipefail
needs=$1
missing=()
lack() { missing+=("$1"$'\n'"      $2"); }

# Of the compilers' output, the control plane, the tree and a run.
disk_gib=25
memory_mib=6000
rust=1.95

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    lack "Rust $rust or newer" "install it by rustup, with clippy and rustfmt, and have cargo in PATH"
else
    version=$(rustc --version | cut -d' ' -f2)
    at_least "$rust" "$version" || lack "Rust $rust or newer: rustc is $version" "rustup update stable"
fi

if [ "$needs" = lab ]; then
    if [ "$(id -u)" != 0 ]; then
        lack "root: hosts of the lab are namespaces with disks of their own" "run it as root, on a machine that you can lose"
    fi
    if ! command -v apt-get >/dev/null || ! grep -qs '^ID=debian' /etc/os-release; then
        lack "Debian: the lab's hosts are made from its packages, and tools are installed from there" "use a Debian 12 machine"
    fi
    if ! command -v go >/dev/null; then
        lack "Go 1.21 or newer: the control plane is built from its sources" "install it, and have go in PATH"
    fi
    cache=${SLIPWAY_CACHE:-/var/cache/slipway}
    at=$cache
    while [ ! -d "$at" ]; do at=$(dirname "$at"); done
    free=$(df --output=avail --block-size=1G "$at" | tail -1 | tr -d ' ')
    # What is built already needs no room again.
    have=$(du --summarize --block-size=1G "$cache" 2>/dev/null | cut -f1)
    if [ $((free + ${have:-0})) -lt $disk_gib ]; then
        lack "disk: $at has $free GiB free of $disk_gib" "free some, or name another folder by SLIPWAY_CACHE"
    fi
    memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
    if [ "$memory" -lt $memory_mib ]; then
        lack "memory: $memory MiB of $memory_mib" "use a machine with more"
    fi
    if [ "$(id -u)" = 0 ]; then
        if ! unshare --mount --pid --net --uts --ipc --fork true 2>/dev/null; then
            lack "namespaces: unshare is refused" "use a machine, or a container that may make namespaces (privileged)"
        elif ! unshare --mount mount -t tmpfs none /mnt 2>/dev/null; then
            lack "mounts: mount is refused in a namespace of its own" "use a machine, or a container with CAP_SYS_ADMIN (privileged)"
        fi
        if [ ! -e /dev/loop-control ]; then
            lack "loop devices: hosts have disks of their own" "modprobe loop"
        fi
        if [ ! -d /sys/fs/cgroup ]; then
            lack "control groups: systemd in a host needs them" "mount /sys/fs/cgroup"
        fi
    fi
    if ! command -v systemd-nspawn >/dev/null && ! apt-cache show systemd-container >/dev/null 2>&1 &&
        ! apt-get update --quiet=2; then
        lack "systemd-nspawn, and apt cannot fetch its package systemd-container" "see that apt-get update works"
    fi
fi

[ ${#missing[@]} -gt 0 ] || exit 0
echo "This machine lacks what the lab needs; nothing was built or changed:"
for one in "${missing[@]}"; do echo "  - $one"; done
exit 1
