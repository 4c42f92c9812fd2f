package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/stretchr/testify/require"
)

// overlapping are the servers of two clients that must not both count (R30).
var overlapping = map[string][2][]int{
	"ABC and CDE":     {{0, 1, 2}, {2, 3, 4}},
	"CDE and ABC":     {{2, 3, 4}, {0, 1, 2}},
	"N of 3 and of 5": {{0, 1, 2}, {0, 1, 2, 3, 4}},
	"N of 5 and of 3": {{0, 1, 2, 3, 4}, {0, 1, 2}},
}

// some returns a configuration for some of the servers, which have been
// running for longer than its MaxTTL.
func (f *fleet) some(servers []int) redlock.Config {
	config := redlock.Config{MaxTTL: time.Second, NodeTimeout: patience}
	for _, i := range servers {
		config.Nodes = append(config.Nodes, redlock.Node{URL: f.servers[i].URL()})
	}
	return f.reach(config)
}

// refused checks that Acquire ends at once, with an error that names both
// sides (R30, R31).
func refused(c *redlock.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
	defer cancel()
	_, err := c.Acquire(ctx, "r", 500*time.Millisecond)
	switch {
	case err == nil:
		return errors.New("the second was granted a lock")
	case ctx.Err() != nil:
		return fmt.Errorf("it waited: %w", err)
	case !errors.Is(err, redlock.ErrDeployment), !errors.Is(err, redlock.ErrNoQuorum):
		return fmt.Errorf("not ErrDeployment: %w", err)
	case !bothSides.MatchString(err.Error()):
		return fmt.Errorf("does not name both sides: %w", err)
	}
	return nil
}

var bothSides = regexp.MustCompile("deployment [0-9a-f]{32} of [35] nodes.*(this client has [35]|belongs to no deployment)|" +
	"(belongs to no deployment|deployment [0-9a-f]{32} of [35] nodes).*deployment [0-9a-f]{32} of [35] nodes")

// A client whose servers overlap with those of another deployment is refused,
// and stays so after a server of that deployment was replaced by an empty one,
// for as long as a client of it lives (R30).
func TestFaultOverlappingSets_R30(t *testing.T) {
	for name, sets := range overlapping {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5)
			time.Sleep(4 * time.Second) // for longer than MaxTTL and the margin of the uptime
			start := time.Now()
			first := f.client(f.some(sets[0]))
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			lock, err := first.Acquire(ctx, "first", time.Second)
			t.Logf("the first lock after %v: %v", time.Since(start), err)
			if err != nil {
				t.Fatal(err)
			}
			_ = lock.Release(context.Background())
			second := f.client(f.some(sets[1]))
			if err := refused(second); err != nil {
				t.Error(err)
			}
			if err := f.servers[2].Restart(); err != nil { // both have it
				t.Fatal(err)
			}
			eventually(t, inTheEnd, func() error {
				if n := first.Nodes(); n[slices.Index(sets[0], 2)].Quarantined || n[slices.Index(sets[0], 2)].State != "up" {
					return errors.New("the server does not count for the first again")
				}
				return nil
			})
			for _, c := range []*redlock.Client{second, f.client(f.some(sets[1]))} {
				eventually(t, inTheEnd, func() error { return refused(c) })
			}
			ctx, cancel = context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, err := first.Acquire(ctx, "r", time.Second); err != nil { // the first quorum may come too late
				t.Error(err)
			}
		})
	}
}

// A master belongs to a deployment with one of its databases. A client that
// names another one is refused, also by Init, with both sides in the error, and
// leaves nothing there (R30).
func TestFaultAnotherDatabase_R30(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
	defer cancel()
	made, err := admin.Init(ctx, f.some([]int{0, 1, 2}))
	if err != nil {
		t.Fatal(err)
	}
	other := f.inDatabase1()
	sides := regexp.MustCompile("database 1, which this client uses.* database 0 of node .* to deployment " + made.ID)
	_, err = admin.Init(ctx, other)
	if !errors.Is(err, redlock.ErrDeployment) || !sides.MatchString(err.Error()) {
		t.Errorf("Init: %v", err)
	}
	_, err = f.client(other).Acquire(ctx, "r", 500*time.Millisecond)
	if ctx.Err() != nil || !errors.Is(err, redlock.ErrDeployment) || !sides.MatchString(err.Error()) {
		t.Errorf("Acquire: %v", err)
	}
	// So is one whose master shows the client's own deployment there.
	f.must(2, "SWAPDB", "0", "1")
	swapped := f.client(f.some([]int{0, 1, 2}))
	eventually(t, inTheEnd, func() error {
		if n := swapped.Nodes()[2]; !regexp.MustCompile("database 0, which .* database 1 of node 2 .* to deployment " + made.ID).MatchString(n.QuarantineWhy) {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	f.must(2, "SWAPDB", "0", "1")
	acquired(t, f.client(f.some([]int{0, 1, 2})), "r", 500*time.Millisecond)
	if _, err := admin.Init(ctx, other, made.ID); err != nil {
		t.Errorf("an operator says that the first deployment is over: %v", err)
	}
	// Then the clients of the first are refused, as are those whose database is
	// an unset variable: redis://host/$DB.
	unset := f.some([]int{0, 1, 2})
	for i := range unset.Nodes {
		unset.Nodes[i].URL += "/"
	}
	_, err = f.client(unset).Acquire(ctx, "r", 500*time.Millisecond)
	if ctx.Err() != nil || !errors.Is(err, redlock.ErrDeployment) || !strings.Contains(err.Error(), "database 0, which this client uses") {
		t.Errorf("Acquire without a database: %v", err)
	}
}

// Init that dies while it replaces a deployment by one in another database
// leaves seals of the old one. No other client goes on for it: the old one's
// clients could count there (R30). A repeated call does.
func TestFaultReplacedInAnotherDatabase_R30(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
	defer cancel()
	old, err := admin.Init(ctx, f.some([]int{0, 1, 2}))
	if err != nil {
		t.Fatal(err)
	}
	var seals [3]string
	for i := range f.servers {
		seals[i] = f.must(i, "GET", "redlock:seal").(string)
	}
	other := f.inDatabase1()
	if _, err := admin.Init(ctx, other, old.ID); err != nil {
		t.Fatal(err)
	}
	proof := regexp.MustCompile(" run_id=.*")
	for i := range 2 {
		f.must(i, "SET", "redlock:seal", seals[i])
		f.must(i, "SWAPDB", "0", "1")
		listed := strings.Replace(f.must(i, "GET", "redlock:seal").(string), " deployment=", " listed=", 1)
		f.must(i, "SET", "redlock:seal", proof.ReplaceAllString(listed, ""))
		f.must(i, "SWAPDB", "0", "1")
	}
	c := f.client(other)
	eventually(t, inTheEnd, func() error {
		for i, n := range c.Nodes()[:2] {
			if !strings.Contains(n.QuarantineWhy, "database 0 of node ") || !strings.Contains(n.QuarantineWhy, old.ID) {
				return fmt.Errorf("node %d: %q", i, n.QuarantineWhy)
			}
		}
		return nil
	})
	if _, err := admin.Init(ctx, other, old.ID); err != nil {
		t.Error(err)
	}
	for i := range f.servers {
		if left := f.must(i, "GET", "redlock:seal"); left != nil {
			t.Errorf("server %d: %v", i, left)
		}
	}
	eventually(t, inTheEnd, func() error { // after its next look
		lock, err := c.TryAcquire(ctx, "r", 500*time.Millisecond)
		if err == nil {
			err = lock.Release(ctx)
		}
		return err
	})
}

// inDatabase1 is some for database 1 of all servers.
func (f *fleet) inDatabase1() redlock.Config {
	config := f.some([]int{0, 1, 2})
	for i := range config.Nodes {
		config.Nodes[i].URL += "?db=1"
	}
	return config
}

// Clients may write the same address in several ways. A master that comes back
// empty gets its place again by each of them, also from a client that has never
// seen it there (R30).
func TestFaultSeveralNames_R30(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	by := func(host string) *redlock.Client {
		config := f.some([]int{0, 1, 2})
		for i := range config.Nodes {
			config.Nodes[i].URL = strings.Replace(config.Nodes[i].URL, "127.0.0.1", host, 1)
		}
		return f.client(config)
	}
	first, second := f.founded(f.some([]int{0, 1, 2})), by("localhost")
	f.quarantined(second, inTheEnd)
	twoNames := regexp.MustCompile(" names=([0-9a-f:]{33},){5}")
	eventually(t, inTheEnd, func() error {
		for i := range f.servers {
			if seal := f.must(i, "GET", sealKey).(string); !twoNames.MatchString(seal) {
				return errors.New(seal)
			}
		}
		return nil
	})
	for _, c := range []*redlock.Client{first, second} {
		_ = c.Close(context.Background())
	}
	for _, host := range []string{"localhost", "127.0.0.1"} {
		if err := f.servers[2].Restart(); err != nil {
			t.Fatal(err)
		}
		c := by(host)
		f.quarantined(c, inTheEnd, 2)
		f.quarantined(c, inTheEnd)
		_ = c.Close(context.Background())
	}
}

const (
	quarantineTTL = 2 * time.Second
	// quarantineNeed is how long a node is watched for that TTL: 1 % more plus
	// 5 ms.
	quarantineNeed = 2025 * time.Millisecond
	sealKey        = "redlock:seal"
	// patience is a vote timeout for rounds that need every vote.
	patience = unhurried
)

// quarantined waits until exactly these nodes of a client are up and
// quarantined.
func (f *fleet) quarantined(c *redlock.Client, within time.Duration, nodes ...int) time.Duration {
	f.Helper()
	return eventually(f, within, func() error {
		var now []int
		for i, n := range c.Nodes() {
			if n.Quarantined && n.State == "up" {
				now = append(now, i)
			}
		}
		if !slices.Equal(now, nodes) {
			return fmt.Errorf("quarantined are %v, not %v", now, nodes)
		}
		return nil
	})
}

// founded opens a deployment, and returns a client that trusts all of its
// servers.
func (f *fleet) founded(config redlock.Config) *redlock.Client {
	f.Helper()
	if config.MaxTTL > 0 {
		if _, err := admin.Init(context.Background(), f.reach(config)); err != nil {
			f.Fatal(err)
		}
	}
	c := f.client(config)
	f.allUp(c, inTheEnd)
	f.quarantined(c, inTheEnd)
	return c
}

// Exactly three of five masters grant; one of the three is killed and comes
// back empty. Neither the client that saw it nor a fresh one gets a second lock
// before the first one's validity has ended, and the master counts again soon
// after its quarantine. With Forgetful the second lock is granted; the README
// warns of that (R23).
func TestFaultTheDecidingVoteIsForgotten_R23(t *testing.T) {
	for name, maxTTL := range map[string]time.Duration{"MaxTTL": quarantineTTL, "Forgetful": 0} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5, redistest.OverTCP)
			config := redlock.Config{MaxTTL: maxTTL, NodeTimeout: patience}
			ttl := quarantineTTL
			if maxTTL == 0 {
				ttl = time.Minute // a restart is slow on a busy machine
			}
			c := f.founded(config)
			for i := range 2 { // these two have granted the resource to another client, which is gone
				f.must(i, "SET", "r", "foreign", "PX", "60000")
			}
			first := acquired(t, c, "r", ttl) // each of the three votes is needed
			if err := f.servers[4].Kill(); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				f.must(i, "DEL", "r")
			}
			if err := f.servers[4].Restart(); err != nil {
				t.Fatal(err)
			}
			fresh := f.client(config)
			f.state(c, 4, 5*time.Second, "up")
			up := time.Now()
			second := false
			for i := 0; first.Validity() > 0 && !second; i++ {
				lock, err := []*redlock.Client{c, fresh}[i%2].TryAcquire(context.Background(), "r", ttl)
				second = err == nil && first.Validity() > 0
				if err == nil {
					_ = lock.Release(context.Background())
				}
				time.Sleep(2 * time.Millisecond)
			}
			if second != (maxTTL == 0) {
				t.Fatalf("a second grant within the validity of the first: %v", second)
			}
			if maxTTL == 0 {
				return
			}
			f.quarantined(c, quarantineNeed+inTheEnd)
			after := time.Since(up) - quarantineNeed
			t.Logf("counts again %v after its quarantine", after)
			// The client saw it up a little after the watch had started.
			if after < -time.Second || after > timingSlack*1500*time.Millisecond {
				t.Errorf("it counts again %v after its quarantine", after)
			}
			f.quarantined(fresh, quarantineNeed+inTheEnd)
			if after := time.Since(up) - quarantineNeed; after > timingSlack*1500*time.Millisecond {
				t.Errorf("for a fresh process it counts again %v after its quarantine", after)
			}
			f.stop(0, 1)
			lock := acquired(t, c, "r", quarantineTTL)
			f.continues(0, 1)
			_ = lock.Release(context.Background())
		})
	}
}

// All servers are killed at once and come back empty. Clients that were there
// and fresh ones get no second lock within the first's validity, and the lock
// is granted again at most MaxTTL × 1.01 and two seconds after the start (R23,
// R29): the clients that were there return within 1.2 s, and wait for another
// two in case there is more to know (R30).
func TestFaultPowerFailure_R23_R29(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	config := redlock.Config{MaxTTL: quarantineTTL, NodeTimeout: patience}
	c := f.founded(config)
	for range 3 {
		bestOf(t, func() error { return f.powerFailure(c, config) })
	}
}

// powerFailure returns an error if the next lock came too late.
func (f *fleet) powerFailure(c *redlock.Client, config redlock.Config) error {
	f.Helper()
	first := acquired(f, c, "r", quarantineTTL)
	all := []int{0, 1, 2, 3, 4}
	f.each(all, (*redistest.Server).Kill)
	f.each(all, (*redistest.Server).Restart)
	start := time.Now()
	late := make([]error, 2)
	var wg sync.WaitGroup
	for i, client := range []*redlock.Client{c, f.client(config)} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
			defer cancel()
			lock, err := client.Acquire(ctx, "r", time.Second)
			took := time.Since(start)
			if err != nil {
				f.Error(err)
				return
			}
			if first.Validity() > 0 {
				f.Error("two holders")
			}
			f.Logf("granted %v after the start", took)
			if took > timingSlack*(quarantineTTL*101/100+2*time.Second) {
				late[i] = fmt.Errorf("granted only %v after the start", took)
			}
			_ = lock.Release(context.Background())
		})
	}
	wg.Wait()
	return errors.Join(late...)
}

// A seal vouches for a server to a fresh process, if it is about the process
// that runs there: not one that was persisted, and none where a single server
// restarted empty (R23).
func TestFaultSeals_R23(t *testing.T) {
	const need = 4045 * time.Millisecond // of a TTL that is long enough to look around
	config := redlock.Config{MaxTTL: 4 * time.Second, NodeTimeout: patience}
	f := newFleet(t, 3)
	f.founded(config)
	for i := range f.servers {
		eventually(t, inTheEnd, func() error {
			text := fmt.Sprint(f.must(i, "GET", sealKey))
			if seal, err := pure.ParseSeal(text); err != nil || seal.MaxTTL != config.MaxTTL || seal.Watched < need || seal.Watched > need+inTheEnd {
				return fmt.Errorf("the seal of server %d is %q", i, text)
			}
			return nil
		})
	}
	fresh := f.client(config)
	f.allUp(fresh, inTheEnd)
	f.quarantined(fresh, 0)
	acquired(t, fresh, "at once", time.Second)
	old := f.must(1, "GET", sealKey).(string)
	if err := f.servers[1].Restart(); err != nil {
		t.Fatal(err)
	}
	f.must(1, "SET", sealKey, old)
	for range 2 {
		next := f.client(config)
		f.allUp(next, inTheEnd)
		f.quarantined(next, 0, 1)
		f.must(1, "DEL", sealKey)
	}
	f.quarantined(fresh, inTheEnd, 1)
	f.quarantined(fresh, need+inTheEnd)
}

// Keys that are flushed without a restart are noticed within about five
// seconds (R23).
func TestFaultFlushAll_R23(t *testing.T) {
	f := newFleet(t, 5)
	c := f.founded(redlock.Config{MaxTTL: quarantineTTL, NodeTimeout: patience})
	f.must(2, "FLUSHALL")
	t.Logf("noticed after %v", f.quarantined(c, 9*time.Second, 2)) // less than two of the regular looks, five seconds apart
	if n := c.Nodes()[2]; n.QuarantineWhy != "seal vanished" || n.Connects != 1 {
		t.Errorf("quarantined for another reason: %s, after %d connects", n.QuarantineWhy, n.Connects)
	}
	f.quarantined(c, quarantineNeed+inTheEnd)
	eventually(t, inTheEnd, func() error {
		if !c.Nodes()[2].Sealed {
			return errors.New("not sealed again")
		}
		return nil
	})
}

// Servers that cannot write the seal grant no locks either. They are asked
// again, and nothing is left to wait for then.
func TestFaultSealAtMaxmemory_R23(t *testing.T) {
	f := newFleet(t, 3)
	for i := range f.servers {
		f.must(i, "CONFIG", "SET", "maxmemory", "1")
	}
	c := f.client(redlock.Config{MaxTTL: time.Second})
	f.allUp(c, inTheEnd)
	eventually(t, inTheEnd, func() error { // when they have run for a while
		_, err := c.TryAcquire(context.Background(), "r", time.Second)
		return undecided(err, is(redlock.ErrUnopened), 0, 1, 2)
	})
	for i := range f.servers {
		if c.Nodes()[i].Sealed || f.must(i, "EXISTS", sealKey) != int64(0) {
			t.Errorf("server %d is sealed", i)
		}
		f.must(i, "CONFIG", "SET", "maxmemory", "0")
	}
	f.quarantined(c, inTheEnd)
	eventually(t, inTheEnd, func() error {
		for i, n := range c.Nodes() {
			if !n.Sealed {
				return fmt.Errorf("server %d is not sealed", i)
			}
		}
		return nil
	})
}

// inTurn listens on an address that leads to each of the servers in turn.
func inTurn(t *testing.T, servers []*redistest.Server) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var pipes sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); pipes.Wait() })
	var dials atomic.Int64
	pipes.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", servers[dials.Add(1)%int64(len(servers))].TCPAddr())
			if err != nil {
				_ = near.Close()
				continue
			}
			pipes.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
			pipes.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
		}
	})
	return l.Addr().String()
}

// A records holds what a client logged.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *records) count(part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), part)
}

// One address that leads to two servers in turn is warned about in Nodes, and
// once in the log; one that leads to one server is not (R22).
func TestFaultOneNameOfTwoServers_R22(t *testing.T) {
	f := newFleet(t, 2, redistest.OverTCP)
	for several, addr := range map[bool]string{true: inTurn(t, f.servers), false: inTurn(t, f.servers[:1])} {
		var log records
		c := f.client(redlock.Config{Nodes: redlock.Nodes("redis://" + addr), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		warned := func() error {
			if w := c.Nodes()[0].Warnings; len(w) != 1 || !strings.Contains(w[0], "several servers") || log.count("several servers") != 1 {
				return errors.New("no warning: " + strings.Join(w, ", "))
			}
			return nil
		}
		if several {
			eventually(t, inTheEnd, warned)
			if n := log.count("node is up"); n != 1 {
				t.Error(n, " records that the node is up")
			}
			continue
		}
		time.Sleep(200 * time.Millisecond)
		if warned() == nil || len(c.Nodes()[0].Warnings) > 0 {
			t.Error("one server is warned about: ", c.Nodes()[0].Warnings)
		}
	}
}

// A record of numbers that is none does not stop fencing for good: when another
// server restarts empty, attempts name the way out, and the reset gets there.
// Numbers go on rising, by the servers' clocks (R33).
func TestFaultBadRecordOfNumbers_R33(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	c := f.founded(redlock.Config{Fenced: true, MaxTTL: quarantineTTL, NodeTimeout: patience})
	ctx := context.Background()
	number := func() uint64 {
		lock, err := c.TryAcquire(ctx, "r", quarantineTTL)
		if err != nil {
			return 0
		}
		_ = lock.Release(ctx)
		return lock.Fence()
	}
	last := number()
	require.Positive(t, last)
	record, err := pure.ParseRecord(f.must(2, "GET", "redlock:fence").(string))
	require.NoError(t, err)
	record.Cur = pure.LastNumber
	f.must(2, "SET", "redlock:fence", record.String())
	require.NoError(t, f.servers[0].Restart())
	eventually(t, inTheEnd, func() error {
		lock, err := c.TryAcquire(ctx, "r", quarantineTTL)
		if err == nil {
			err = lock.Release(ctx)
		}
		if errors.Is(err, redlock.ErrNoQuorum) && strings.Contains(err.Error(), "redlock fence reset") {
			return nil
		}
		return fmt.Errorf("the way out is not named: %w", err)
	})
	eventually(t, inTheEnd, func() error {
		_, err := admin.ResetFence(ctx, f.reach(redlock.Config{MaxTTL: quarantineTTL}), 0)
		return err
	})
	eventually(t, inTheEnd, func() error {
		next := number()
		if next == 0 {
			return errors.New("still no number")
		}
		require.Greater(t, next, last)
		require.Less(t, next, uint64(time.Now().Add(pure.Belief).UnixMicro()))
		return nil
	})
}

// A master of no deployment as the third of a client whose other two belong to
// one does not count, however long it is watched, and Nodes and the log say why
// (R30).
func TestFaultMasterOfNoDeployment_R30(t *testing.T) {
	f := newFleet(t, 4)
	ctx, cancel := context.WithTimeout(context.Background(), inTheEnd)
	defer cancel()
	if err := f.client(f.some([]int{0, 1, 2})).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var log records
	config := f.some([]int{0, 1, 3})
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := f.client(config)
	if err := c.Ready(ctx); err != nil { // by the two members
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // longer than MaxTTL
	const says = "belongs to no deployment"
	if n := c.Nodes()[2]; !n.Quarantined || !strings.Contains(n.QuarantineWhy, says) {
		t.Errorf("the stranger counts: %v, %q", n.Quarantined, n.QuarantineWhy)
	}
	if log.count("level=WARN") == 0 || log.count(says) == 0 {
		t.Error("the log does not name it")
	}
	if err := f.servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, inTheEnd, func() error {
		_, err := c.TryAcquire(context.Background(), "r", 500*time.Millisecond)
		if !errors.Is(err, redlock.ErrDeployment) || !strings.Contains(err.Error(), says) {
			return fmt.Errorf("with a member down: %w", err)
		}
		return nil
	})
}
