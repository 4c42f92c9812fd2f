package redistest_test

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// patience bounds the wait for an event.
const patience = 30 * time.Second

// proxied is a real server behind a proxy.
func proxied(t *testing.T) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	servers := redistest.Servers(t, 1)
	return servers[0], redistest.Proxies(t, servers)[0]
}

func through(t *testing.T, p *redistest.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &client{t, conn, resp.NewReader(resp.Limits{})}
}

func TestProxyHoldsWhatADeadClientSent(t *testing.T) { // R8
	redistest.NoLeaks(t)
	s, p := proxied(t)
	c := through(t, p)
	c.do("PING")
	p.Pause(redistest.Up)
	c.send("SET", "k", "v")
	// An immediate RST could discard what the proxy has not read yet.
	require.Eventually(t, func() bool { return p.Held(redistest.Up) > 0 }, patience, time.Millisecond)
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	v, err := s.Do("GET", "k")
	require.NoError(t, err)
	require.Nil(t, v)
	p.Resume(redistest.Up)
	require.Eventually(t, func() bool { v, _ := s.Do("GET", "k"); return v == "v" }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return p.Conns() == 0 }, patience, time.Millisecond)
}

// What was held back is released even if both ends have closed meanwhile:
// nothing of the connection is left, while the proxy runs on.
func TestProxyLetsGoWhatBothEndsHaveLeft(t *testing.T) { // R28
	_, p := proxied(t)
	through(t, p).do("PING") // starts what outlives the first connection
	redistest.NoLeaks(t)
	for range 5 {
		c := through(t, p)
		c.do("PING")
		p.Pause(redistest.Down)
		c.send("PING")
		require.Eventually(t, func() bool { return p.Held(redistest.Down) > 0 }, patience, time.Millisecond)
		c.Close()
		time.Sleep(20 * time.Millisecond) // the server has usually closed its end by then, too
		p.Resume(redistest.Down)
	}
}

func TestProxyCutsAndResets(t *testing.T) {
	redistest.NoLeaks(t)
	_, p := proxied(t)
	p.CutOnce(redistest.Down, 3)
	c := through(t, p)
	c.send("PING")
	receive(t, c, "+PO")
	require.ErrorIs(t, readError(c), syscall.ECONNRESET)

	c = through(t, p)
	p.Latency(10*time.Millisecond, 10*time.Millisecond)
	start := time.Now()
	require.Equal(t, "+PONG\r\n", c.do("PING"))
	require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
	p.Reset()
	require.ErrorIs(t, readError(c), syscall.ECONNRESET)
}

func TestProxyHalfOpens(t *testing.T) {
	redistest.NoLeaks(t)
	s, p := proxied(t)
	c := through(t, p)
	c.do("CLIENT", "SETNAME", "victim")
	p.HalfOpen()
	require.Eventually(t, func() bool {
		list, err := s.Do("CLIENT", "LIST")
		return err == nil && !strings.Contains(list.(string), "name=victim")
	}, patience, time.Millisecond)
	c.send("PING")
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	require.ErrorContains(t, readError(c), "timeout")
	c.Close()
	require.Eventually(t, func() bool { return p.Conns() == 0 }, patience, time.Millisecond)
}

func TestProxyRefuses(t *testing.T) {
	redistest.NoLeaks(t)
	s, p := proxied(t)
	p.Refuse(true)
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	p.Refuse(false)
	require.Equal(t, "+PONG\r\n", through(t, p).do("PING"))

	// A dead server shows as a reset connection, and now and then so early that
	// the dial fails.
	require.NoError(t, s.Kill())
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		require.ErrorIs(t, readError(conn), syscall.ECONNRESET)
		conn.Close()
	}
}
