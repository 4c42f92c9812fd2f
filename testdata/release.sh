#!/bin/sh
# Shows that a release of the last commit can be used: "make release".
#
# It makes the zip files of the modules that go.work names, at the version that
# they require of each other, and offers them in a folder that serves as a module
# proxy. Then it does what users do, in modules outside of the tree: install the
# commands, get the root, build and run the program of the README, get each module
# of contrib and build it. Nothing of this reaches the module cache, and nothing
# is published. See docs/internals/releasing.md.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go} root=github.com/redmux/redmux top=$PWD servers=
# The modules in the build list of a program that imports redlock: what the
# library, bench and their tests need. gopher-lua runs the scripts for redlocktest.
may_reach="$root github.com/valyala/bytebufferpool github.com/redis/rueidis github.com/stretchr/testify
	github.com/davecgh/go-spew github.com/pmezard/go-difflib gopkg.in/yaml.v3 golang.org/x/sys github.com/yuin/gopher-lua"

work=$(mktemp -d)
trap '[ -z "$servers" ] || kill $servers; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
	echo "release: $*" >&2
	exit 1
}

# What is not committed is not released.
mkdir "$work/tree"
git archive HEAD | tar -x -C "$work/tree"
cd "$work/tree"
folders=$(sed -n 's|^	\(\.[a-z/]*\)$|\1|p' go.work)
version=$(for dir in $folders; do sed -n "s|^.*$root[a-z/]* \(v[^ ]*\).*|\1|p" "$dir/go.mod"; done | sort -u)
case $version in v*[!0-9a-z.-]*) fail "the modules require each other at several versions:" $version ;; esac
within=$(git -C "$top" ls-files '*/go.mod' | sed 's|\(.*\)/go.mod|:(exclude)\1|')
for dir in $folders; do
	module=$root${dir#.} at=$work/proxy/$root${dir#.}/@v
	grep -qx "module $module" "$dir/go.mod" || fail "$dir/go.mod is not of module $module"
	! grep '^replace' "$dir/go.mod" || fail "$dir/go.mod replaces a module: go install pkg@version refuses that"
	mkdir -p "$at"
	echo "$version" >"$at/list"
	echo "{\"Version\":\"$version\",\"Time\":\"1970-01-01T00:00:00Z\"}" >"$at/$version.info"
	cp "$dir/go.mod" "$at/$version.mod"
	tree=HEAD
	[ "$dir" = . ] && set -- $within || { tree=HEAD:${dir#./} && set --; }
	git -C "$top" archive --format=zip --prefix="$module@$version/" --output="$at/$version.zip" "$tree" "$@"
	echo "$module@$version: $(du -k "$at/$version.zip" | cut -f 1) KiB"
done

# A Go programmer elsewhere, with an empty module cache. Modules of others come
# from this machine's cache or, if that lacks them, from the usual proxy; no
# checksum database has ours.
cache=$($go env GOMODCACHE) usual=$($go env GOPROXY)
export GOPROXY="file://$work/proxy,file://$cache/cache/download${usual:+,$usual}" GOPRIVATE= GONOPROXY= GONOSUMDB="$root,$root/*"
export GOMODCACHE="$work/cache" GOFLAGS="-modcacherw -trimpath" GOWORK=off GOBIN="$work/bin"

# quietly shows what a command prints if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" && fail "$*"; }; }
# outside makes a module without a program, and enters its folder.
outside() {
	mkdir -p "$work/users/$1"
	cd "$work/users/$1"
	quietly $go mod init "example.com/$1"
}

for name in redlock loadgen; do
	quietly $go install "$root/cmd/$name@$version"
	quietly "$GOBIN/$name" --help
	echo "$root/cmd/$name: go install makes a program that runs"
done

ports=$((2000 + $$ % 1200)) # instead of 7001 and so on, 20001 or the like: below those that connections get
outside readme
awk '/^```go$/ { on = 1; next } /^```$/ && on { exit } on' "$work/tree/README.md" | sed "s/\b700\([1-9]\)\b/$ports\1/g" >main.go
quietly $go get "$root/redlock@$version"
quietly $go build .
for module in $($go list -m -f '{{if not .Main}}{{.Path}}{{end}}' all); do
	case " $(echo $may_reach) " in *" $module "*) ;; *) fail "a program that imports redlock has $module in its build list" ;; esac
done
if server=$(command -v "${REDMUX_SERVER:-redis-server}" || command -v valkey-server); then
	urls=$(grep -o 'redis://[0-9.:]*' main.go)
	for url in $urls; do
		"$server" --port "${url##*:}" --save '' --dir "$work" >/dev/null &
		servers="$servers $!"
	done
	quietly "$GOBIN/redlock" init --timeout 30s --nodes "$(echo $urls | tr ' ' ,)"
	quietly ./readme
	grep -q 'error: <nil>' "$work/log" || fail "the README's program says: $(cat "$work/log")"
	echo "$root: the README's program builds and runs"
else
	echo "$root: the README's program builds. NOT COVERED: that it runs, as there is no server"
fi

for dir in $folders; do
	case $dir in ./contrib/*) ;; *) continue ;; esac
	module=$root${dir#.}
	outside "${dir##*/}"
	printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$module" >main.go
	quietly $go get "$module@$version"
	quietly $go mod tidy
	quietly $go build ./...
	echo "$module: an outside module builds with it"
done
