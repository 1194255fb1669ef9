#!/bin/bash
# Ends the playground whose folder is named, if one runs, and waits until nothing of it is left.
#
# usage: end-playground.sh FOLDER
#
# Its process holds a lock on FOLDER.lock, which names the process, as long as anything of the cluster is there.
set -euo pipefail

# Seconds until it is ended. Its hosts go down one after the other, which takes about 20 s.
ended_within=300

lock=${1:?usage: end-playground.sh FOLDER}.lock
if ! [ -e "$lock" ] || flock --nonblock "$lock" true; then
    echo "no playground runs"
    exit 0
fi
read -r process since <"$lock"
echo "ending the playground of process $process, since $since"
kill -TERM "$process"
if ! flock --timeout "$ended_within" "$lock" true; then
    echo "process $process has not ended within $ended_within s" >&2
    exit 1
fi
