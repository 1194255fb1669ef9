#!/usr/bin/env bash
# Gets what tests read of upstream by git, into the folder $SLIPWAY_DATA (default: `../shared/data` beside the checkout). All of it is
# fetched before anything is written. An argument names another list than `list.tsv`; $SLIPWAY_UPSTREAM another server than GitHub.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../../..")
list=$(realpath "${1:-$here/list.tsv}")
data=${SLIPWAY_DATA:-$root/../shared/data}
upstream=${SLIPWAY_UPSTREAM:-https://github.com}

refuse() {
	echo "upstream-data: $*; nothing was changed" >&2
	exit 1
}

# The lines of the list without its comments.
rows() {
	grep -v '^#' "$list"
}

# Copies the files of a row from a directory; those that end with .gz are unpacked. Links are followed.
take() { # FROM PATTERN TO
	(
		cd "$1" 2>/dev/null || exit 1
		shopt -s nullglob
		files=($2)
		# Without a wildcard a pattern is itself, whether or not it is there.
		((${#files[@]})) || exit 1
		mkdir -p "$3" && cp --parents --dereference "${files[@]}" "$3" 2>/dev/null || exit 1
		case $2 in *.gz) gunzip "$3/$2" || exit 1 ;; esac
	)
}

mapfile -t tops < <(rows | cut -f1 | cut -d/ -f1 | sort -u)
is_whole=yes
for top in "${tops[@]}"; do
	if [ ! -e "$data/$top" ]; then
		is_whole=
	elif [ ! -e "$data/list.tsv" ]; then
		refuse "$data/$top is there and not from this command: set SLIPWAY_DATA to another folder"
	fi
done
if [ -n "$is_whole" ] && cmp --silent "$list" "$data/list.tsv"; then
	echo "upstream-data: $data has it all"
	exit
fi

work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
export GIT_TERMINAL_PROMPT=0
# Those of a hook would name another repository.
unset $(git rev-parse --local-env-vars)
while read -r repository commit; do
	clone=$work/clones/$repository/$commit
	[ "$repository" != . ] || continue
	echo "upstream-data: fetches $repository at ${commit:0:12}"
	# The directories that are checked out; files beside a directory's parents come with it.
	mapfile -t directories < <(rows | awk -F'\t' -v r="$repository" -v c="$commit" '$2 == r && $3 == c { print $4 "/" $5 }' |
		xargs --max-args=1 dirname | sed 's|^\./||' | grep -vx '\.' | sort -u)
	git init --quiet "$clone"
	git -C "$clone" remote add origin "$upstream/$repository"
	git -C "$clone" sparse-checkout set --cone "${directories[@]}"
	git -C "$clone" fetch --quiet --depth=1 --filter=blob:none origin "$commit" ||
		refuse "git cannot fetch $commit of $upstream/$repository"
	git -C "$clone" checkout --quiet --detach FETCH_HEAD || refuse "git cannot check out $commit of $upstream/$repository"
done < <(rows | cut -f2,3 | sort -u)
while IFS=$'\t' read -r folder repository commit directory pattern; do
	from=$work/clones/$repository/$commit/$directory
	[ "$repository" != . ] || from=$root/$directory
	take "$from" "$pattern" "$work/data/$folder" || refuse "$repository has no $directory/$pattern at $commit"
done < <(rows)

mkdir -p "$data"
# Empty until all is there: what is left by a run that is killed is known by it, and not taken for whole.
: > "$data/list.tsv"
for top in "${tops[@]}"; do
	rm -rf "${data:?}/$top"
	cp --recursive "$work/data/$top" "$data/$top"
done
cp "$list" "$data/list.tsv"
echo "upstream-data: $data has it all"
