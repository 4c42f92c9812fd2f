package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// scriptsRun returns how many scripts a server has run since its start,
// including those of handshakes.
func (f *fleet) scriptsRun(server int) int {
	f.Helper()
	stats := f.must(server, "INFO", "commandstats").(string)
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// releaseAll releases locks at once and returns each one's error.
func releaseAll(ctx context.Context, locks []redlock.Lock) []error {
	errs := make([]error, len(locks))
	var ready, wg sync.WaitGroup
	ready.Add(1)
	for i, lock := range locks {
		wg.Go(func() {
			ready.Wait()
			errs[i] = lock.Release(ctx)
		})
	}
	ready.Done()
	wg.Wait()
	return errs
}

// acquireAll acquires n locks that no other client wants.
func acquireAll(f *fleet, c *redlock.Client, name func(i int) string, n int) []redlock.Lock {
	f.Helper()
	var locks []redlock.Lock
	for i := range n {
		locks = append(locks, acquired(f, c, name(i), time.Minute))
	}
	return locks
}

func numbered(i int) string { return fmt.Sprint("merged:", i) }

// Many callers need fewer scripts than releases, without side effects.
func TestFaultMergedReleases(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	bestOf(t, func() error {
		before := f.scriptsRun(0)
		l := f.load(c, workload{callers: 64})
		l.until(1000, inTheEnd)
		l.end()
		l.fails(fewFailures, redlock.ErrNoQuorum)
		f.noOrphans(unprompted)
		scripts, grants := f.scriptsRun(0)-before, int(l.granted(0, l.now()))
		t.Logf("%d scripts for %d releases", scripts, grants)
		if scripts > grants/2 {
			return fmt.Errorf("%d scripts for %d releases", scripts, grants)
		}
		return nil
	})
}

// Names and results stay separate in a merged release: hostile names side by
// side (R19), our locks beside lost ones, and each lock released twice at once
// (R9).
func TestFaultMergedResults_R9_R19(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried, Prefix: "p\r\n"})
	f.allUp(c, inTheEnd)
	names := []string{"\r\n", "a\r\nFLUSHALL\r\n", "$5\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "\xff\xfe", "$-1\r\n",
		strings.Repeat("k", 1024), strings.Repeat("\r\n", 511), "{a}b"}
	name := func(i int) string { return names[i%len(names)] + fmt.Sprint(i/len(names)) }
	name = func(inner func(int) string) func(int) string {
		return func(i int) string { s := inner(i); return s[max(0, len(s)-1024):] }
	}(name)
	for range 5 {
		locks := acquireAll(f, c, name, 60)
		for i := range 5 {
			for k := 0; k < len(locks); k += 3 {
				f.must(i, "SET", "p\r\n"+name(k), "stranger")
			}
		}
		granted := make(map[int]int)
		for i, err := range releaseAll(context.Background(), append(locks, locks...)) {
			switch k := i % len(locks); {
			case err == nil:
				granted[k]++
			case !errors.Is(err, redlock.ErrNotHeld) && !errors.Is(err, multiplex.ErrTimeout):
				t.Errorf("lock %d: %v", k, err)
			}
		}
		for k := range locks {
			if want := min(k%3, 1); granted[k] != want {
				t.Errorf("lock %d: %d of two releases say that it was held, not %d", k, granted[k], want)
			}
		}
		for i := range 5 {
			eventually(t, unprompted, func() error { // the slowest node's answer is not waited for
				if keys := f.keys(i, nil); len(keys) != 20 {
					return fmt.Errorf("server %d has %d keys of strangers, not 20", i, len(keys))
				}
				return nil
			})
			f.must(i, "FLUSHALL")
		}
	}
	if n := c.Nodes()[0].Connects; n != 1 {
		t.Errorf("%d connects", n)
	}
}

// The same for extensions: fewer scripts than locks, and each lock gets its own
// TTL.
func TestFaultExtensionsAreMerged_R10(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	locks := acquireAll(f, c, numbered, 64)
	begun := time.Now()
	bestOf(t, func() error {
		before := f.scriptsRun(0)
		var working sync.WaitGroup
		for i := range locks {
			working.Go(func() {
				longer, err := locks[i].Extend(context.Background(), time.Duration(100+i)*time.Second)
				if err != nil || longer.Validity() < time.Duration(98+i)*time.Second-time.Since(begun) {
					t.Errorf("lock %d: %v, valid for %v", i, err, longer.Validity())
				}
			})
		}
		working.Wait()
		if n := f.scriptsRun(0) - before; n >= len(locks)/2 {
			return fmt.Errorf("%d scripts for %d extensions: next to nothing was merged", n, len(locks))
		}
		return nil
	})
	eventually(t, inTheEnd, func() error { // the slowest node's answer is not waited for
		for i := range 5 {
			for k := range locks {
				ttl, want := f.must(i, "PTTL", numbered(k)).(int64), int64(100+k)*1000
				if ttl > want || ttl < want-time.Since(begun).Milliseconds()-10 {
					return fmt.Errorf("node %d, lock %d: %d ms are left of %d", i, k, ttl, want)
				}
			}
		}
		return nil
	})
	for i, err := range releaseAll(context.Background(), locks) {
		if err != nil {
			t.Errorf("lock %d: %v", i, err)
		}
	}
}

// A key of another type does not disturb the others. It is not our lock: its
// own release says so, and nothing is owed (R8, R9).
func TestFaultOddKeyAmongMerged_R8(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	locks := acquireAll(f, c, numbered, 64)
	const odd = 17
	for i := range 5 {
		f.must(i, "DEL", numbered(odd))
		f.must(i, "RPUSH", numbered(odd), "x")
	}
	before := f.scriptsRun(0)
	for i, err := range releaseAll(context.Background(), locks) {
		if i != odd {
			if err != nil {
				t.Errorf("lock %d: %v", i, err)
			}
			continue
		}
		if !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("the odd one: %v", err)
		}
	}
	if n := f.scriptsRun(0) - before; n >= len(locks) {
		t.Errorf("%d scripts for %d releases: nothing was merged", n, len(locks))
	}
	eventually(t, unprompted, func() error {
		for i, n := range c.Nodes() {
			if keys := f.keys(i, nil); n.Debts != 0 || len(keys) != 1 {
				return fmt.Errorf("node %d has %d debts and the keys %q", i, n.Debts, keys)
			}
		}
		return nil
	})
	if n := c.Nodes()[0].Connects; n != 1 {
		t.Errorf("%d connects", n)
	}
}

// Servers that lose their scripts under load get them again, without side
// effects (R24).
func TestFaultScriptsFlushedUnderMergedLoad_R24(t *testing.T) {
	f := newFleet(t, 5)
	bestOf(t, func() error {
		c := f.client(redlock.Config{NodeTimeout: unhurried})
		defer c.Close(context.Background())
		f.allUp(c, inTheEnd)
		l := f.load(c, workload{callers: 64, fresh: true})
		for i := range 60 {
			f.must(i%5, "SCRIPT", "FLUSH")
			time.Sleep(5 * time.Millisecond)
		}
		l.end()
		l.fails(fewFailures, redlock.ErrNoQuorum)
		return f.curedInPlace(c, l)
	})
}

// Callers acquire and release one resource each, over and over, some of them
// impatient, while the segments of three nodes are delayed by varying times: no
// SET is overtaken by its own release, and no release by the next SET (R8). So
// no caller is ever refused by its own key, and nothing is left.
func TestFaultMergedReleasesOverSlowLinks_R8(t *testing.T) {
	for _, impatient := range []bool{false, true} {
		t.Run(fmt.Sprint("impatient=", impatient), func(t *testing.T) {
			f := newFleet(t, 5)
			proxies := redistest.Proxies(t, f.servers[:3])
			urls := append(redistest.URLs(proxies), redistest.URLs(f.servers[3:])...)
			c := f.client(redlock.Config{Nodes: redlock.Nodes(urls...), NodeTimeout: unhurried})
			f.allUp(c, inTheEnd)
			before := f.scriptsRun(4)
			w := workload{callers: 48, turns: 1}
			if impatient {
				w.context = impatience
			}
			l := f.load(c, w)
			for l.now() < 800*time.Millisecond || l.granted(0, l.now()) < 200 && l.now() < inTheEnd {
				p := proxies[rand.N(3)]
				switch rand.N(4) {
				case 0:
					p.Pause(redistest.Up)
					time.Sleep(rand.N(20 * time.Millisecond))
					p.Resume(redistest.Up)
				case 1:
					p.Chunk(redistest.Both, 1+rand.N(200))
				default:
					p.Latency(rand.N(10*time.Millisecond), rand.N(10*time.Millisecond))
				}
				time.Sleep(rand.N(10 * time.Millisecond))
			}
			for _, p := range proxies {
				p.Latency(0, 0)
				p.Chunk(redistest.Both, 0)
			}
			l.end()
			allowed := []error{redlock.ErrNoQuorum}
			if impatient {
				allowed = append(allowed, context.Canceled)
			}
			l.fails(-1, allowed...) // ErrHeld and ErrNotHeld are not allowed
			f.noOrphans(unprompted)
			grants := int(l.granted(0, l.now()))
			t.Logf("%d grants, %d scripts, %v", grants, f.scriptsRun(4)-before, l.errs)
			if grants < 200 {
				t.Errorf("only %d grants", grants)
			}
		})
	}
}

// impatience returns a context that ends within a few milliseconds, for every
// other attempt.
func impatience() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if rand.N(2) == 0 {
		return ctx, cancel
	}
	timer := time.AfterFunc(1+rand.N(8*time.Millisecond), cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// Connections die during merged commands and their replies, at any byte: the
// others decide, and what was in flight is owed and paid (R8, R16).
func TestFaultConnectionsDieUnderMergedLoad_R8_R16(t *testing.T) {
	f := newFleet(t, 5)
	proxies := redistest.Proxies(t, f.servers[:2])
	urls := append(redistest.URLs(proxies), redistest.URLs(f.servers[2:])...)
	c := f.client(redlock.Config{Nodes: redlock.Nodes(urls...), NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	f.looked(proxies...)
	l := f.load(c, workload{callers: 64, fresh: true})
	for i := range 8 {
		time.Sleep(20 * time.Millisecond)
		p, connects := proxies[i%2], c.Nodes()[i%2].Connects
		switch i % 4 {
		case 0, 1:
			p.CutOnce(redistest.Down, int64(1000+rand.N(1000)))
		case 2:
			p.Reset()
		case 3:
			p.CutOnce(redistest.Up, int64(3000+rand.N(3000)))
		}
		eventually(t, inTheEnd, func() error {
			if n := c.Nodes()[i%2]; n.State != "up" || n.Connects == connects {
				return fmt.Errorf("node %d is %s after %d connects: %v", i%2, n.State, n.Connects, n.Err)
			}
			return nil
		})
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.allUp(c, inTheEnd)
	f.noOrphans(unprompted)
	if n := c.Nodes()[0].Connects + c.Nodes()[1].Connects; n < 2+8 {
		t.Errorf("only %d connects", n)
	}
}

// Locks that are released at once by callers whose context ends at that moment
// are released all the same (R9).
func TestFaultMergedReleasesOfImpatientCallers_R9(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	for range 20 {
		locks := acquireAll(f, c, numbered, 40)
		ctx, cancel := context.WithTimeout(context.Background(), rand.N(300*time.Microsecond))
		for i, err := range releaseAll(ctx, locks) {
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, multiplex.ErrTimeout) {
				t.Errorf("lock %d: %v", i, err)
			}
		}
		cancel()
		f.noOrphans(unprompted)
	}
}
