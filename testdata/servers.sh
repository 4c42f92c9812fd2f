#!/bin/sh
# Finds a real server for the tests: the one that REDMUX_SERVER names, or
# redis-server or valkey-server on PATH. Otherwise it installs redis-server from
# the system's packages, if it may. Without one the tests that need it skip
# themselves; REDMUX_REQUIRE_SERVERS=1 makes that a failure. "servers.sh check"
# installs nothing and only reports what it finds.
set -u

find_server() {
	if [ -n "${REDMUX_SERVER:-}" ]; then
		command -v "$REDMUX_SERVER"
	else
		command -v redis-server || command -v valkey-server
	fi
}

say_found() {
	server=$(find_server) && version=$("$server" --version 2>/dev/null) || return 1
	echo "servers: $server, ${version%% sha=*}"
}

# The package would start a service now and at every boot, but the tests start
# servers of their own. policy-rc.d is Debian's way to prevent the first; it is
# removed however this script ends.
install_redis() {
	policy=/usr/sbin/policy-rc.d ours= log=$(mktemp) || return
	trap 'rm -f $ours "$log"' EXIT
	trap 'exit 1' HUP INT TERM
	[ -e "$policy" ] || { ours=$policy; printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"; }
	export DEBIAN_FRONTEND=noninteractive
	set -- -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=600
	install="apt-get $* install -y --no-install-recommends redis-server"
	# The lists of packages may be old or missing, and one broken source among
	# several does not matter here. If servers are required, a failed mirror is
	# asked once more.
	$install >"$log" 2>&1 || { apt-get "$@" update; $install; } >"$log" 2>&1 ||
		{ [ "${REDMUX_REQUIRE_SERVERS:-}" = 1 ] && sleep 30 && { apt-get "$@" update; $install; }; } >>"$log" 2>&1 ||
		echo "servers: apt-get: $(tail -n 1 "$log")"
	{ systemctl disable --now redis-server || update-rc.d redis-server disable; } >/dev/null 2>&1
}

say_found && exit 0
if [ "${1:-}" != check ] && [ -z "${REDMUX_SERVER:-}" ] && command -v apt-get >/dev/null; then
	if [ "$(id -u)" != 0 ]; then
		# Only REDMUX_REQUIRE_SERVERS (CI) permits changes to the machine.
		if [ "${REDMUX_REQUIRE_SERVERS:-}" = 1 ] && sudo -n true 2>/dev/null; then
			exec sudo -n REDMUX_REQUIRE_SERVERS=1 sh "$0"
		fi
	elif ! dpkg -s redis-server >/dev/null 2>&1; then # an installed one is left alone; it is only not on our PATH
		echo "servers: installing redis-server"
		install_redis
		say_found && exit 0
	fi
fi
echo "NOT COVERED: tests on real servers (faults, scripts, TLS, all layers together) skip themselves, as there is no"
echo "             redis-server or valkey-server on PATH, REDMUX_SERVER names none, and none could be installed."
[ "${REDMUX_REQUIRE_SERVERS:-}" != 1 ]
