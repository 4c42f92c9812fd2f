#!/bin/sh
# Runs the tests that need real servers with every server that fetch.sh has
# found, with the one that tests find by default, and with groups that mix them,
# as during an upgrade. Prints a table of what was covered, and of what could
# not be fetched. Fails if a server's tests fail.
#
# "matrix.sh quick", for CI, takes the newest server of each product and one
# mixed group, which includes the oldest, and leaves out the slow tests of what
# lies between us and a server (links, hostile nodes, allocations), which hardly
# depend on the server. "matrix.sh full", the default, leaves out nothing. ONLY
# is a pattern for the names of what is tested, as in ONLY='redis 8'.
set -u
LC_ALL=C
export LC_ALL

suite=${1:-full}
go=${GO:-go}
packages="conn multiplex redlock redlock/admin internal/redistest contrib/fencing"
about_links='NothingIsAllocated|Hostile|FaultNetwork|CutAfter|ConnectsAreFew|WrongProtocol|Distant|OneOfFive|SlowLinks'
about_links="$about_links|FailedAttempt|UnderStress|Proxy"
[ "$suite" = quick ] || about_links='^$'

cd "$(dirname "$0")/.." || exit
top=$PWD work=$(mktemp -d) failures=0
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

main() {
	build || exit
	sh testdata/fetch.sh list >"$work/fetched"
	installed >"$work/installed"
	cat "$work/installed" "$work/fetched" | awk '!seen[$1, $2]++' | sort -k1,1 -k2,2V >"$work/servers"
	[ -s "$work/servers" ] || { echo "NOT COVERED: other versions of servers: there is none here" && exit 0; }
	if [ "$suite" = quick ]; then
		newest
	else
		cat "$work/servers"
	fi >"$work/alone"
	while read -r product version from package path; do
		covers "$product $version" "$from $package" "$path"
	done <"$work/alone"
	mixed "oldest and newest" "$(oldest_and_newest)"
	[ "$suite" = quick ] || mixed "newest" "$(newest)"
	echo
	cat "$work/table"
	sh testdata/fetch.sh missing
	[ $failures = 0 ] || exit 1
}

# Each package is compiled once. The tests themselves tell whether they need a
# server: without one they skip themselves. So a new test belongs to the matrix
# without being listed.
build() {
	for package in $packages; do
		name=${package##*/}
		$go test -c -o "$work/$name.test" "./$package" || return
		(
			cd "$package" && export REDMUX_SERVERS= REDMUX_SERVER="$work/none" REDMUX_REQUIRE_SERVERS=
			"$work/$name.test" -test.v -test.short -test.timeout 10m
		) | sed -n 's|^ *--- SKIP: \([^ /]*\).*|\1|p' | sort -u >"$work/$name.names"
		[ -s "$work/$name.names" ] || { echo "matrix: no test of $package needs a server?" && return 1; }
	done
	printf '%s\n' "| servers | from | tests | result | time |" "|---|---|---|---|---|" >"$work/table"
}

# installed prints the server that tests find by default (redistest.Find), in
# the format of fetch.sh's list.
installed() {
	if [ -n "${REDMUX_SERVER:-}" ]; then
		path=$(command -v "$REDMUX_SERVER")
	else
		path=$(command -v redis-server || command -v valkey-server)
	fi || return
	# Redis server v=7.0.15 sha=…
	said=$("$path" --version | tr 'A-Z' 'a-z') || return
	echo "$said" | sed -n "s|^\([a-z]*\) server v=\([^ ]*\).*|\1 \2 installed here $path|p"
}

# The list is in the order of products and versions.
newest() {
	awk '$1 != product && NR > 1 { print last } { product = $1; last = $0 } END { if (NR > 0) print last }' "$work/servers"
}
oldest_and_newest() {
	newest >"$work/newest"
	awk '!seen[$1]++' "$work/servers" | sort -u - "$work/newest" | sort -k1,1 -k2,2V
}

# mixed covers a group of several servers. A single one cannot be mixed.
mixed() {
	[ "$(echo "$2" | wc -l)" -gt 1 ] || return 0
	names=$(echo "$2" | awk '{ printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2 }')
	paths=$(echo "$2" | while read -r _ _ _ _ path; do printf '%s:' "$path"; done)
	covers "mixed, $1: $names" "as above" "" "$paths"
}

# covers runs the suite for one server, or for a mixed group, and adds a line to the table.
covers() {
	echo "$1" | grep -q "${ONLY:-.}" || return 0
	echo "matrix: $1"
	REDMUX_SERVER=$3 REDMUX_SERVERS=${4:-} REDMUX_REQUIRE_SERVERS=1
	export REDMUX_SERVER REDMUX_SERVERS REDMUX_REQUIRE_SERVERS
	start=$(date +%s) passed=0 skipped=0 again= failed=
	for package in $packages; do
		suite_of "$package"
	done
	result=passed
	[ -z "$failed" ] || { result="FAILED:$failed" failures=$((failures + 1)); }
	[ -z "$again" ] || result="$result, when tried again:$again"
	[ $skipped = 0 ] || result="$result, $skipped skipped"
	echo "| $1 | $2 | $passed | $result | $(($(date +%s) - start)) s |" | tee -a "$work/table"
}

# suite_of runs a package's tests that need servers, in several processes at
# once, since most of them wait (shards.sh). A test that fails is retried alone,
# at most twice, because many of these tests measure. The table says so.
suite_of() {
	package=$1 name=${1##*/}
	at_once "$package" && code=0 || code=$?
	count PASS && passed=$((passed + counted))
	count SKIP && skipped=$((skipped + counted))
	broken=$(sed -n 's/^--- FAIL: \([^ ]*\).*/\1/p' "$work/log" | sort -u)
	if [ $code != 0 ] && [ -z "$broken" ]; then # a panic, or a timeout
		tail -n 100 "$work/log"
		failed="$failed $package"
	fi
	for test in $broken; do
		told | grep -B 8 "^--- FAIL: $test " # its output precedes its result
		for try in 1 2; do
			tests "$package" "^$test\$" && passed=$((passed + 1)) again="$again $test" && continue 2
		done
		told | tail -n 100
		failed="$failed $test"
	done
}

at_once() {
	SHARD_DIR=$work/shards SHARD_VERBOSE=1
	export SHARD_DIR SHARD_VERBOSE
	rm -rf "$SHARD_DIR" && mkdir "$SHARD_DIR" || return
	(
		cd "$top/$1" && grep -vE "$about_links" "$work/$name.names" | sh "$top/testdata/shards.sh" groups 8 |
			xargs -P 4 -I '{}' sh "$top/testdata/shards.sh" shard '{}' "$work/$name.test" -test.v -test.timeout 20m
	)
	cat "$SHARD_DIR"/log.* >"$work/log"
	[ ! -e "$SHARD_DIR/failed" ]
}

tests() {
	(cd "$top/$1" && "$work/${1##*/}.test" -test.v -test.timeout 20m -test.run "$2" -test.skip "$about_links") >"$work/log" 2>&1
}

# told prints the log without the passed tests.
told() { grep -vE '^ *(=== |--- PASS)' "$work/log"; }

count() { counted=$(grep -c "^--- $1: " "$work/log"); }

main
