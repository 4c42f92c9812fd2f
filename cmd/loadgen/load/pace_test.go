package load

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stalling stalls once, in its first attempt.
func stalling(d time.Duration) *fakeLocker {
	var once sync.Once
	return &fakeLocker{ttl: time.Hour, try: func() error {
		once.Do(func() { time.Sleep(d) })
		return nil
	}}
}

// A stall of 400 ms delays the 80 attempts that an open loop of 200 a second
// should start meanwhile, so most of the first hundred are slow. A closed loop
// has one slow attempt: the others are never made. That is the coordinated
// omission.
func TestOpenLoopHasNoCoordinatedOmission(t *testing.T) {
	args := []string{"--embedded", "--spawn=1", "--warmup=0s", "-c1", "-n100"}
	open := measure(t, stalling(400*time.Millisecond).opens, exitGood, append(args, "--rate=200")...).Runs[0]
	require.Equal(t, "open", open.Loop)
	require.EqualValues(t, 200, open.Rate)
	require.EqualValues(t, 100, open.Pairs)
	require.Greater(t, open.AcquireUS.P50, 100e3, "those in the middle waited for about 150 ms")
	require.Greater(t, open.Late, int64(60))
	require.Zero(t, open.NotBegun, "the number was reached")

	closed := measure(t, stalling(400*time.Millisecond).opens, exitGood, args...).Runs[0]
	require.Equal(t, "closed", closed.Loop)
	require.Less(t, closed.AcquireUS.P90, 100e3)
	require.GreaterOrEqual(t, closed.AcquireUS.Max, 400e3)
	require.Zero(t, closed.Late)
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	r := measure(t, (&fakeLocker{ttl: time.Hour}).opens, exitGood, "--embedded", "--spawn=1", "--warmup=0s", "-c8", "-r100", "-n31").Runs[0]
	require.GreaterOrEqual(t, r.DurationS, 0.3, "the 31st begins 300 ms after the first")
	require.EqualValues(t, 31, r.Outcomes.Granted)
}

// Attempts that were due and did not start before the end are reported:
// otherwise a stall that lasts to the end would hide them.
func TestOpenLoopTellsWhatWasNotBegun(t *testing.T) {
	f := stalling(1500 * time.Millisecond)
	r := measure(t, f.opens, exitGood, "--embedded", "--spawn=1", "--warmup=0s", "-c1", "-r100", "-d1s").Runs[0]
	require.EqualValues(t, 1, r.Pairs)
	require.GreaterOrEqual(t, r.NotBegun, int64(99))
}

// The pacer issues every start, in order and none of them early.
func TestPacer(t *testing.T) {
	c := newClock()
	quit := make(chan struct{})
	p := newPacer(1000, quit)
	begin := c.now()
	time.Sleep(5 * time.Millisecond) // the pacer may run late
	go p.run(c, begin)
	first, ok := p.next()
	require.True(t, ok)
	require.Equal(t, begin, first)
	for k := 1; k < 50; k++ {
		due, ok := p.next()
		require.True(t, ok)
		require.Equal(t, first+time.Duration(k)*time.Millisecond, due)
		require.GreaterOrEqual(t, c.now(), due)
	}
	close(quit)
	<-p.ended
	for ok {
		_, ok = p.next() // one that was issued as the phase was halted
	}
}

func TestAlarm(t *testing.T) {
	c := newClock()
	for name, newAlarm := range map[string]func(<-chan struct{}) alarm{
		"default": newAlarm,
		"timer":   func(quit <-chan struct{}) alarm { return newTimerAlarm(quit) },
	} {
		t.Run(name, func(t *testing.T) {
			quit := make(chan struct{})
			a := newAlarm(quit)
			defer a.close()
			require.True(t, a.wait(c.now()-time.Second, c), "what is past needs no wait")
			for range 20 {
				due := c.now() + 2*time.Millisecond
				require.True(t, a.wait(due, c))
				require.GreaterOrEqual(t, c.now(), due)
			}
			asleep := make(chan bool)
			go func() { asleep <- a.wait(c.now()+time.Hour, c) }()
			close(quit)
			require.False(t, <-asleep)
		})
	}
}

// A sleep leaves no garbage, whose collection would be measured.
func TestAlarmAllocatesNothing(t *testing.T) {
	c := newClock()
	a := newAlarm(make(chan struct{}))
	defer a.close()
	allocs := testing.AllocsPerRun(100, func() { a.wait(c.now()+10*time.Microsecond, c) })
	require.Zero(t, allocs)
}
