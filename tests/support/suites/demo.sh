#!/bin/bash
# Runs the demo as soon as what its first roll needs is built; the rest is built meanwhile.
#
# usage: with-target.sh demo.sh ARGUMENT..., with arguments of the demo
set -euo pipefail
cd "$(dirname "$0")/../../.."

tests/support/suites/suites.sh first-roll

# In a process group of its own, which is ended as a whole.
set -m
"$CARGO_TARGET_DIR/debug/suites" rest >target/logs/rest.log 2>&1 </dev/null &
rest=$!
set +m
trap 'kill -- "-$rest" 2>/dev/null || true; wait "$rest" 2>/dev/null || true' EXIT

code=0
"$CARGO_TARGET_DIR/debug/demo" "$@" || code=$?
exit "$code"
