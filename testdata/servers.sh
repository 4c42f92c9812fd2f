#!/bin/sh
# Makes sure that a redis-server or valkey-server is on PATH, where this machine lets us: as root on a system with apt.
# Without one the tests that need real servers skip themselves; REDMUX_REQUIRE_SERVERS=1 makes that a failure.
set -u
for name in redis-server valkey-server; do
	if command -v "$name" >/dev/null; then
		echo "servers: $("$name" --version)"
		exit 0
	fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	# The tools package of some releases holds the binary, and none of them shall start a service here.
	mkdir -p /usr/sbin
	printf '#!/bin/sh\nexit 101\n' >/tmp/policy-rc.d.redmux
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		install -m 755 /tmp/policy-rc.d.redmux /usr/sbin/policy-rc.d && ours=1
	fi
	rm -f /tmp/policy-rc.d.redmux
	(apt-get update && apt-get install -y --no-install-recommends redis-server) >/dev/null 2>&1
	[ -n "${ours:-}" ] && rm -f /usr/sbin/policy-rc.d
fi
if command -v redis-server >/dev/null; then
	echo "servers: $(redis-server --version)"
	exit 0
fi
echo "servers: NOT COVERED: no redis-server or valkey-server on PATH, and none could be installed."
echo "servers: tests on real servers (faults, scripts, TLS, allocations through all layers) are skipped."
[ "${REDMUX_REQUIRE_SERVERS:-}" != 1 ]
