package single_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/faults/single"
)

// A node that is back counts again within the bounds of R26, and one that
// forgot after its quarantine and within those bounds (R23). Other programs can
// only make it slower, so one of ten measurements has to hold, idle and loaded.
// But if the machine kept us waiting for less than a tenth of the bound, a slow
// measurement is the program's fault, and the second such fails. A vote that
// counts too early is wrong on any machine.
func TestRecovery_R23_R26(t *testing.T) {
	redistest.Long(t)
	redistest.Alone(t)
	redistest.Require(t)
	redistest.NoLeaks(t)
	kinds := single.Recoveries()
	if testing.Short() || redistest.Raceful {
		kinds = []string{single.Stopped, single.Refused}
	}
	const (
		tries    = 10
		forgiven = 1               // that was too slow without excuse
		most     = 5 * time.Minute // for the tries of all kinds but the first of each
	)
	begun := time.Now()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := watchSleep(redistest.Servers(t, 1)[0])
			defer s.end()
			var err error
			var held [2]bool // idle, loaded
			var blamed [2]int
			for try := range tries {
				if try > 0 && time.Since(begun) > most {
					break
				}
				s.greatest() // of what was before
				var late []time.Duration
				var r single.Recovery
				r, err = single.MeasureRecovery(t.Context(), single.RecoveryOptions{
					Faults: []string{kind}, Repeats: 1, Callers: 4, Away: 1500 * time.Millisecond,
					Progress: func(single.RecoveryLine) { late = append(late, s.greatest()) },
				})
				require.NoError(t, err)
				t.Log(r, "a sleeper was late by ", late)
				require.Len(t, r.Lines, 2)
				for i, l := range r.Lines {
					require.Zero(t, l.Early)
					switch {
					case single.Recovery{Lines: r.Lines[i : i+1]}.Err() == nil:
						held[i] = true
					case late[i] < l.Bound/10:
						blamed[i]++
					}
				}
				if err = r.Err(); err != nil {
					t.Log("again:", err)
				}
				if max(blamed[0], blamed[1]) > forgiven && !redistest.Raceful {
					t.Fatalf("too slow though nothing kept us waiting: %d times idle, %d times loaded; the last: %v", blamed[0], blamed[1], err)
				}
				if held[0] && held[1] {
					return
				}
			}
			if redistest.Raceful {
				t.Skip("the race detector measures itself: ", err)
			}
			t.Error(err)
		})
	}
}

// A sleeper sleeps and asks a server of its own, and measures by how much it is
// late: for so long the machine kept this process or a server waiting.
type sleeper struct {
	server *redistest.Server

	late atomic.Int64 // the most since it was last asked
	stop chan struct{}
	done chan struct{}
}

func watchSleep(server *redistest.Server) *sleeper {
	s := &sleeper{server: server, stop: make(chan struct{}), done: make(chan struct{})}
	go s.sleep()
	return s
}

func (s *sleeper) sleep() {
	defer close(s.done)
	const nap = 5 * time.Millisecond
	for {
		begun := time.Now()
		select {
		case <-s.stop:
			return
		case <-time.After(nap):
		}
		_, _ = s.server.Do("PING")
		s.late.Store(max(s.late.Load(), int64(time.Since(begun)-nap)))
	}
}

func (s *sleeper) greatest() time.Duration { return time.Duration(s.late.Swap(0)) }

func (s *sleeper) end() {
	close(s.stop)
	<-s.done
}

// A line that broke its bound is named, and so is a vote that counted too
// early.
func TestRecoveryErr(t *testing.T) {
	l := single.RecoveryLine{Fault: single.Stopped, Bound: 200 * time.Millisecond}
	for i := range 200 {
		l.Took = append(l.Took, time.Duration(i+1)*time.Millisecond)
	}
	require.Equal(t, 101*time.Millisecond, l.At(0.5))
	require.Equal(t, 199*time.Millisecond, l.At(0.99))
	require.Equal(t, 200*time.Millisecond, l.At(1))
	r := single.Recovery{Nodes: 5, Clients: 4, Lines: []single.RecoveryLine{l}}
	require.NoError(t, r.Err())
	require.Contains(t, r.String(), "stopped")

	r.Lines[0].Took = append(r.Lines[0].Took, 201*time.Millisecond)
	require.ErrorContains(t, r.Err(), "R26: stopped, idle: 1 of 201 took more than 200ms, up to 201ms")
	r.Lines[0].Took = nil
	require.NoError(t, r.Err())
	require.Zero(t, r.Lines[0].At(0.5))
	r.Lines[0].Early = 2
	require.ErrorContains(t, r.Err(), "R23: stopped, idle: 2 votes counted before")
}

func TestRecoveryIsCancelled(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := single.MeasureRecovery(ctx, single.RecoveryOptions{Faults: []string{single.Refused}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begun), 30*time.Second) // all of it is a minute
}
