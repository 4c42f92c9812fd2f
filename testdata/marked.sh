#!/bin/sh
# Prints a pattern for go test -run: the tests that say in their first lines that
# they run alone (redistest.Alone) or that they take long (redistest.Long). None
# is to say both.
#
#     marked.sh alone
#     marked.sh long
#     marked.sh packages alone  the packages that have such tests
set -eu
LC_ALL=C
export LC_ALL

cd "$(dirname "$0")/.."
show=names
[ "$1" != packages ] || { show=packages && shift; }
find . -name '*_test.go' -not -path './bench/compare/*' | sort | xargs awk -v wanted="$1" -v show="$show" '
	function marked() { return name == "" || alone && long ? "" : long ? "long" : alone ? "alone" : "" }
	function done() {
		if (marked() == wanted) {
			sub("/[^/]*$", "", file)
			if (show == "names") names = names (names == "" ? "" : "|") name
			else if (!seen[file]++) print file
		}
		name = ""
	}
	/^func Test/ { done(); name = $2; sub("[(].*", "", name); file = FILENAME; alone = long = 0 }
	/^\tredistest\.Alone\(t\)$/ { alone = 1 }
	/^\tredistest\.Long\(t\)$/ { long = 1 }
	END { done(); if (names != "") print "^(" names ")$" }'
