package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/proof/history"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Several processes compete for a few locks on five servers. Meanwhile servers
// are killed, restarted empty and stopped, connections are killed, reset and
// cut, and the processes themselves are killed, or stopped for longer than
// their locks last. Each process writes a history; merged, the histories show
// no two holders at the same time.
func TestHistoryOfLocks_OnRealServers(t *testing.T) {
	redistest.NoLeaks(t)
	// The processes die with the thread that starts them: see person.start.
	runtime.LockOSThread()
	servers := redistest.Servers(t, 5, redistest.OverUnix, redistest.OverTCP)
	proxies := redistest.Proxies(t, servers)
	c := &crowd{t: t, dir: t.TempDir(), servers: servers, proxies: proxies, kinds: make(map[string]int)}
	defer c.kill()
	for i := range crowdSize {
		c.start(i)
	}
	// Masters are opened once all of them are up for a while (R29), for which
	// the faults leave no time.
	require.Eventually(t, func() bool { return c.counts()[history.Grant] > 0 }, 30*time.Second, 50*time.Millisecond,
		"new masters are not opened")
	c.disturb(lockTime)
	for range 8 { // on a busy machine it takes longer until enough has happened
		if c.enough() {
			break
		}
		c.disturb(lockTime / 2)
	}
	c.finish()

	var x history.Exclusion
	l := history.Locks{Patience: time.Minute}
	outcomes := make(map[history.Kind]int)
	for e, err := range history.Merge(history.DefaultDisorder, c.histories()...) {
		if errors.Is(err, history.ErrCut) {
			continue // of a killed process
		}
		require.NoError(t, err)
		x.Add(e)
		l.Add(e)
		outcomes[e.Ev]++
	}
	v := l.Finish()
	t.Logf("%d processes, %d events, %d grants (%d over when told), %d handed over, %d extensions, %d overdue; porcupine: %d operations in %d windows",
		c.started, x.Events, x.Grants, x.Empty, c.handedOver(), x.Extensions, x.Overdue, v.Operations, v.Windows)
	t.Logf("outcomes: %v", outcomes)
	t.Logf("faults: %v", c.kinds)
	require.Empty(t, x.Violations())
	require.NoError(t, v.Err())
	require.Greater(t, x.Grants, fewestGrants, "too little happened to show anything")
	require.Greater(t, x.Extensions, fewestExtensions)
	require.Positive(t, c.handedOver())
	require.GreaterOrEqual(t, len(c.kinds), 8, "kinds of faults")
	for _, kind := range []history.Kind{history.Held, history.NoQuorum, history.Cancel} {
		require.Positive(t, outcomes[kind], kind)
	}
}

const (
	lockTime  = 14 * time.Second
	lockTTL   = time.Second
	crowdSize = 3 // processes
	callers   = 6 // per process
	lockKeys  = 12

	fewestGrants, fewestExtensions = 300, 20
)

// crowd is the processes, and the faults of them and of the servers.
type crowd struct {
	t       *testing.T
	dir     string
	servers []*redistest.Server
	proxies []*redistest.Proxy
	people  [crowdSize]person
	files   []string
	started int

	mu    sync.Mutex // guards the following
	kinds map[string]int
}

// person is one process.
type person struct {
	cmd    *exec.Cmd
	leave  io.Closer // closing it asks the process to end
	output *bytes.Buffer
}

// errand is the task of a process.
type errand struct {
	Nodes   []string
	History string
	Seed    uint64
}

const errandVariable = "REDMUX_HISTORY_ERRAND"

// TestMain also runs the client process.
func TestMain(m *testing.M) {
	if text := os.Getenv(errandVariable); text != "" {
		var e errand
		if err := errors.Join(json.Unmarshal([]byte(text), &e), e.run()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts a process. Processes with even numbers go through the proxies,
// the others use the servers' unix sockets directly. A process is killed when
// the thread that started it ends, which is the test's own.
func (c *crowd) start(i int) {
	c.started++
	name := filepath.Join(c.dir, fmt.Sprint("history", c.started))
	e := errand{Nodes: redistest.URLs(c.proxies), History: name, Seed: rand.Uint64()}
	if i%2 == 1 {
		e.Nodes = nil
		for _, s := range c.servers {
			e.Nodes = append(e.Nodes, s.UnixURL())
		}
	}
	text, err := json.Marshal(e)
	require.NoError(c.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), errandVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	leave, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	c.people[i] = person{cmd, leave, output}
	c.files = append(c.files, name)
}

// disturb causes faults of servers and links, and of processes, each at its own
// pace.
func (c *crowd) disturb(length time.Duration) {
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	wg.Go(func() {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		var deck []int // of harms: each occurs before one is repeated
		for every := false; time.Now().Before(end) || !every; {
			if len(deck) == 0 {
				deck = random.Perm(harms)
			}
			time.Sleep(upTo(random, 300*time.Millisecond))
			c.count(c.harm(deck[0], random, random.IntN(len(c.servers))))
			deck = deck[1:]
			every = every || len(deck) == 0
		}
	})
	// The test's goroutine starts and kills processes: they die with its
	// thread.
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for time.Now().Before(end) {
		time.Sleep(upTo(random, 500*time.Millisecond))
		p := c.people[random.IntN(crowdSize)].cmd.Process
		if random.IntN(2) == 0 {
			i := random.IntN(crowdSize)
			require.NoError(c.t, c.people[i].cmd.Process.Kill())
			_ = c.people[i].cmd.Wait()
			c.start(i)
			c.count("client killed")
			continue
		}
		require.NoError(c.t, p.Signal(syscall.SIGSTOP))
		time.Sleep(upTo(random, 3*lockTTL/2))
		require.NoError(c.t, p.Signal(syscall.SIGCONT))
		c.count("client stopped")
	}
	wg.Wait()
}

// enough reports whether the histories contain what the test wants, and a
// little more.
func (c *crowd) enough() bool {
	counts := c.counts()
	return c.handedOver() > 0 && counts[history.Grant] > fewestGrants*5/4 && counts[history.Extend] > fewestExtensions*5/4 &&
		counts[history.Held] > 0 && counts[history.NoQuorum] > 0 && counts[history.Cancel] > 0
}

// counts returns how often each kind of event is in the histories so far.
func (c *crowd) counts() map[history.Kind]int {
	counts := make(map[history.Kind]int)
	for _, name := range c.files {
		text, _ := os.ReadFile(name) // a process that was killed at once has none
		for _, kind := range []history.Kind{history.Grant, history.Extend, history.Held, history.NoQuorum, history.Cancel} {
			counts[kind] += bytes.Count(text, fmt.Appendf(nil, `"ev":"%s"`, kind))
		}
	}
	return counts
}

// handedSuffix names the files in which the processes count locks that were
// handed over, one byte for each.
const handedSuffix = ".handed"

func (c *crowd) handedOver() (n int64) {
	for _, name := range c.files {
		if file, err := os.Stat(name + handedSuffix); err == nil {
			n += file.Size()
		}
	}
	return n
}

func (c *crowd) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[kind]++
}

// harms is the number of faults that harm can cause.
const harms = 9

// harm causes one fault, which is over when it returns, and returns its name.
func (c *crowd) harm(which int, random *rand.Rand, i int) string {
	server, proxy := c.servers[i], c.proxies[i]
	switch which {
	case 0:
		c.must(server.Restart())
		return "kill -9 and restart"
	case 1:
		c.must(server.Kill())
		time.Sleep(upTo(random, 500*time.Millisecond))
		c.must(server.Restart())
		return "down for a while"
	case 2, 3:
		c.must(server.Stop())
		time.Sleep(upTo(random, 600*time.Millisecond))
		c.must(server.Continue())
		return "SIGSTOP"
	case 4:
		_, err := server.Do("CLIENT", "KILL", "TYPE", "normal")
		c.must(err)
		return "CLIENT KILL"
	case 5:
		proxy.Reset()
		return "reset"
	case 6:
		proxy.CutOnce(redistest.Both, random.Int64N(400))
		return "cut"
	case 7:
		proxy.Pause(redistest.Up)
		time.Sleep(upTo(random, 300*time.Millisecond))
		proxy.Resume(redistest.Up)
		return "commands held back"
	default:
		_, err := server.Do("SCRIPT", "FLUSH")
		c.must(err)
		return "SCRIPT FLUSH"
	}
}

// must reports errors of goroutines that may not end the test.
func (c *crowd) must(err error) {
	if err != nil {
		c.t.Errorf("the fault itself failed: %v", err)
	}
}

// finish asks all processes to end, and waits for them.
func (c *crowd) finish() {
	for i := range c.people {
		_ = c.people[i].leave.Close()
	}
	for i := range c.people {
		require.NoError(c.t, c.people[i].cmd.Wait(), c.people[i].output.String())
	}
}

func (c *crowd) kill() {
	for _, p := range c.people {
		if p.cmd != nil && p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	}
}

func (c *crowd) histories() (all []iter.Seq2[history.Event, error]) {
	for _, name := range c.files {
		all = append(all, func(yield func(history.Event, error) bool) {
			// A process that was killed at once has none.
			if _, err := os.Stat(name); err == nil {
				history.Open(name)(yield)
			}
		})
	}
	return all
}

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// run is the client process: callers acquire, extend, hold and release until
// standard input ends. Every line is written at once, since the process may be
// killed at any time.
func (e errand) run() (err error) {
	file, err := os.Create(e.History)
	if err != nil {
		return err
	}
	defer file.Close()
	w := history.NewWriter(file, false)
	handed, err := os.Create(e.History + handedSuffix)
	if err != nil {
		return err
	}
	defer handed.Close()
	count := func(_ context.Context, a redlock.AttemptInfo) {
		if a.HandedOver {
			_, _ = handed.Write([]byte{'.'})
		}
	}
	client, err := redlock.New(context.Background(), redlock.Config{
		Nodes: redlock.Nodes(e.Nodes...), MaxTTL: lockTTL, NodeTimeout: 80 * time.Millisecond,
		Tracer: &redlock.Tracer{AttemptDone: count},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var wg sync.WaitGroup
	for i := range callers {
		c := &caller{w: w, client: client, id: i, random: rand.New(rand.NewPCG(e.Seed, uint64(i)))}
		wg.Go(func() {
			for ctx.Err() == nil {
				c.resource = fmt.Sprint("k", c.random.IntN(lockKeys))
				if c.attempt++; i == 0 {
					c.hold(ctx)
				} else {
					c.lock(ctx)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(client.Close(context.Background()), w.Close())
}

// caller is one goroutine of a client process.
type caller struct {
	w        *history.Writer
	client   *redlock.Client
	id       int
	random   *rand.Rand
	attempt  uint64
	resource string
}

func (c *caller) note(kind history.Kind, token *redlock.Token, until time.Time) {
	c.noteAt(c.w.Clock().Now(), kind, token, until)
}

func (c *caller) noteAt(t int64, kind history.Kind, token *redlock.Token, until time.Time) {
	var bytes []byte
	if token != nil {
		bytes = token[:]
	}
	c.w.NoteAt(t, kind, c.id, c.resource, c.attempt, bytes, until)
}

// lock takes a plain lock for some time. One in ten is kept for longer than it
// is valid, and one in fifty is never released.
func (c *caller) lock(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, time.Duration(1+c.random.IntN(400))*time.Millisecond)
	defer cancel()
	if c.random.IntN(4) == 0 {
		defer time.AfterFunc(upTo(c.random, 5*time.Millisecond), cancel).Stop()
	}
	acquire := c.client.Acquire
	if c.random.IntN(2) == 0 {
		acquire = c.client.TryAcquire
	}
	c.note(history.Start, nil, time.Time{})
	lock, err := acquire(ctx, c.resource, lockTTL)
	if err != nil {
		c.refused(err)
		return
	}
	token := c.tokenOf(lock)
	c.note(history.Grant, token, lock.Until())
	c.work()
	for c.random.IntN(3) == 0 {
		longer, err := lock.Extend(context.Background(), lockTTL)
		if err != nil {
			break
		}
		lock = longer
		c.note(history.Extend, token, lock.Until())
		c.work()
	}
	if c.random.IntN(50) != 0 {
		c.note(history.Release, token, lock.Until())
		c.released(token, lock.Release(context.Background()))
	}
}

func (c *caller) work() {
	if c.random.IntN(30) == 0 {
		time.Sleep(lockTTL * 11 / 10)
	}
	time.Sleep(upTo(c.random, 8*time.Millisecond))
}

// hold takes a lock that renews itself, and records each renewal that it sees.
func (c *caller) hold(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, 500*time.Millisecond)
	defer cancel()
	c.note(history.Start, nil, time.Time{})
	h, err := c.client.Hold(ctx, c.resource, redlock.HoldOptions{TTL: lockTTL, Heal: c.random.IntN(2) == 0})
	if err != nil {
		c.refused(err)
		return
	}
	token, until := c.tokenOf(h.Current()), h.Until()
	sound := c.w.Clock().Now()
	c.noteAt(sound, history.Grant, token, until)
	for end := time.Now().Add(upTo(c.random, 2*lockTTL)); time.Now().Before(end) && parent.Err() == nil; {
		time.Sleep(5 * time.Millisecond)
		next, now := h.Until(), c.w.Clock().Now()
		if h.Err() != nil {
			// The hold was lost at some time since it was last seen sound, and
			// others may have the lock since then. The exact moment is unknown
			// here, since the goroutine that waits for it may be late.
			c.noteAt(sound, history.Lost, token, until)
			break
		}
		if sound = now; next.After(until) {
			until = next
			c.noteAt(sound, history.Extend, token, until)
		}
	}
	c.note(history.Release, token, until)
	c.released(token, h.Release(context.Background()))
}

// tokenOf returns the token of a lock for the history. Every second caller
// leaves it out: a lock whose token was read is not handed over to another
// caller of the client.
func (c *caller) tokenOf(lock redlock.Lock) *redlock.Token {
	if c.id%2 == 1 {
		return nil
	}
	token := lock.Token()
	return &token
}

// refusals names the reasons why an attempt was not granted; the first match
// applies.
var refusals = []struct {
	err  error
	kind history.Kind
}{
	{context.Canceled, history.Cancel}, {redlock.ErrHeld, history.Held}, {redlock.ErrNoQuorum, history.NoQuorum},
	{redlock.ErrExpired, history.Expired}, {context.DeadlineExceeded, history.Cancel},
}

func (c *caller) refused(err error) {
	kind := history.Error
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			kind = r.kind
			break
		}
	}
	c.note(kind, nil, time.Time{})
	time.Sleep(upTo(c.random, 3*time.Millisecond))
}

func (c *caller) released(token *redlock.Token, err error) {
	switch {
	case err == nil:
		c.note(history.Released, token, time.Time{})
	case errors.Is(err, redlock.ErrNotHeld):
		c.note(history.Lost, token, time.Time{})
	default:
		c.note(history.Error, token, time.Time{})
	}
}
