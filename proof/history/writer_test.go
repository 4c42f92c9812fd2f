package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lines of several goroutines are whole, and those of each are in order. What
// comes after Close is dropped.
func TestWriterIsSharedByGoroutines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	w, err := Create(name)
	require.NoError(t, err)
	const clients, each = 8, 1000
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			var line []byte
			for i := range uint64(each) {
				e := Event{T: w.Clock().Now(), Client: client, Resource: "k", Attempt: i, Ev: Grant}
				if i%2 == 0 {
					w.Add(e)
				} else {
					line = e.AppendLine(line[:0])
					w.AddLine(line)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	w.Add(Event{Resource: "too late", Ev: Start})
	events, err := all(Open(name))
	require.NoError(t, err)
	require.Len(t, events, clients*each)
	var latest [clients]Event
	for _, e := range events {
		if last := latest[e.Client]; last.Ev != "" {
			require.Equal(t, last.Attempt+1, e.Attempt)
			require.GreaterOrEqual(t, e.T, last.T)
		}
		latest[e.Client] = e
	}
}

// A token is shown by a part of its hash (R27).
func TestDigest_R27(t *testing.T) {
	digits := Digest([]byte("token"))
	require.Equal(t, "3c469e9d6c5875d3", string(digits[:]))
}

// failing is a writer that fails, and counts its calls.
type failing int

func (f *failing) Write([]byte) (int, error) {
	*f++
	return 0, errors.New("full")
}

func TestWriterReportsTheFirstError(t *testing.T) {
	var asked failing
	w := NewWriter(&asked)
	for range 3 * bufferSize / 100 {
		w.Add(Event{Resource: "k", Ev: Start})
	}
	require.ErrorContains(t, w.Close(), "full")
	require.EqualValues(t, 1, asked)
	_, err := Create(filepath.Join(t.TempDir(), "not", "there"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAddAllocatesNothing(t *testing.T) {
	w, e := NewWriter(new(bytes.Buffer)), Event{T: 1, Resource: "resource", Ev: Grant, Token: "token", Until: 2}
	w.Add(e)
	require.Zero(t, testing.AllocsPerRun(1000, func() { w.Add(e) }))
}
