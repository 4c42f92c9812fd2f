#!/bin/sh
# Sees to it that tests find a real server: what REDMUX_SERVER names, or redis-server or valkey-server on PATH, or, where
# this machine lets us, a redis-server from its own packages. Without one the tests that need it skip themselves;
# REDMUX_REQUIRE_SERVERS=1 makes that a failure. "servers.sh check" installs nothing and only says what is there.
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

# The package would start a service now and at every boot, and the tests want neither: they start servers of their own.
# policy-rc.d is how Debian lets one forbid the first; it goes again however this script ends.
install_redis() {
	policy=/usr/sbin/policy-rc.d ours= log=$(mktemp) || return
	trap 'rm -f $ours "$log"' EXIT
	trap 'exit 1' HUP INT TERM
	[ -e "$policy" ] || { ours=$policy; printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"; }
	export DEBIAN_FRONTEND=noninteractive
	set -- -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=600
	install="apt-get $* install -y --no-install-recommends redis-server"
	# Lists of packages may be old or missing, and one broken source among several does not matter here. Where it is required, a
	# mirror that is away for a moment is asked once more.
	$install >"$log" 2>&1 || { apt-get "$@" update; $install; } >"$log" 2>&1 ||
		{ [ "${REDMUX_REQUIRE_SERVERS:-}" = 1 ] && sleep 30 && { apt-get "$@" update; $install; }; } >>"$log" 2>&1 ||
		echo "servers: apt-get: $(tail -n 1 "$log")"
	{ systemctl disable --now redis-server || update-rc.d redis-server disable; } >/dev/null 2>&1
}

say_found && exit 0
if [ "${1:-}" != check ] && [ -z "${REDMUX_SERVER:-}" ] && command -v apt-get >/dev/null; then
	if [ "$(id -u)" != 0 ]; then
		# Only who requires servers (CI) has said that the machine may be changed.
		if [ "${REDMUX_REQUIRE_SERVERS:-}" = 1 ] && sudo -n true 2>/dev/null; then
			exec sudo -n REDMUX_REQUIRE_SERVERS=1 sh "$0"
		fi
	elif ! dpkg -s redis-server >/dev/null 2>&1; then # else it is installed and its owner's, only not on our PATH
		echo "servers: installing redis-server"
		install_redis
		say_found && exit 0
	fi
fi
echo "NOT COVERED: tests on real servers (faults, scripts, TLS, all layers together) skip themselves, as there is no"
echo "             redis-server or valkey-server on PATH, REDMUX_SERVER names none, and none could be installed."
[ "${REDMUX_REQUIRE_SERVERS:-}" != 1 ]
