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
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// Several processes compete for a few locks on five servers. Meanwhile servers
// are killed, restarted empty and stopped, connections are killed, reset and
// cut, and the processes themselves are killed, or stopped for longer than
// their locks last. Each process writes a history; merged, the histories show
// no two holders at the same time, but readers, and no more than there are
// permits; and callers of a fair lock are served in order.
func TestHistoryOfLocks_OnRealServers(t *testing.T) {
	redistest.Long(t)
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
	t.Logf("forms: %v, %d upgrades, %d downgrades, %d answers with a place in the queue", x.Forms, x.Upgrades, x.Downgrades, x.Queued)
	for _, form := range []history.Form{history.ReadForm, history.WriteForm, history.PermitForm, history.FairForm} {
		require.Greater(t, x.Forms[form], fewestOfForm, form)
	}
	require.Positive(t, x.Upgrades)
	require.Positive(t, x.Downgrades)
	require.Positive(t, x.Queued)
	require.GreaterOrEqual(t, len(c.kinds), 8, "kinds of faults")
	for _, kind := range []history.Kind{history.Held, history.NoQuorum, history.Cancel} {
		require.Positive(t, outcomes[kind], kind)
	}
}

const (
	lockTime  = 14 * time.Second
	crowdSize = 3  // processes
	callers   = 10 // per process
	lockers   = 4  // of them for locks of other forms
	lockKeys  = 12

	fewestGrants, fewestExtensions, fewestOfForm = 300, 20, 5
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
	for _, form := range []history.Form{history.ReadForm, history.WriteForm, history.PermitForm, history.FairForm} {
		if c.found(`"ev":"grant"`, fmt.Sprintf(`"form":"%s"`, form)) <= fewestOfForm {
			return false
		}
	}
	if c.found(`"ev":"grant"`, `"form":"write","from"`) == 0 || c.found(`"ev":"grant"`, `"form":"read","from"`) == 0 || c.found(`"ev":"queued"`) == 0 {
		return false
	}
	return c.handedOver() > 0 && counts[history.Grant] > fewestGrants*5/4 && counts[history.Extend] > fewestExtensions*5/4 &&
		counts[history.Held] > 0 && counts[history.NoQuorum] > 0 && counts[history.Cancel] > 0
}

// found counts the lines of the histories so far that contain all of the texts.
func (c *crowd) found(texts ...string) (n int) {
	for _, name := range c.files {
		text, _ := os.ReadFile(name)
		for line := range bytes.Lines(text) {
			if !slices.ContainsFunc(texts, func(s string) bool { return !bytes.Contains(line, []byte(s)) }) {
				n++
			}
		}
	}
	return n
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
	count := func(ctx context.Context, a redlock.CallInfo) {
		if a.HandedOver {
			_, _ = handed.Write([]byte{'.'})
		}
		noteQueued(ctx, a, len(e.Nodes))
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
				switch c.attempt += 2; { // one for an upgrade or a downgrade
				case i == 0:
					c.hold(ctx)
				case i < callers-lockers:
					c.lock(ctx)
				default:
					c.locker(ctx)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(client.Close(context.Background()), w.Close())
}

// lock takes a plain lock, with a context that ends soon.
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
	c.use(func() (redlock.Lock, error) { return acquire(ctx, c.resource, lockTTL) })
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
