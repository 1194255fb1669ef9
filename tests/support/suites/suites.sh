#!/bin/bash
# Builds the runner of the suites and the makers of the lab's parts, which depend on little, and calls the runner.
#
# usage: with-target.sh suites.sh WORD...
set -euo pipefail
cd "$(dirname "$0")/../../.."

# Nobody waits for what is built already. The selection is that of every build for development: see `suites-call`.
quiet=
[ ! -x "$CARGO_TARGET_DIR/debug/suites" ] || [ ! -x "$CARGO_TARGET_DIR/debug/prebuilt" ] || quiet=--quiet
cargo build $quiet --locked --workspace --test suites-call --bin suites --bin prebuilt
exec "$CARGO_TARGET_DIR/debug/suites" "$@"
