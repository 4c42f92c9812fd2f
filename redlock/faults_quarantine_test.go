package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

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

// Keys that are flushed without a restart are noticed within about five
// seconds, and at once on a new connection (R23).
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
	f.flushedWhileAway(c)
}

// flushedWhileAway checks that a node whose keys were flushed is quarantined as
// soon as it is up again. The next look at the seal would also notice it, but
// later.
func (f *fleet) flushedWhileAway(c *redlock.Client) {
	f.Helper()
	connects := c.Nodes()[1].Connects
	f.must(1, "FLUSHALL")
	f.must(1, "CLIENT", "KILL", "TYPE", "normal")
	looked := time.Now()
	eventually(f, inTheEnd, func() error {
		last := looked
		looked = time.Now()
		n := c.Nodes()[1]
		switch {
		case n.State != "up" || n.Connects == connects:
			return fmt.Errorf("it is %s after %d connects: %w", n.State, n.Connects, n.Err)
		case n.Quarantined && n.QuarantineWhy == "seal vanished":
		case time.Since(last) < quarantineTTL: // otherwise it may be over already
			f.Errorf("it is up again, and quarantined: %t (%s)", n.Quarantined, n.QuarantineWhy)
		}
		return nil
	})
}

// A seal vouches for a server to a fresh process, if it is about the process
// that runs there, and all agree on MaxTTL (R23).
func TestFaultSeals_R23(t *testing.T) {
	const (
		sealsTTL  = 4 * time.Second // long enough to look around
		sealsNeed = 4045 * time.Millisecond
	)
	f := newFleet(t, 3)
	f.founded(redlock.Config{MaxTTL: sealsTTL})
	for i := range f.servers {
		eventually(t, inTheEnd, func() error {
			if text := fmt.Sprint(f.must(i, "GET", sealKey)); !strings.Contains(text, " max_ttl_ms=4000 watched_ms=4045 ") {
				return fmt.Errorf("the seal of server %d is %q", i, text)
			}
			return nil
		})
	}
	fresh := f.client(redlock.Config{MaxTTL: sealsTTL, NodeTimeout: patience})
	f.allUp(fresh, inTheEnd)
	f.quarantined(fresh, 0)
	acquired(t, fresh, "at once", time.Second)

	t.Run("another MaxTTL", func(t *testing.T) {
		other := f.client(redlock.Config{MaxTTL: 6 * time.Second, NodeTimeout: patience})
		_, err := other.TryAcquire(context.Background(), "r", time.Second)
		if err := undecided(err, is(redlock.ErrMaxTTL), 0, 1, 2); err != nil {
			t.Error(err)
		}
	})
	t.Run("a seal that was persisted", func(t *testing.T) {
		f := &fleet{t, f.servers}
		old := f.must(1, "GET", sealKey).(string)
		if err := f.servers[1].Restart(); err != nil {
			t.Fatal(err)
		}
		f.must(1, "SET", sealKey, old)
		next := f.client(redlock.Config{MaxTTL: sealsTTL})
		f.allUp(next, inTheEnd)
		f.quarantined(next, 0, 1)
		f.quarantined(fresh, inTheEnd, 1)
		// And a single server that restarted empty is no new deployment.
		f.must(1, "DEL", sealKey)
		later := f.client(redlock.Config{MaxTTL: sealsTTL})
		f.allUp(later, inTheEnd)
		f.quarantined(later, 0, 1)
		f.quarantined(later, sealsNeed+inTheEnd)
	})
	t.Run("a longer MaxTTL is rolled out", func(t *testing.T) {
		f := &fleet{t, f.servers}
		longer := f.client(redlock.Config{MaxTTL: 6 * time.Second, Allow: redlock.Allow{OtherMaxTTL: true}})
		f.allUp(longer, inTheEnd)
		f.quarantined(longer, 6*time.Second+inTheEnd) // less, as far as the seals' age suffices
		eventually(t, inTheEnd, func() error {
			for i := range f.servers {
				if text := f.must(i, "GET", sealKey).(string); !strings.Contains(text, " max_ttl_ms=6000 ") {
					return fmt.Errorf("the seal of server %d is %q", i, text)
				}
			}
			return nil
		})
		bestOf(t, func() error {
			begun := time.Now()
			short := f.client(redlock.Config{MaxTTL: time.Second, Allow: redlock.Allow{OtherMaxTTL: true}})
			f.allUp(short, inTheEnd)
			f.quarantined(short, inTheEnd)
			if took := time.Since(begun); took > 6*time.Second {
				return fmt.Errorf("trusted after %v: not for the seal, but since it was watched", took)
			}
			return nil
		})
		for i := range f.servers {
			if text := f.must(i, "GET", sealKey).(string); !strings.Contains(text, " max_ttl_ms=6000 ") {
				t.Errorf("the seal of server %d was lowered: %q", i, text)
			}
		}
		// Clients that do not allow it are refused.
		f.state(fresh, 0, inTheEnd, "down", "dialing", "paying")
		eventually(t, inTheEnd, func() error { // each node is examined in turn
			if _, err := fresh.TryAcquire(context.Background(), "r", time.Second); !errors.Is(err, redlock.ErrMaxTTL) {
				return fmt.Errorf("not ErrMaxTTL: %w", err)
			}
			return nil
		})
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

// With the advised rights everything works, including the seal; without one of
// them the error names the command, and the advice (R22).
func TestFaultPermissions_R22(t *testing.T) {
	for _, without := range []string{"", "+eval", "+evalsha", "+script|load", "+get", "+del", "+pttl", "+pexpire"} {
		t.Run("without "+without, func(t *testing.T) {
			f := newFleet(t, 3)
			leastPrivilege(f, without)
			config := redlock.Config{
				Username: "redlock", Password: "secret of the test", Prefix: "lock:", MaxTTL: time.Minute,
				NodeTimeout: patience,
			}
			if without == "" || without == "+eval" { // not used
				acquired(t, f.founded(config), "r", time.Second)
				return
			}
			c := f.client(config)
			eventually(t, 5*time.Second, func() error {
				n := c.Nodes()[0]
				var p *multiplex.PreflightError
				switch {
				case !errors.Is(n.Err, multiplex.ErrPermissions) || !errors.As(n.Err, &p):
					return fmt.Errorf("not ErrPermissions: %w", n.Err)
				case !strings.Contains(strings.ToLower(p.Found), strings.ReplaceAll(without[1:], "|", " ")):
					return fmt.Errorf("does not name the command: %w", n.Err)
				case !strings.Contains(p.Advice, without):
					return fmt.Errorf("does not say what to grant: %w", n.Err)
				case strings.Contains(n.Err.Error(), "lock:"), strings.Contains(n.Err.Error(), "secret"):
					return fmt.Errorf("says too much: %w", n.Err)
				}
				return nil
			})
			t.Log(c.Nodes()[0].Err)
		})
	}
}

// The advised rule is valid for the server.
func TestFaultAdvisedRights_R22(t *testing.T) {
	f := newFleet(t, 3)
	advice := (&multiplex.PreflightError{}).Advice
	leastPrivilege(f, "+del")
	c := f.client(redlock.Config{Username: "redlock", Password: "secret of the test", Prefix: "lock:"})
	eventually(t, 5*time.Second, func() error {
		var p *multiplex.PreflightError
		if !errors.As(c.Nodes()[0].Err, &p) {
			return fmt.Errorf("no explanation: %w", c.Nodes()[0].Err)
		}
		advice = p.Advice
		return nil
	})
	_, rule, _ := strings.Cut(advice, "ACL SETUSER ")
	rule, _, _ = strings.Cut(rule, ";")
	rule = strings.NewReplacer("<user>", "redlock", "<prefix>", "lock:").Replace(rule)
	for i := range f.servers {
		f.must(i, append([]string{"ACL", "SETUSER"}, strings.Fields(rule)...)...)
	}
	fixed := f.client(redlock.Config{
		Username: "redlock", Password: "secret of the test", Prefix: "lock:", NodeTimeout: patience,
	})
	f.allUp(fixed, inTheEnd)
	lock := acquired(t, fixed, "r", time.Second)
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}
