#!/bin/sh
# Finds a browser for the tests of loadgen's report: the one that REDMUX_BROWSER
# names, or chromium, chromium-browser or google-chrome on PATH. Otherwise it
# installs chromium from the system's packages, if it may (some 300 MB). Without
# a browser those tests skip themselves; REDMUX_REQUIRE_BROWSER=1 makes that a
# failure. "browser.sh check" installs nothing and only reports what it finds.
set -u

find_browser() {
	if [ -n "${REDMUX_BROWSER:-}" ]; then
		command -v "$REDMUX_BROWSER"
	else
		command -v chromium || command -v chromium-browser || command -v google-chrome
	fi
}

say_found() {
	browser=$(find_browser) && version=$("$browser" --version 2>/dev/null) || return 1
	echo "browser: $browser, $version"
}

install_chromium() {
	log=$(mktemp) || return
	trap 'rm -f "$log"' EXIT
	trap 'exit 1' HUP INT TERM
	export DEBIAN_FRONTEND=noninteractive
	set -- -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=600
	install="apt-get $* install -y --no-install-recommends chromium"
	# The lists of packages may be old or missing, and one broken source among
	# several does not matter here. If a browser is required, a failed mirror is
	# asked once more.
	$install >"$log" 2>&1 || { apt-get "$@" update; $install; } >"$log" 2>&1 ||
		{ [ "${REDMUX_REQUIRE_BROWSER:-}" = 1 ] && sleep 30 && { apt-get "$@" update; $install; }; } >>"$log" 2>&1 ||
		echo "browser: apt-get: $(tail -n 1 "$log")"
}

say_found && exit 0
if [ "${1:-}" != check ] && [ -z "${REDMUX_BROWSER:-}" ] && command -v apt-get >/dev/null; then
	if [ "$(id -u)" != 0 ]; then
		# Only REDMUX_REQUIRE_BROWSER (CI) permits changes to the machine.
		if [ "${REDMUX_REQUIRE_BROWSER:-}" = 1 ] && sudo -n true 2>/dev/null; then
			exec sudo -n REDMUX_REQUIRE_BROWSER=1 sh "$0"
		fi
	elif ! dpkg -s chromium >/dev/null 2>&1; then # an installed one is left alone; it is only not on our PATH
		echo "browser: installing chromium"
		install_chromium
		say_found && exit 0
	fi
fi
echo "NOT COVERED: tests of loadgen's report in a real browser skip themselves, as there is no chromium, chromium-browser or"
echo "             google-chrome on PATH, REDMUX_BROWSER names none, and none could be installed."
[ "${REDMUX_REQUIRE_BROWSER:-}" != 1 ]
