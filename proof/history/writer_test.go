package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Lines of several goroutines are whole, and those of each are in order.
func TestWriterIsSharedByGoroutines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	w, err := Create(name)
	require.NoError(t, err)
	const clients, each = 8, 1000
	before := Monotonic()
	until := time.Now().Add(time.Hour)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			var line []byte
			for i := range uint64(each) {
				if i%2 == 0 {
					w.Note(Grant, client, "k", i, []byte("token"), until)
				} else {
					line = Event{T: w.Clock().Now(), Client: client, Resource: "k", Attempt: i, Ev: Release}.AppendLine(line[:0])
					w.AddLine(line)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	after := Monotonic()
	w.Note(Start, 1, "too late", 1, nil, time.Time{})
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
		require.GreaterOrEqual(t, e.T, before-int64(time.Millisecond))
		require.LessOrEqual(t, e.T, after+int64(time.Millisecond))
		if e.Ev == Grant {
			require.Equal(t, "3c469e9d", e.Token, "a digest, and never the token (R27)")
			require.InDelta(t, float64(time.Hour), float64(e.Until-e.T), float64(time.Minute))
		}
	}
}

// Without a buffer a line is written when the call returns, even if the process
// is killed right after.
func TestWriterWithoutABuffer(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, false)
	w.Note(Start, 1, "k", 1, nil, time.Time{})
	events, err := all(Read(&out))
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Zero(t, events[0].Until)
	require.Empty(t, events[0].Token)
	require.NoError(t, w.Close())

	w = NewWriter(&out, true)
	w.Note(Start, 1, "k", 1, nil, time.Time{})
	require.Zero(t, out.Len())
	require.NoError(t, w.Close())
	require.NotZero(t, out.Len())
}

// failing is a writer that fails, and counts its calls.
type failing int

func (f *failing) Write([]byte) (int, error) {
	*f++
	return 0, errors.New("full")
}

func TestWriterReportsTheFirstError(t *testing.T) {
	var asked failing
	w := NewWriter(&asked, false)
	for range 3 {
		w.Note(Start, 1, "k", 1, nil, time.Time{})
	}
	require.ErrorContains(t, w.Close(), "full")
	require.EqualValues(t, 1, asked)
	_, err := Create(filepath.Join(t.TempDir(), "not", "there"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestNotingAllocatesNothing(t *testing.T) {
	w := NewWriter(new(bytes.Buffer), true)
	token, until := []byte("twenty bytes of them"), time.Now().Add(time.Second)
	w.Note(Grant, 1, "resource", 1, token, until)
	require.Zero(t, testing.AllocsPerRun(1000, func() { w.Note(Grant, 1, "resource", 1, token, until) }))
}

func BenchmarkNote(b *testing.B) {
	w := NewWriter(new(discard), true)
	token, until := []byte("twenty bytes of them"), time.Now().Add(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		w.Note(Grant, 1, "resource", 1, token, until)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkRead(b *testing.B) {
	line := Event{T: 1e15, Client: 12, Resource: "k1", Attempt: 12345, Ev: Grant, Token: "de47c9b2", Until: 1e15 + 1e10}.AppendLine(nil)
	names := make(names)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(line, names); err != nil {
			b.Fatal(err)
		}
	}
}
