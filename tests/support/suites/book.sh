#!/bin/bash
# Builds the book of docs/ into target/book. The program that does it is compiled once, into the cache.
#
# usage: book.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."

version=0.5.4
place=${SLIPWAY_CACHE:-/var/cache/slipway}/mdbook-$version
if [ ! -x "$place/bin/mdbook" ]; then
    echo "compiling mdbook $version into $place (about 3 min)"
    cargo install --quiet --locked --root "$place" --version "$version" --no-default-features --features search mdbook
fi
"$place/bin/mdbook" build
echo "target/book/index.html"
