//go:build linux && !redmux_portable && !race

package multiplex

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Polling callers allocate nothing: alone, or when eight of them hand the role
// to each other.
func TestPolledCallsAllocateNothing(t *testing.T) {
	const granted, refused = "+OK\r\n", "_\r\n"
	table := []struct {
		name string
		sets []string // what each node answers; "" is noServer
		err  error
	}{
		{"all granted", []string{granted, granted, granted, granted, granted}, nil},
		{"one node", []string{granted}, nil},
		{"refused", []string{refused, refused, refused, granted, granted}, ErrRefused},
		{"one node down", []string{granted, granted, "", granted, granted}, nil},
	}
	for _, callers := range []int{1, 8} {
		for _, tt := range table {
			t.Run(fmt.Sprintf("callers=%d/%s", callers, tt.name), func(t *testing.T) {
				var addrs []string
				for _, answer := range tt.sets {
					if answer == "" {
						addrs = append(addrs, noServer)
						continue
					}
					addrs = append(addrs, frugal(t, answer).Addr().String())
				}
				g := onSockets(t, addrs...)
				require.NotNil(t, g.poller)
				team := startTeam(t, callers, func(caller int) error { return attempt(g, caller, tt.err) })
				// On a busy machine a node falls further behind than before,
				// and then the log needs another round.
				few := 0.05 * float64(callers*attempts)
				require.Less(t, allocations(16, few, team), few, "allocations of all attempts of a turn")
				requireSettled(t, g)
			})
		}
	}
}

var (
	allocSets, allocReleases, allocExtends [8][]byte
	allocUndos                             [8]func([]byte) Encoded
)

func init() {
	for i := range allocSets {
		key := fmt.Sprint("a resource of some length ", i)
		allocSets[i] = setCommand(key, "01234567890123456789", long)
		allocReleases[i] = realRelease(key, "01234567890123456789")
		allocUndos[i] = undoing(raw(allocReleases[i]))
		allocExtends[i] = extendCommand(key, "01234567890123456789", long)
	}
}

// attempts is how many attempts each caller makes in its turn.
const attempts = 10

// attempt claims, extends and releases a few times, or is refused as often.
func attempt(g *Group, caller int, want error) error {
	for range attempts {
		receipt, err := g.Claim(background, claimKind, &Claim{
			Bytes: allocSets[caller], TTL: long, Undo: allocUndos[caller],
		})
		if err != want {
			return err
		}
		if err != nil {
			continue
		}
		if err := g.Extend(background, extendKind, &Command{Encoded: raw(allocExtends[caller]), TTL: long}); err != nil {
			return err
		}
		if err := g.Release(background, releaseKind, &Command{
			Encoded: raw(allocReleases[caller]), TTL: long, Receipt: receipt,
		}); err != nil {
			return err
		}
	}
	return nil
}

// startTeam starts goroutines that each call do once whenever the returned
// function is called, which waits for all of them: starting goroutines would
// allocate.
func startTeam(t *testing.T, size int, do func(member int) error) func() {
	t.Helper()
	begin := make([]chan struct{}, size)
	done := make(chan error, size)
	var members sync.WaitGroup
	for i := range size {
		begin[i] = make(chan struct{}, 1)
		members.Go(func() {
			for range begin[i] {
				done <- do(i)
			}
		})
	}
	t.Cleanup(func() {
		for _, b := range begin {
			close(b)
		}
		members.Wait()
	})
	return func() {
		for _, b := range begin {
			b <- struct{}{}
		}
		for range begin {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}
