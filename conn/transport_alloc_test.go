//go:build linux && !redmux_portable && !race

package conn

import (
	"crypto/tls"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command and its reply allocate what crypto/tls itself does for them, and no
// more.
func TestTLSAllocations(t *testing.T) {
	command, reply := []byte("*1\r\n$4\r\nPING\r\n"), []byte("+OK\r\n")
	bare, peer := sockets(t, "tls")
	go answer(peer)
	room := make([]byte, 512)
	least := testing.AllocsPerRun(2000, func() {
		_, err := bare.Write(command)
		require.NoError(t, err)
		_, err = io.ReadFull(bare, room[:len(reply)])
		require.NoError(t, err)
	})
	require.NoError(t, bare.Close())
	for _, places := range []int{1, 2} {
		p := startPoller(t, places)
		ours, peer := sockets(t, "tls")
		go answer(peer)
		c := adopt(t, ours, 0)
		require.True(t, p.Add(c, 0))
		got := testing.AllocsPerRun(2000, func() { exchangeOnce(t, p, c, command) })
		t.Logf("%s, %d places: %v allocations, crypto/tls alone %v", tls.VersionName(ours.(*tls.Conn).ConnectionState().Version), places, got, least)
		assert.LessOrEqual(t, got, least)
	}
}
