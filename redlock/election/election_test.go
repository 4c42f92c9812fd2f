package election

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const electionTTL = 3 * time.Second

// A campaign is a call of Run whose function works until its context ends, and
// then for a while.
type campaign struct {
	*Election
	cancel context.CancelFunc
	err    chan error // of Run

	terms  journal[uint64] // in which the function was called
	causes journal[error]  // of the contexts that have ended
}

// A journal collects what goroutines report.
type journal[T any] struct {
	mu   sync.Mutex
	list []T
}

func (j *journal[T]) add(entry T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, entry)
}

func (j *journal[T]) all() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// stand begins a campaign. Its function does work, if that is not nil, after it
// has noted the term.
func stand(t *testing.T, c *redlock.Client, o Options, work func(ctx context.Context) error) *campaign {
	t.Helper()
	r := &campaign{Election: elect(t, c, "e", o), err: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		r.err <- r.Run(ctx, func(ctx context.Context, term uint64) error {
			r.terms.add(term)
			var err error
			if work != nil {
				err = work(ctx)
			} else {
				<-ctx.Done()
			}
			r.causes.add(context.Cause(ctx))
			return err
		})
	}()
	return r
}

// retire ends a campaign and returns the error of Run.
func (r *campaign) retire() error {
	r.cancel()
	return <-r.err
}

// Run ends with the function, if that ends by itself: its error and that of the
// release are returned as Do returns them.
func TestElectionEndsWithItsFunction(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		for _, want := range []error{nil, errWork} {
			r := stand(t, c, Options{}, func(context.Context) error { return want })
			require.True(t, want == <-r.err)
			require.Nil(t, r.causes.all()[0])
		}
		var terms journal[TermInfo]
		o := Options{TermDone: terms.add}
		r := stand(t, c, o, func(context.Context) error {
			time.Sleep(100 * ms)
			m.Forget("e")
			return errWork
		})
		err := <-r.err
		require.ErrorIs(t, err, errWork)
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		done := terms.all()
		require.Len(t, done, 1)
		require.Equal(t, r.terms.all()[0], done[0].Term)
		require.Equal(t, 100*ms, done[0].Until.Sub(done[0].Since))
		require.NoError(t, done[0].Cause, "the loss had not been noticed")
		require.Equal(t, errWork, done[0].Err)
		require.ErrorIs(t, done[0].Released, redlock.ErrNotHeld)

		require.PanicsWithValue(t, "p", func() {
			_ = elect(t, c, "e", o).Run(t.Context(), func(context.Context, uint64) error { panic("p") })
		})
		time.Sleep(5 * ms)
		require.Equal(t, admin.StateFree, inspect(t, c, "e").State, "a panic releases the lock")
		require.Len(t, terms.all(), 1)
	})
}

// What cannot be an election is refused, and says why.
func TestElectionsThatCannotBe(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		m.Ownerless()
		never := func(context.Context, uint64) error {
			t.Error("elected")
			return nil
		}
		refused := func(c *redlock.Client, name string, o Options) error {
			e, err := New(c, name, o)
			require.Nil(t, e, "it is refused where it is made")
			return err
		}
		good := candidate(t, m, "a")
		owner := func(c *redlock.Config) { c.Owner, c.MaxTTL = "x", electionTTL }
		for says, err := range map[string]error{
			"Fenced":                  refused(m.Client(t, redlock.Config{Owner: "x"}), "e", Options{}),
			"Owner":                   refused(m.Opened(t, trial.Fenced(func(c *redlock.Config) { c.MaxTTL = electionTTL })), "e", Options{}),
			"Rest is negative: -1ns":  refused(good, "e", Options{Rest: -1}),
			"Grace is negative: -1ns": refused(good, "e", Options{Grace: -1}),
		} {
			require.ErrorIs(t, err, ErrCandidate)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, `"e"`)
		}
		require.ErrorIs(t, refused(good, "", Options{}), redlock.ErrResource)
		require.ErrorIs(t, refused(good, "e:fence", Options{}), redlock.ErrResource)
		require.ErrorIs(t, refused(good, "e", Options{TTL: time.Hour}), redlock.ErrTTL)
		short := m.Client(t, trial.Fenced(owner, func(c *redlock.Config) { c.MinValidity = time.Second }))
		require.ErrorIs(t, refused(short, "e", Options{TTL: time.Second}), redlock.ErrTTL)
		other := m.Client(t, trial.Fenced(func(c *redlock.Config) { c.Owner, c.MaxTTL = "x", 2*electionTTL }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := elect(t, other, "e", Options{}).Run(ctx, never)
		require.ErrorIs(t, err, redlock.ErrMaxTTL)
		require.ErrorContains(t, err, "waiting cannot fix this")
		r := stand(t, good, Options{}, nil)
		time.Sleep(10 * ms)
		require.ErrorIs(t, r.Run(t.Context(), never), ErrCandidate, "it runs already")
		require.ErrorIs(t, r.retire(), context.Canceled)
		require.NoError(t, good.Do(t.Context(), "e", time.Second, func(ctx context.Context) error {
			require.ErrorIs(t, elect(t, good, "e", Options{}).Run(ctx, never), redlock.ErrNested)
			return nil
		}))
	})
}

// A context that ends during the last attempt of a campaign ends Run with a
// CancelledError, as any other does (R12).
func TestElectionCancelledInItsLastAttempt_R12(t *testing.T) {
	for name, change := range map[string]func(*redlock.Config){
		"max tries": func(c *redlock.Config) { c.Retry.Tries = 1 },
		"max wait":  func(c *redlock.Config) { c.MaxWait = time.Microsecond },
		"fail fast": func(c *redlock.Config) { c.Retry.FailFast = true },
		"waiting":   func(*redlock.Config) {},
	} {
		for _, outage := range []bool{false, true} {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				holder := candidate(t, m, "a")
				trial.MustAcquire(t, holder, "e", electionTTL)
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("why")
				c := m.Client(t, trial.Fenced(func(c *redlock.Config) {
					c.Owner, c.MaxTTL = "b", electionTTL
					c.Tracer = &redlock.Tracer{AttemptDone: func(context.Context, redlock.CallInfo) { cancel(why) }}
					change(c)
				}))
				if outage {
					m.Silence()
				}
				err := elect(t, c, "e", Options{}).Run(ctx, func(context.Context, uint64) error { return nil })
				var cancelled *redlock.CancelledError
				require.ErrorAs(t, err, &cancelled, name)
				require.ErrorIs(t, err, context.Canceled, name)
				require.ErrorIs(t, err, why, name)
				require.NotErrorIs(t, err, redlock.ErrMaxWait, name)
				m.Recover()
				require.Equal(t, 1, strings.Count(err.Error(), `"e"`), "%s: %v", name, err)
				if name != "max wait" && outage {
					require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
				} else if name != "max wait" {
					require.ErrorIs(t, err, redlock.ErrHeld, name)
				}
			})
		}
	}
}

// The end of the client ends the campaign, and the function of a leader.
func TestElectionEndsWithItsClient(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		first, second := candidate(t, m, "a"), candidate(t, m, "b")
		a := stand(t, first, Options{}, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		time.Sleep(10 * ms)
		b := stand(t, second, Options{}, nil)
		time.Sleep(10 * ms)
		trial.CloseNow(t, second)
		require.ErrorIs(t, <-b.err, redlock.ErrClosed)
		trial.CloseNow(t, first)
		require.ErrorIs(t, <-a.err, redlock.ErrClosed)
		require.Equal(t, []error{redlock.ErrClosed}, a.causes.all())
	})
}

// A function that does not stop is reported after Grace, once, whether the
// leadership was lost or given up.
func TestElectionOverstays(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var reported journal[TermInfo]
		o := Options{Grace: 500 * ms, Overstay: reported.add}
		var linger atomic.Int64
		linger.Store(int64(400 * ms))
		r := stand(t, candidate(t, m, "a"), o, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Duration(linger.Load()))
			return nil
		})
		time.Sleep(100 * ms)
		m.Forget("e")
		time.Sleep(2 * time.Second)
		require.Empty(t, reported.all(), "it returned in time")
		require.True(t, r.IsLeader())
		linger.Store(int64(600 * ms))
		m.Forget("e")
		time.Sleep(3 * time.Second)
		over := reported.all()
		require.Len(t, over, 1)
		require.ErrorIs(t, over[0].Cause, redlock.ErrLost)
		require.Equal(t, r.terms.all()[1], over[0].Term)
		require.NoError(t, r.StepDown(t.Context()))
		require.Len(t, reported.all(), 2)
		require.Equal(t, ErrSteppedDown, reported.all()[1].Cause)
		linger.Store(0)
		require.ErrorIs(t, r.retire(), context.Canceled)
	})
}

// Terms are counted, and those of them that end by a loss: not by StepDown, nor
// with the candidacy.
func TestTermsAreCounted_R12(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		client := candidate(t, m, "a")
		r := stand(t, client, Options{TTL: electionTTL, Rest: 100 * ms}, nil)
		counted := func() []uint64 { s := client.Stats(); return []uint64{s.ElectionsLed, s.ElectionsLost, s.Lost} }
		time.Sleep(time.Second)
		require.Equal(t, []uint64{1, 0, 0}, counted())
		require.NoError(t, r.StepDown(t.Context()))
		time.Sleep(time.Second)
		require.Equal(t, []uint64{2, 0, 0}, counted())
		m.Forget("e")
		time.Sleep(electionTTL)
		require.Equal(t, []uint64{3, 1, 1}, counted())
		require.ErrorIs(t, r.retire(), context.Canceled)
		require.Equal(t, []uint64{3, 1, 1}, counted())
	})
}

// A leader that is told by its function's context to step down does not wait
// for itself.
func TestStepDownFromWithin(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		var r *campaign
		ready := make(chan struct{})
		r = stand(t, c, Options{}, func(ctx context.Context) error {
			<-ready
			return c.Do(ctx, "other", time.Second, func(ctx context.Context) error {
				assert.NoError(t, r.StepDown(context.WithoutCancel(ctx)))
				assert.False(t, r.IsLeader())
				return errors.New("ignored")
			})
		})
		close(ready)
		time.Sleep(time.Second)
		require.Equal(t, []error{ErrSteppedDown}, r.causes.all())
		require.ErrorIs(t, r.retire(), context.Canceled)
	})
}

// So does one whose function has entered a hold around the election.
func TestStepDownFromWithinAReentrantFunction(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		e := elect(t, c, "e", Options{})
		err := c.Do(t.Context(), "around", electionTTL, func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			return e.Run(ctx, func(ctx context.Context, _ uint64) error {
				return c.Lock("around").DoWith(ctx, redlock.HoldOptions{Reentrant: true}, func(ctx context.Context) error {
					defer cancel()
					limited, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
					defer done()
					require.NoError(t, e.StepDown(limited))
					return nil
				})
			})
		})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// StepDown returns what is known of the release, and when its own context ends.
func TestStepDownReportsTheRelease(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var work atomic.Int64
		work.Store(int64(time.Second))
		r := stand(t, candidate(t, m, "a"), Options{Rest: 100 * ms}, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Duration(work.Load()))
			return nil
		})
		time.Sleep(10 * ms)
		short, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		err := r.StepDown(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, r.IsLeader())
		require.NoError(t, r.StepDown(t.Context()), "the end of the same term")
		time.Sleep(200 * ms)
		require.True(t, r.IsLeader())
		m.Forget("e")
		work.Store(0)
		require.ErrorIs(t, r.StepDown(t.Context()), redlock.ErrNotHeld)
		require.ErrorIs(t, r.retire(), context.Canceled)
	})
}

// The end of the context of Run does not end the lock before the function has
// returned, however long that takes.
func TestElectionLeadsUntilItsFunctionReturns(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		s := shift{linger: 3 * electionTTL}
		a := stand(t, candidate(t, m, "a"), Options{}, s.work)
		time.Sleep(10 * ms)
		b := stand(t, candidate(t, m, "b"), Options{}, s.work)
		time.Sleep(time.Second)
		require.ErrorIs(t, a.retire(), context.Canceled)
		time.Sleep(20 * ms)
		require.True(t, b.IsLeader())
		require.ErrorIs(t, b.retire(), context.Canceled)
		require.EqualValues(t, 1, s.most.Load())
	})
}

// A call of Overstay that takes long does not keep the lock.
func TestOverstayDoesNotDelayTheRelease(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		o := Options{Overstay: func(TermInfo) { time.Sleep(time.Minute) }}
		r := stand(t, c, o, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return nil
		})
		time.Sleep(10 * ms)
		begun := time.Now()
		require.NoError(t, r.StepDown(t.Context()))
		require.Less(t, time.Since(begun), 3*time.Second)
		require.Equal(t, admin.StateFree, inspect(t, c, "e").State)
		require.ErrorIs(t, r.retire(), context.Canceled)
		require.Equal(t, time.Minute+time.Second, time.Since(begun))
	})
}

// The context of Run may have ended with any cause, also with an error of this
// package that comes from elsewhere: from the context of another hold, or of
// another client. Nothing is concluded from it.
func TestElectionIsNotMisledByACauseOfTheCaller(t *testing.T) {
	for _, cause := range []error{redlock.ErrClosed, redlock.ErrLost, ErrSteppedDown, errWork} {
		t.Run(cause.Error(), func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				c := candidate(t, m, "a")
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				var done journal[TermInfo]
				e := elect(t, c, "e", Options{TermDone: done.add})
				err := e.Run(ctx, func(ctx context.Context, _ uint64) error {
					<-ctx.Done()
					m.Forget("e")
					return nil
				})
				var cancelled *redlock.CancelledError
				require.ErrorAs(t, err, &cancelled)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, cause, cancelled.Cause)
				require.ErrorIs(t, err, redlock.ErrNotHeld, "the release is reported")
				require.Equal(t, cause, done.all()[0].Cause)
			})
		})
	}
}

// A function that has entered the hold of a leader may outlive the function of
// Run: the lock is released after both, however the term ends.
func TestElectionWaitsForReentrantFunctions_R14(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *campaign) error{
		"by itself": func(*testing.T, *campaign) error { return errWork },
		"by StepDown": func(t *testing.T, r *campaign) error {
			assert.NoError(t, r.StepDown(t.Context()))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				c := candidate(t, m, "a")
				var working atomic.Bool
				var done, overstayed journal[TermInfo]
				stop := make(chan error, 1)
				r := stand(t, c, Options{TermDone: done.add, Overstay: overstayed.add}, func(ctx context.Context) error {
					go c.Lock("e").DoWith(ctx, redlock.HoldOptions{Reentrant: true}, func(ctx context.Context) error {
						working.Store(true)
						<-ctx.Done()
						time.Sleep(2 * electionTTL)
						working.Store(false)
						return nil
					})
					select {
					case err := <-stop:
						return err
					case <-ctx.Done():
						return nil
					}
				})
				time.Sleep(10 * ms)
				b := stand(t, candidate(t, m, "b"), Options{}, func(ctx context.Context) error {
					assert.False(t, working.Load(), "two act")
					<-ctx.Done()
					return nil
				})
				time.Sleep(100 * ms)
				require.True(t, working.Load())
				go func() {
					if err := end(t, r); err != nil {
						stop <- err
					}
				}()
				time.Sleep(electionTTL)
				require.True(t, working.Load())
				require.False(t, r.IsLeader())
				require.False(t, b.IsLeader())
				time.Sleep(electionTTL + 100*ms)
				require.True(t, b.IsLeader())
				require.Len(t, overstayed.all(), 1, "it was longer than Grace")
				require.Equal(t, done.all()[0].Cause, overstayed.all()[0].Cause)
				require.Less(t, done.all()[0].Until.Sub(done.all()[0].Since), electionTTL, "when the function of Run returned")
				r.cancel()
				<-r.err
				require.ErrorIs(t, b.retire(), context.Canceled)
			})
		})
	}
}

// If the lock is lost while such functions run on, Run says so, as Do does.
func TestElectionLostAfterItsFunction_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		err := elect(t, c, "e", Options{}).Run(t.Context(), func(ctx context.Context, _ uint64) error {
			entered := make(chan struct{})
			go c.Lock("e").DoWith(context.WithoutCancel(ctx), redlock.HoldOptions{Reentrant: true}, func(ctx context.Context) error {
				close(entered)
				<-ctx.Done()
				return nil
			})
			<-entered
			m.Forget("e")
			return errWork
		})
		require.ErrorIs(t, err, errWork)
		require.ErrorIs(t, err, redlock.ErrLost)
	})
}

// An Election whose Run has returned can stand again, after a panic too.
func TestElectionStandsAgain(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		e := elect(t, candidate(t, m, "a"), "e", Options{})
		require.PanicsWithValue(t, "p", func() {
			_ = e.Run(t.Context(), func(context.Context, uint64) error { panic("p") })
		})
		require.False(t, e.IsLeader())
		require.Equal(t, errWork, e.Run(t.Context(), func(context.Context, uint64) error { return errWork }))
		require.ErrorIs(t, e.StepDown(t.Context()), ErrNotLeader)
	})
}

// While the release is under way, the term is not over: it does not lead, a
// call of StepDown waits for the release, and no function overstays.
func TestElectionDuringTheRelease(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := candidate(t, m, "a")
		m.Far(40 * ms)
		var reported journal[TermInfo]
		o := Options{Grace: 10 * ms, Overstay: reported.add}
		finish := make(chan struct{})
		r := stand(t, c, o, func(context.Context) error {
			<-finish
			return nil
		})
		time.Sleep(time.Second)
		require.True(t, r.IsLeader())
		close(finish)
		time.Sleep(25 * ms)
		require.False(t, r.IsLeader())
		require.Empty(t, r.err, "it waits for the answers")
		begun := time.Now()
		require.NoError(t, r.StepDown(t.Context()))
		require.Equal(t, 15*ms, time.Since(begun))
		require.NoError(t, <-r.err, "the function had returned before StepDown")
		require.Empty(t, reported.all())
	})
}

// Where each campaign is short, Run waits as Acquire does: the log says so
// once, with the causes, and Run ends if waiting cannot help.
func TestElectionWithoutAQuorum_R31(t *testing.T) {
	for name, change := range map[string]func(*redlock.Config){
		"MaxTries": func(c *redlock.Config) { c.Retry.Tries = 1 },
		"MaxWait":  func(c *redlock.Config) { c.MaxWait = 50 * ms },
		"FailFast": func(c *redlock.Config) { c.Retry.FailFast = true },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				log := new(redistest.Text)
				waits := func() int { return strings.Count(log.String(), "redlock: waiting, since too few nodes count") }
				c := m.Opened(t, trial.Fenced(func(c *redlock.Config) {
					c.Owner, c.MaxTTL, c.Logger = "a", electionTTL, slog.New(slog.NewTextHandler(log, nil))
					change(c)
				}))
				r := stand(t, c, Options{}, nil)
				time.Sleep(time.Second)
				require.True(t, r.IsLeader())
				outage := func(on bool) {
					for i := range m.Nodes {
						m.Link(i).Refuse(on)
						if on {
							m.Nodes[i].DropConns()
						}
					}
				}
				for i := range 2 { // in the second term as in the first
					outage(true)
					time.Sleep(10 * electionTTL)
					require.False(t, r.IsLeader())
					require.Equal(t, i+1, waits())
					outage(false)
					time.Sleep(3 * time.Second)
					require.True(t, r.IsLeader())
				}
				for _, n := range m.Nodes[1:] {
					n.Refuse("-WRONGPASS invalid username-password pair or user is disabled.", "HELLO")
					n.DropConns()
				}
				err := <-r.err
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.ErrorContains(t, err, `redlock: "e": `)
				require.ErrorContains(t, err, "waiting cannot fix this")
			})
		})
	}
}
