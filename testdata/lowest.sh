#!/bin/sh
# Checks that the root's go.mod asks for the lowest versions that work, so that
# a program which imports the library keeps its own, and that the workspace
# builds with newer ones. What each version is the first to have is in go.mod.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
export GOFLAGS=-mod=readonly

for module in github.com/redis/rueidis github.com/stretchr/testify github.com/yuin/gopher-lua; do
	lowest=$(GOWORK=off $go list -m -f '{{.Version}}' $module)
	newest=$($go list -m -f '{{.Version}}' $module)
	if [ "$(printf '%s\n' "$lowest" "$newest" | sort -V | head -n 1)" = "$newest" ]; then
		echo "$module: go.mod asks for $lowest and the workspace builds with $newest, which must be newer"
		failed=1
	fi
done
[ -z "${failed:-}" ]
export GOWORK=off
$go vet ./...
# Those whose code meets the three, besides the assertions of all tests.
$go test -count=1 ./bench ./contrib/fencing ./internal/redistest ./redlocktest
