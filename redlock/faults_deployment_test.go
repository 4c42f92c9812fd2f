package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
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
				if n := first.Nodes(); n[indexOf(sets[0], 2)].Quarantined || n[indexOf(sets[0], 2)].State != "up" {
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

func indexOf(all []int, what int) int {
	for i, v := range all {
		if v == what {
			return i
		}
	}
	return -1
}

// Two such clients that start at the same time never both count, and each
// learns of the other (R30).
func TestFaultOverlappingSetsAtOnce_R30(t *testing.T) {
	f := newFleet(t, 5)
	time.Sleep(4 * time.Second)
	for round := range 20 {
		for name, sets := range overlapping {
			f.each([]int{0, 1, 2, 3, 4}, func(s *redistest.Server) error { _, err := s.Do("FLUSHALL"); return err })
			var clients [2]*redlock.Client
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					var err error
					if clients[i], err = redlock.New(context.Background(), f.some(sets[i])); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			granted := make([]bool, 2)
			for i, c := range clients {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_, err := c.Acquire(ctx, fmt.Sprint("r", i), 500*time.Millisecond)
					granted[i] = err == nil
					if err != nil && !errors.Is(err, redlock.ErrDeployment) {
						t.Errorf("%s, round %d, client %d: %v", name, round, i, err)
					}
				})
			}
			wg.Wait()
			if granted[0] == granted[1] {
				t.Errorf("%s, round %d: granted %v", name, round, granted)
			}
			for _, c := range clients {
				_ = c.Close(context.Background())
			}
		}
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

// On servers that were just started, New does not wait for what takes half a
// minute; after Init, the first lock is there at once (R29).
func TestFaultFirstStart_R29(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	bestOf(t, func() error {
		f.each([]int{0, 1, 2, 3, 4}, func(s *redistest.Server) error { _, err := s.Do("FLUSHALL"); return err })
		start := time.Now()
		c := f.client(redlock.Config{MaxTTL: time.Hour})
		took := time.Since(start)
		t.Logf("New took %v", took)
		_, err := c.TryAcquire(context.Background(), "r", time.Second)
		if err := undecided(err, is(redlock.ErrQuarantined), 0, 1, 2, 3, 4); err != nil {
			return err
		}
		_ = c.Close(context.Background())
		if took > timingSlack*50*time.Millisecond {
			return fmt.Errorf("New took %v", took)
		}
		return nil
	})
	f.each([]int{0, 1, 2, 3, 4}, func(s *redistest.Server) error { _, err := s.Do("FLUSHALL"); return err })
	start := time.Now()
	c := f.founded(redlock.Config{MaxTTL: time.Hour, NodeTimeout: patience})
	t.Logf("Init and New took %v", time.Since(start))
	acquired(t, c, "r", time.Minute)
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
	other := f.some([]int{0, 1, 2})
	for i := range other.Nodes {
		other.Nodes[i].URL += "?db=1"
	}
	sides := regexp.MustCompile("database 1, which this client uses.* database 0 of node .* to deployment " + made.ID)
	_, err = admin.Init(ctx, other)
	if !errors.Is(err, redlock.ErrDeployment) || !sides.MatchString(err.Error()) {
		t.Errorf("Init: %v", err)
	}
	_, err = f.client(other).Acquire(ctx, "r", 500*time.Millisecond)
	if ctx.Err() != nil || !errors.Is(err, redlock.ErrDeployment) || !sides.MatchString(err.Error()) {
		t.Errorf("Acquire: %v", err)
	}
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
	if ctx.Err() != nil || !errors.Is(err, redlock.ErrDeployment) {
		t.Errorf("Acquire without a database: %v", err)
	}
}
