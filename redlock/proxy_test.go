package redlock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/stretchr/testify/require"
)

// proxy answers a handshake like a proxy: it answers PING and AUTH, and all
// other commands with unknown. If that is "", it ends the connection, as
// twemproxy does.
func proxy(t *testing.T, unknown string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				r := bufio.NewReader(nc)
				for {
					args, err := readCommand(r)
					answer := map[string]string{"PING": "+PONG\r\n", "AUTH": "+OK\r\n"}[strings.ToUpper(strings.Join(args[:min(1, len(args))], ""))]
					if answer == "" {
						answer = unknown
					}
					if err != nil || answer == "" {
						return
					}
					if strings.Contains(answer, "%s") {
						answer = fmt.Sprintf(answer, args[0])
					}
					if _, err := io.WriteString(nc, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) (args []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	for i := 0; i < n && err == nil; i++ {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		var size int
		size, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		arg := make([]byte, size+2)
		if err == nil {
			_, err = io.ReadFull(r, arg)
		}
		args = append(args, string(arg[:size]))
	}
	return args, err
}

// A proxy is refused with the advice to name the masters, and a wait for it to
// become a server ends (R22, R31).
func TestProxiesAreRefused_R22_R31(t *testing.T) {
	for name, unknown := range map[string]string{
		"twemproxy":                    "",
		"envoy":                        "-ERR unknown command '%s', with args beginning with: \r\n",
		"envoy, older":                 "-unsupported command '%s'\r\n",
		"envoy, with the wrong number": "-invalid request\r\n",
	} {
		for _, user := range []string{"", ":hunter2@"} {
			t.Run(name+user, func(t *testing.T) {
				c, err := New(t.Context(), Config{Nodes: Nodes("redis://" + user + proxy(t, unknown))})
				require.NoError(t, err)
				defer closeNow(t, c)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_, err = c.Acquire(ctx, "r", 10*time.Second)
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorIs(t, err, conn.ErrProxy)
				require.Contains(t, err.Error(), "looks like a proxy")
				require.Contains(t, err.Error(), "name the masters themselves")
				require.NotContains(t, err.Error(), "hunter2")
				t.Log(time.Since(start), err)
			})
		}
	}
}
