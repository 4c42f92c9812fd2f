package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlocktest"
)

// Pipes are a listener in memory, which can fail.
type pipes struct {
	arrive chan net.Conn
	fails  chan error
	closed chan struct{}
	close  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.arrive:
		return c, nil
	case err := <-p.fails:
		return nil, err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "memory"} }

// dial waits until the connection is accepted.
func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.arrive <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// asks returns the status of /healthz, and closes the connection.
func (p *pipes) asks(t *testing.T) int {
	t.Helper()
	over := http.Transport{DialContext: p.dial}
	defer over.CloseIdleConnections()
	r, err := (&http.Client{Transport: &over}).Get("http://candidate/healthz")
	require.NoError(t, err)
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	require.True(t, r.Close, "a connection has one request")
	return r.StatusCode
}

// serving calls f with a candidate that answers over pipes. said returns what it
// has said since the last call.
func serving(t *testing.T, f func(t *testing.T, p *pipes, said func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		p := &pipes{arrive: make(chan net.Conn), fails: make(chan error), closed: make(chan struct{})}
		s := newStanding(redlocktest.New(t, 3).Client(t, fenced), "billing", "web-1", time.Second, t.Context())
		end := s.serve(p, func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf(format, args...))
		})
		defer time.Sleep(time.Second) // net/http lingers at a request that it has refused
		defer end()
		f(t, p, func() []string {
			mu.Lock()
			defer mu.Unlock()
			all := lines
			lines = nil
			return all
		})
	})
}

// Connections that say nothing keep a probe waiting for no time, however many
// they are. Their number is bounded, and each is closed in the end.
func TestSilentProbesGoAway_R32(t *testing.T) {
	serving(t, func(t *testing.T, p *pipes, said func() []string) {
		begun := time.Now()
		var silent []net.Conn
		for range 3 * mostProbes {
			c, err := p.dial(t.Context(), "", "")
			require.NoError(t, err)
			defer c.Close()
			silent = append(silent, c)
		}
		require.Equal(t, 200, p.asks(t))
		require.Zero(t, time.Since(begun))
		for i, c := range silent {
			_ = c.SetReadDeadline(begun.Add(2 * requestTakes)) // an error if it is closed
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			if i <= 2*mostProbes { // the probe took a place, too
				require.Zero(t, time.Since(begun), i)
			} else {
				require.Equal(t, requestTakes, time.Since(begun), i)
			}
		}
		require.Empty(t, said())
	})
}

// When no connection can be accepted, the candidate says so, at most once a
// minute, and goes on. So does it for what package net/http has to say.
func TestProbesGoOnAfterAFailure(t *testing.T) {
	serving(t, func(t *testing.T, p *pipes, said func() []string) {
		silent, err := p.dial(t.Context(), "", "")
		require.NoError(t, err)
		defer silent.Close()
		begun := time.Now()
		fail := func() {
			for range 3 {
				select {
				case p.fails <- errors.New("cannot allocate memory"):
				case <-p.closed:
					require.Fail(t, "it accepts no more")
				}
			}
			require.Equal(t, 200, p.asks(t))
		}
		fail()
		_, err = silent.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Less(t, time.Since(begun), requestTakes, "it has given its descriptor back")
		all := said()
		require.Len(t, all, 1)
		require.Contains(t, all[0], "cannot allocate memory")
		require.NotContains(t, all[0], "\n")
		fail()
		require.Empty(t, said(), "once a minute")
		time.Sleep(complaintsEvery)
		fail()
		require.Len(t, said(), 1)
	})
}

func TestARequestIsBounded_R32(t *testing.T) {
	serving(t, func(t *testing.T, p *pipes, _ func() []string) {
		over := http.Transport{DialContext: p.dial}
		defer over.CloseIdleConnections()
		request, err := http.NewRequest("GET", "http://candidate/healthz", nil)
		require.NoError(t, err)
		request.Header.Set("X", strings.Repeat("x", 4*mostHeaderBytes))
		r, err := over.RoundTrip(request)
		require.NoError(t, err)
		defer r.Body.Close()
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, r.StatusCode)
	})
}
