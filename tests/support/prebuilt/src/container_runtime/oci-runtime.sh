#!/bin/sh
# crun as containerd's shim calls it: without control groups, which a host in namespaces cannot make.
# Debian's crun refuses bundles of a newer specification than 1.0, of which these use nothing.
previous=
for word; do
    if [ "$previous" = --bundle ]; then
        sed -i 's/"ociVersion":"1\.[0-9.]*"/"ociVersion":"1.0.2"/' "$word/config.json"
    fi
    previous=$word
done
exec crun --cgroup-manager=disabled "$@"
