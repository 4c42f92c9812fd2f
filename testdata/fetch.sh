#!/bin/sh
# Fetches servers to test against, and installs nothing: every redis-server,
# valkey-server and redict-server in the suites of the machine's own Debian
# mirror. Each is unpacked into a cache and started once as a proof.
# docs/internals/servers.md tells how they are used. The script prints what it
# has; what a mirror lacks is no error, but is reported ("NOT COVERED"). It does
# nothing if it ran within the last week. "fetch.sh list" prints what is cached, "fetch.sh
# missing" what could not be fetched, and "fetch.sh again" asks the mirror in
# any case.
#
# The cache is REDMUX_SERVERS_DIR, or else redmux/servers in the user's cache
# folder. It contains list (a line per server: product, version, suite, the
# package's version, the path to start), a folder per server, and libs, a folder
# per library package.
set -u
LC_ALL=C
export LC_ALL

cache=${REDMUX_SERVERS_DIR:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/redmux/servers}
packages="redis-tools valkey-tools redict-tools"
week=7

say() { echo "servers: $*"; }
not_covered() {
	echo "NOT COVERED: $*"
	exit 0
}

main() {
	case ${1:-} in
	list) print_list && exit ;;
	missing) print_missing && exit ;;
	again) ;;
	*) is_fresh && print_covered && exit ;;
	esac
	for tool in apt-get apt-cache dpkg dpkg-deb awk timeout flock; do
		command -v $tool >/dev/null ||
			not_covered "servers of other versions: they come from a Debian mirror, and there is no $tool here"
	done
	mkdir -p "$cache/libs" || exit
	cache=$(cd "$cache" && pwd) || exit # wrappers contain it, and they run in other folders
	# Two runs at once would unpack into the same folders. The second run then
	# finds everything done.
	exec 9>"$cache/lock"
	flock -w 900 9 || exit
	[ "${1:-}" = again ] || ! is_fresh || { print_covered && exit; }
	work=$(mktemp -d) || exit
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	private_apt && look && fetch_all && [ ! -e "$work/failed" ] && checksum >"$cache/stamp"
	print_covered
}

# The stamp contains the script's own checksum, so that a change of the script
# takes effect at once.
checksum() { cksum <"$0"; }
is_fresh() {
	[ -n "$(find "$cache/stamp" -mtime -$week 2>/dev/null)" ] && [ "$(cat "$cache/stamp")" = "$(checksum)" ]
}

# A server that is no longer in any suite stays as long as its folder does: old
# versions are worth keeping.
print_list() { cat "$cache"/*/server 2>/dev/null | sort -k1,1 -k2,2V; }
print_missing() { sed 's/^/NOT COVERED: /' "$cache/missing" 2>/dev/null || true; }

print_covered() {
	print_list >"$cache/list"
	while read -r product version suite package path; do
		say "$product $version ($suite, $package): $path"
	done <"$cache/list"
	[ -s "$cache/list" ] || echo "NOT COVERED: servers of other versions: none is here"
	print_missing
}

# private_apt writes a configuration of apt that reads the machine's own mirror,
# keyrings and proxy, and writes only to $work: with a package list of its own,
# no installed packages, and none of the hooks that the machine runs after an
# update.
private_apt() {
	mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/sources" || exit
	: >"$work/status"
	cat >"$work/apt.conf" <<-END
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear APT::Architectures;
		APT::Architectures { "$(dpkg --print-architecture)"; };
		APT::Sandbox::User "$(id -un)";
		Acquire::http::Timeout "20"; Acquire::https::Timeout "20"; Acquire::Retries "1"; Acquire::Languages "none";
		Acquire::AllowInsecureRepositories "false"; APT::Get::AllowUnauthenticated "false";
		Dir::State "$work/state"; Dir::State::status "$work/status";
		Dir::Cache "$work/cache"; Dir::Cache::pkgcache "pkg.bin"; Dir::Cache::srcpkgcache "src.bin";
		Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "$work/sources";
	END
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | one_line_sources >"$work/sources/all.list"
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$file" ] || { cat "$file" && echo; }
	done | deb822_sources >"$work/sources/all.sources"
	[ -s "$work/sources/all.list" ] || [ -s "$work/sources/all.sources" ] ||
		not_covered "servers of other versions: apt's sources name no mirror of $codename"
}

# The names that a machine's own suite may have in its sources, and the suites
# that its mirror is asked for: a release keeps the versions that it was made
# with, so several releases have several versions. Only Debian's mirrors have
# Debian's suites.
codename=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-sid}")
case $(. /etc/os-release 2>/dev/null && echo "${ID:-}") in
debian)
	own="$codename stable testing unstable sid"
	suites="$codename $codename-backports bookworm bookworm-backports trixie trixie-backports sid experimental"
	;;
*)
	own=$codename
	suites="$codename $codename-updates $codename-backports"
	;;
esac
suites=$(printf '%s\n' $suites | awk '!seen[$0]++ { printf "%s ", $0 }')

# The machine's entry for its own suite, with the other suites in its place. Its
# keyring stays ("signed-by"), so apt verifies these suites as it does the
# machine's own; an option to trust without verification (trusted=yes) is
# dropped.
one_line_sources() {
	awk -v own="$own" -v suites="$suites" '
		$1 != "deb" { next }
		{
			options = ""
			if (match($0, /\[[^]]*\]/)) {
				options = substr($0, RSTART, RLENGTH)
				$0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
				gsub(/(trusted|allow-insecure|arch)=[^] ]*/, "", options)
			}
			if (!index(" " own " ", " " $3 " ") || $2 ~ /^cdrom:/ || seen[$2]++) next
			n = split(suites, suite, " ")
			components = / universe/ ? "main universe" : "main"
			for (i = 1; i <= n; i++) print "deb", options, $2, suite[i], components
		}'
}

# The same for the other format: stanzas of fields, in which a line that begins
# with a blank continues the field above (which may contain a whole key).
deb822_sources() {
	awk -v own="$own" -v suites="$suites" '
		function flush() {
			if (is_own && !disabled) printf "Types: deb\nSuites: %s\nComponents: %s\n%s\n", suites, components, rest
			is_own = disabled = skip = 0; rest = ""; components = "main"
		}
		BEGIN { components = "main" }
		/^#/ { next }
		/^[ \t]*$/ { flush(); next }
		/^[^ \t]/ { skip = 0 }
		tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if (index(" " own " ", " " $i " ")) is_own = 1 }
		tolower($1) == "components:" { if (/ universe/) components = "main universe" }
		tolower($1) == "enabled:" { if (tolower($2) == "no") disabled = 1 }
		tolower($1) ~ /^(types|suites|components|architectures|enabled|trusted|allow-insecure|languages|targets):$/ { skip = 1 }
		!skip { rest = rest $0 "\n" }
		END { flush() }'
}

# This mirror may lack some suites, or they may be signed with unknown keys:
# update then fails for these, and continues.
look() {
	timeout 300 apt-get -c "$work/apt.conf" update >"$work/update" 2>&1
	: >"$work/missing"
	for suite in $suites; do
		ls "$work/state/lists" | grep -q "_dists_${suite}_InRelease$" ||
			echo "$suite: $(grep -E "^(W|E|Err)[: ].*[ /]$suite( |/|$)" "$work/update" | tail -n 1 | cut -c -200)" >>"$work/missing"
	done
	if ! ls "$work/state/lists" | grep -q InRelease; then
		reason=$(sed 's/^[^ ]*: //' "$work/missing" | head -n 1)
		echo "newer servers than these: no suite could be had from this machine's mirror ($reason)" >"$cache/missing"
		return 1
	fi
	cp "$work/missing" "$cache/missing"
}

# One build of each version is enough, and that of the oldest suite requires
# least of the machine.
fetch_all() {
	for package in $packages; do
		found=$(apt-cache -c "$work/apt.conf" madison $package 2>/dev/null | awk -F' *[|] *' -v suites="$suites" '
			BEGIN { n = split(suites, s, " "); for (i = 1; i <= n; i++) rank[s[i]] = i }
			{ split($3, where, " "); sub(/\/.*/, "", where[2]); print rank[where[2]], where[2], $2 }' | sort -n |
			awk '{ upstream = $3; sub(/^[0-9]*:/, "", upstream); sub(/[-+~].*/, "", upstream) } !seen[upstream]++ { print $2, $3 }')
		[ -n "$found" ] || echo "${package%-tools}: no suite of this mirror has $package" >>"$cache/missing"
		echo "$found" | while read -r suite version; do
			[ -z "$version" ] || fetch "$package" "$version" "$suite"
		done
	done
}

# The tools' package contains the server too: redis-server is redis-check-rdb
# under another name.
fetch() {
	package=$1 version=$2 suite=$3 product=${1%-tools}
	home=$cache/$product-${version#*:}
	[ ! -e "$home/server" ] || return 0
	rm -rf "$home"
	say "fetching $package $version from $suite"
	if ! download "$package=$version" || ! dpkg-deb -x "$work"/debs/*.deb "$home"; then
		echo "$product $version ($suite): cannot be fetched: $(tail -n 1 "$work/out")" | tee "$work/failed" >>"$cache/missing"
		return
	fi
	ln -sf "$product-check-rdb" "$home/usr/bin/$product-server"
	wrap "$product" "$home" ""
	if ! "$home/$product-server" --version >"$work/out" 2>&1; then
		# Newer builds need a newer C library. It is unpacked too, with its own
		# loader and all other libraries.
		libraries "$package=$version" "$home/lib" "$suite" && wrap "$product" "$home" "$loader"
	fi
	if answered=$(prove "$product" "$home"); then
		echo "$product $answered $suite $version $home/$product-server" >"$home/new" && mv "$home/new" "$home/server"
	else
		echo "$product $version ($suite): it does not start: $(tail -n 1 "$work/out")" >>"$cache/missing"
	fi
}

# download fetches packages, which apt verifies, into an empty folder.
download() {
	rm -rf "$work/debs"
	mkdir "$work/debs" && (cd "$work/debs" && timeout 300 apt-get -c "$work/apt.conf" download "$@" >"$work/out" 2>&1)
}

# libraries makes a folder of links to the libraries that apt would install with
# a package, and finds the loader among them. It skips everything else (a
# system's users and services, for the installation scripts of these packages).
libraries() {
	needed=$(for target in "" "-t$3"; do
		apt-get -c "$work/apt.conf" $target --no-install-recommends --print-uris -y install "$1" 2>"$work/out" && break
	done | sed -n "s/^'[^']*' \(z\{0,1\}lib[^ ]*\)_[^_ ]*\.deb .*/\1/p")
	# From here on names are those of apt's files, NAME_VERSION, with %3a for a
	# colon.
	missing=$(for library in $needed; do [ -e "$cache/libs/$library" ] || echo "$library"; done)
	[ -z "$missing" ] || download $(echo "$missing" | sed 's/_/=/; s/%3a/:/') || return
	for library in $missing; do
		dpkg-deb -x "$work/debs/$library"_*.deb "$work/new" && mv "$work/new" "$cache/libs/$library" || return
	done
	mkdir "$2" || return
	for library in $needed; do
		find "$cache/libs/$library" -path '*/lib*' -name '*.so.*' -exec ln -sf {} "$2" \;
	done
	loader=$(ls "$2"/ld-linux*.so.* "$2"/ld64.so.* 2>/dev/null | head -n 1)
	[ -n "$loader" ]
}

# wrap writes scripts that stand for the server and its command line client.
# They end in exec, so that the process that a test started is the server
# itself.
wrap() {
	for tool in server cli; do
		binary="\"$2/usr/bin/$1-$tool\""
		[ -z "$3" ] || binary="\"$3\" --library-path \"$2/lib\" $binary"
		printf '#!/bin/sh\nexec %s "$@"\n' "$binary" >"$2/$1-$tool"
		chmod 755 "$2/$1-$tool"
	done
}

# prove starts a server, asks it for its product, and prints its version.
prove() {
	at=$(mktemp -d) || return
	"$2/$1-server" --port 0 --unixsocket "$at/s" --save '' --appendonly no --dir "$at" >"$work/out" 2>&1 &
	pid=$! info= tries=0
	while [ $tries -lt 100 ] && kill -0 $pid 2>/dev/null; do
		info=$(timeout 5 "$2/$1-cli" -s "$at/s" INFO server 2>/dev/null | tr -d '\r') && [ -n "$info" ] && break
		tries=$((tries + 1))
		sleep 0.1
	done
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	rm -rf "$at"
	# The server is the process that was started, not a child of it: tests stop
	# and kill that process.
	echo "$info" | grep -qx "process_id:$pid" || return
	for field in "$1_version" redis_version; do
		answered=$(echo "$info" | sed -n "s/^$field://p")
		[ -z "$answered" ] || { echo "$answered" && return; }
	done
	return 1
}

main "$@"
