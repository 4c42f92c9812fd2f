package conn

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R26: keepalive and TCP_USER_TIMEOUT are set.
func TestSocketOptions(t *testing.T) {
	for _, c := range []struct {
		name                       string
		endpoint                   Endpoint
		alive, idle, user, noDelay int
	}{
		{"defaults", Endpoint{}, 1, 15, 15000, 1},
		{"given", Endpoint{KeepAlive: 7 * time.Second, TCPUserTimeout: 1500 * time.Millisecond}, 1, 7, 1500, 1},
		{"off", Endpoint{KeepAlive: -1, TCPUserTimeout: -1}, 0, 7200, 0, 1},
	} {
		ours, _ := sockets(t, "tcp")
		tcp := ours.(*net.TCPConn)
		require.NoError(t, tcp.SetNoDelay(false))
		require.NoError(t, tcp.SetKeepAliveConfig(net.KeepAliveConfig{Idle: 7200 * time.Second}))
		(&Config{Endpoint: c.endpoint}).tune(tcp)
		assert.Equal(t, c.alive, option(t, tcp, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE), c.name)
		assert.Equal(t, c.idle, option(t, tcp, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE), c.name)
		assert.Equal(t, c.user, option(t, tcp, syscall.IPPROTO_TCP, tcpUserTimeout), c.name)
		assert.Equal(t, c.noDelay, option(t, tcp, syscall.IPPROTO_TCP, syscall.TCP_NODELAY), c.name)
		tcp.Close()
	}
}

func option(t testing.TB, tcp *net.TCPConn, level, name int) (value int) {
	t.Helper()
	raw, err := tcp.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { value, failed = syscall.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, failed)
	return value
}
