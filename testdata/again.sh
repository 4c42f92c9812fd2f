#!/bin/sh
# go test, as CI runs it: "again.sh -race ./…". Tests on real servers and sockets measure, on a machine that others use too.
# One of these that fails is tried again alone, twice at most, and named at the end; any other failure, a data race above all,
# is one at once.
set -u
measuring='^Test(Fault|ErrorMatrix|NothingIsAllocated|Polled|Chaos)'
log=$(mktemp) tried=$(mktemp) || exit
trap 'rm -f "$log" "$tried"' EXIT
go=${GO:-go}

"$go" test -count=1 "$@" >"$log" 2>&1 && code=0 || code=$?
cat "$log"
[ $code = 0 ] && exit 0

# A package's line stands behind its tests' results: "--- FAIL: TestName (1.23s)", then "FAIL	package	4.56s".
awk '/^--- FAIL: / { tests = tests " " $3 } /^(FAIL|ok)\t/ { if ($1 == "FAIL") print $2 tests; tests = "" }' "$log" >"$tried"
if grep -q 'DATA RACE' "$log" || ! [ -s "$tried" ] || grep -qv ' ' "$tried"; then
	exit $code # a race, or a package that did not build, panicked or ran out of time
fi
while [ $# -gt 0 ]; do # the packages are the last arguments
	case $1 in ./*) break ;; *) flags="${flags:-} $1"; shift ;; esac
done
while read -r package tests; do
	for test in $tests; do
		echo "$test" | grep -qE "$measuring" || { echo "again: $test is none that measures"; exit $code; }
		# shellcheck disable=SC2086 # flags are several
		for try in 1 2; do
			"$go" test -count=1 ${flags:-} -run "^$test\$" "$package" && echo "again: $test passed alone, in try $((try + 1))" && continue 2
		done
		exit $code
	done
done <"$tried"
