#!/bin/sh
# Prints the incompatible changes of the API since the last tag, or since SINCE.
# Before v1 they are allowed, and the changelog must name them; from v1 on they
# are an error.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go} path=github.com/redmux/redmux
apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e

since=${SINCE:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)} || {
	echo "NOT COVERED: changes of the API: there is no tag to compare with"
	exit 0
}
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
git worktree add --quiet --detach "$work/tree" "$since"
export GOWORK=off # apidiff would take the other modules for a part of the root
(cd "$work/tree" && $go run "$apidiff" -m -w "$work/old" "$path")
$go run "$apidiff" -m -incompatible "$work/old" "$path" >"$work/diff"
if [ ! -s "$work/diff" ]; then
	echo "apidiff: nothing incompatible since $since"
	exit 0
fi
echo "apidiff: since $since"
cat "$work/diff"
case $since in v0.*) ;; v*) exit 1 ;; esac
