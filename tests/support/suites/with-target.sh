#!/bin/bash
# Runs a command with Cargo's target directory in the cache, so that a fresh clone compiles the workspace's own crates only.
#
# usage: with-target.sh COMMAND...
#
# The directory is named by the compiler alone: Cargo keeps what is compiled with other versions, features and profiles apart, so that a
# change of one dependency compiles it and what stands on it. One checkout uses it at a time: Cargo knows the files of a crate by path and
# time, so that of two checkouts one would take what was built from the other. When the checkout changes, the workspace's own crates are
# forgotten. A set CARGO_TARGET_DIR is used as it is.
set -euo pipefail
[ -z "${CARGO_TARGET_DIR:-}" ] || exec "$@"

root=$(cd "$(dirname "$0")/../../.." && pwd -P)
all=${SLIPWAY_CACHE:-/var/cache/slipway}/target
key=$(rustc --version --verbose | sha256sum | cut -c1-16)
export CARGO_TARGET_DIR=$all/$key
mkdir -p "$CARGO_TARGET_DIR"

# In CI no crate is compiled a second time.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

exec 9>>"$CARGO_TARGET_DIR/in-use"
if ! flock --nonblock 9; then
    echo "another checkout builds or tests in $CARGO_TARGET_DIR: waiting until it ends" >&2
    flock 9
fi

checkout="$root $(stat --format=%W "$root/Cargo.toml")"
if [ "$(cat "$CARGO_TARGET_DIR/checkout" 2>/dev/null)" != "$checkout" ]; then
    hex='[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
    while read -r manifest; do
        name=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$root/$manifest" | head -1)
        rm -rf "$CARGO_TARGET_DIR"/*/.fingerprint/"$name"-$hex$hex
    done < <(cd "$root" && find src tests -name Cargo.toml)
    # Nothing else is executable there but macros. The compiler reads the rest for the workspace's own crates only.
    find "$CARGO_TARGET_DIR"/*/deps -maxdepth 1 -type f -executable -not -name '*.so' -delete 2>/dev/null || true
    rm -rf "$CARGO_TARGET_DIR"/*/incremental
    echo "$checkout" >"$CARGO_TARGET_DIR/checkout"
fi

# What older lock files left stays until there is too much of it.
most_gib=${SLIPWAY_TARGET_GIB:-30}
gib=$(du --summarize --block-size=1G "$CARGO_TARGET_DIR" | cut -f1)
if [ "$gib" -gt "$most_gib" ]; then
    echo "$CARGO_TARGET_DIR has $gib GiB, more than $most_gib: all is compiled again" >&2
    find "$CARGO_TARGET_DIR" -mindepth 1 -maxdepth 1 -not -name in-use -exec rm -rf {} +
fi

# Of directories with another key, the one that was used last is kept: a branch may have another compiler.
touch "$CARGO_TARGET_DIR/in-use"
ls -dt "$all"/*/ | tail -n +3 | while read -r old; do
    flock --nonblock "$old/in-use" rm -rf "$old" || true
done

# The lock is this shell's alone: a program that outlives the command does not hold it.
"$@" 9>&-
