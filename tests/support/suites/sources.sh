#!/bin/sh
# Digest of the sources that the programs are built from. It lies beside the built programs, and
# suites refuse programs of other sources. A failed property test writes its case beside the
# sources: that does not change the programs.
set -eu
cd "$(dirname "$0")/../../.."
find src systemd Cargo.toml Cargo.lock -type f -not -path '*/proptest-regressions/*' -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
