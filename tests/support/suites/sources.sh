#!/bin/sh
# Digest of the sources that the programs are built from. It lies beside the built programs, and suites refuse programs of other sources.
set -eu
cd "$(dirname "$0")/../../.."
find src systemd Cargo.toml Cargo.lock -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
