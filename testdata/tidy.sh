#!/bin/sh
# Runs "go mod tidy" in each module of this repository. The modules require each
# other at the next version, which is not published yet, and tidy does not read
# go.work: so the script tells it for the moment where they are.
set -eu
cd "$(dirname "$0")/.."
top=$PWD path=github.com/redmux/redmux
version=$(sed -n "s|.*$path/proof \(v[^ ]*\).*|\1|p" cmd/go.mod)

for module in . proof cmd contrib/adapters contrib/otel contrib/prometheus contrib/caddystorage bench/compare bench/compare/etcd; do
	cd "$top/$module"
	# A Go that is too old for a module leaves it unchanged.
	GOWORK=off GOTOOLCHAIN=local go list -m >/dev/null 2>&1 || { echo "NOT TIDIED: $module needs a newer Go" && continue; }
	go mod edit -replace="$path@$version=$top" -replace="$path/proof@$version=$top/proof" \
		-replace="$path/bench/compare@$version=$top/bench/compare" -replace="$path/cmd@$version=$top/cmd"
	GOWORK=off go mod tidy || failed=1
	go mod edit -dropreplace="$path@$version" -dropreplace="$path/proof@$version" -dropreplace="$path/bench/compare@$version" \
		-dropreplace="$path/cmd@$version"
	[ -z "${failed:-}" ] || exit 1
done
