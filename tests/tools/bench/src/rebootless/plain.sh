# Copies files into /etc and syncs them, as often as said.
#
# usage: plain.sh TIMES FILES; prints nanoseconds, a line a time
times=$1 files=$2
from=$(mktemp --directory --tmpdir=/var/tmp)
to=$(mktemp --directory --tmpdir=/etc)
trap 'rm -r "$from" "$to"' EXIT
names=()
for ((file = 0; file < files; file++)); do names+=("$file.conf"); done
for ((time = 0; time < times; time++)); do
    for name in "${names[@]}"; do printf '%0300d\n' "$time" >"$from/$name"; done
    sync "${names[@]/#/$from/}"
    begin=$(date +%s%N)
    cp -a "${names[@]/#/$from/}" "$to"
    sync "${names[@]/#/$to/}"
    echo $(($(date +%s%N) - begin))
done
