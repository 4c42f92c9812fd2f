#!/bin/sh
# go test -exec "sh $PWD/testdata/shards.sh" runs the tests of a package in
# several processes at once. Most tests with servers wait: for a TTL, for the
# start of a server, for the detection of a silent node. They cannot wait
# together in one process, because each checks its process for leaked goroutines
# and descriptors.
#
# Packages that gain from it are listed in processes_for. Any other package runs
# in one process, as without -exec, and so does a run of subtests, benchmarks or
# fuzz targets. SHARDS=1 turns it off.
set -u
LC_ALL=C
export LC_ALL

# processes_for prints how many processes run at once, and how many tests each
# gets, for the package in a folder.
processes_for() {
	case ${SHARDS:-} in 1) return ;; esac
	case $1 in
	*/cmd/redlock) echo 2 20 ;; # its tests are parallel themselves
	*/redlock) echo 6 10 ;;
	*/multiplex) echo 3 40 ;;
	*/doctest) echo 2 12 ;; # most read the whole tree
	*/proof/faults | */cmd/faults | */proof/failover) echo 4 1 ;;
	*/cmd/loadgen/load) echo 3 10 ;;
	esac
}

main() {
	binary=$1 run=.
	shift
	for flag; do
		case $flag in
		-test.run=*/* | -test.skip=*/* | -test.bench=* | -test.fuzz=* | -test.list=*) exec "$binary" "$@" ;;
		-test.run=*) run=${flag#-test.run=} ;;
		-test.skip=*) skip=${flag#-test.skip=} ;;
		-test.v*) SHARD_VERBOSE=1 && export SHARD_VERBOSE ;;
		esac
	done
	set -- "$(processes_for "$PWD")" "$@"
	sizes=$1 && shift
	[ -n "$sizes" ] || exec "$binary" "$@"
	SHARD_DIR=$(mktemp -d) || exit
	export SHARD_DIR
	trap 'rm -rf "$SHARD_DIR"' EXIT
	trap 'exit 1' HUP INT TERM QUIT
	"$binary" -test.list "$run" >"$SHARD_DIR/list" || { cat "$SHARD_DIR/list" && exit 1; }
	grep -E '^(Test|Fuzz|Example)' "$SHARD_DIR/list" | grep -vE "${skip:-^\$}" | groups "${sizes#* }" >"$SHARD_DIR/groups"
	xargs -P "${sizes% *}" -I '{}' sh "$0" shard '{}' "$binary" "$@" <"$SHARD_DIR/groups"
	cat "$SHARD_DIR"/log.* 2>/dev/null
	[ ! -e "$SHARD_DIR/failed" ] || { echo FAIL && exit 1; }
	echo PASS
}

# groups makes lines of about that many tests each. Neighbors, which often take
# equally long, go to different lines.
groups() {
	awk -v size="$1" '{ test[NR] = $0 } END {
		lines = int((NR + size - 1) / size)
		for (i = 1; i <= lines; i++) {
			line = test[i]
			for (j = i + lines; j <= NR; j += lines) line = line "|" test[j]
			print line
		}
	}'
}

# shard runs one group. Its output is kept if it fails, and with -v.
shard() {
	names=$1 binary=$2 log=$SHARD_DIR/log.$$
	shift 2
	"$binary" "$@" "-test.run=^($names)\$" >"$log" 2>&1 || {
		echo "exit status $?; one process ran $names" >>"$log"
		: >"$SHARD_DIR/failed"
		return 0
	}
	[ -n "${SHARD_VERBOSE:-}" ] || rm "$log"
}

case ${1:-} in
groups) groups "$2" ;;
shard) shift && shard "$@" ;;
*) main "$@" ;;
esac
