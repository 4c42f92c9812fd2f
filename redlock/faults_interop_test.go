package redlock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Another program that follows the algorithm's description and our client
// exclude each other on the same masters (R1, R2, R9).
func TestFaultInteropByHand_R1_R2_R9(t *testing.T) {
	f := newFleet(t, 5)
	commands := map[string]func(s *redistest.Server, args ...string) (string, error){"raw commands": byDo}
	if _, err := exec.LookPath("redis-cli"); err == nil {
		commands["redis-cli"] = byCLI
	} else {
		t.Log("redis-cli is not on PATH: the other program is raw commands only")
	}
	for name, run := range commands {
		t.Run(name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			other := &byHand{f.servers, run, hex.EncodeToString}
			c := f.client(redlock.Config{NodeTimeout: unhurried})
			f.allUp(c, inTheEnd)
			f.excludeInTurn(c, other)
			f.excludeInTheRace(c, other)
			f.noOrphans(unprompted)
		})
	}
}

// Clients of this module with today's tokens and with the 20 raw bytes of older
// versions exclude each other: whole values are compared.
func TestFaultInteropWithRawTokens_R3(t *testing.T) {
	f := newFleet(t, 5)
	older := &byHand{f.servers, byDo, func(random []byte) string { return string(random) }}
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	f.excludeInTurn(c, older)
	f.excludeInTheRace(c, older)
	f.noOrphans(unprompted)
}

// byHand is the algorithm as described, one server after another.
type byHand struct {
	servers []*redistest.Server
	run     func(s *redistest.Server, args ...string) (string, error)
	text    func(random []byte) string // turns random bytes into a token
}

func byDo(s *redistest.Server, args ...string) (string, error) {
	v, err := s.Do(args...)
	if v == nil {
		v = ""
	}
	return fmt.Sprint(v), err
}

func byCLI(s *redistest.Server, args ...string) (string, error) {
	socket := strings.TrimPrefix(s.UnixURL(), "unix://")
	out, err := exec.Command("redis-cli", append([]string{"-s", socket}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

const releaseByHand = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (b *byHand) acquire(key string, ttl time.Duration) (token string, ok bool) {
	random := make([]byte, 20)
	_, _ = rand.Read(random)
	token = b.text(random)
	start, granted := time.Now(), 0
	for _, s := range b.servers {
		if v, err := b.run(s, "SET", key, token, "NX", "PX", fmt.Sprint(ttl.Milliseconds())); err == nil && v == "OK" {
			granted++
		}
	}
	if granted > len(b.servers)/2 && time.Since(start) < ttl-ttl/100-2*time.Millisecond {
		return token, true
	}
	b.release(key, token)
	return "", false
}

func (b *byHand) release(key, token string) {
	for _, s := range b.servers {
		_, _ = b.run(s, "EVAL", releaseByHand, "1", key, token)
	}
}

// excludeInTurn tests each way of being excluded once.
func (f *fleet) excludeInTurn(c *redlock.Client, other *byHand) {
	f.Helper()
	ours := acquired(f, c, "turn", 30*time.Second)
	if _, ok := other.acquire("turn", 30*time.Second); ok {
		f.Error("the other got a lock that we hold")
	}
	if _, err := ours.Extend(context.Background(), time.Minute); err != nil {
		f.Errorf("the other's attempt took something from us: %v", err)
	}
	other.release("turn", "a token that no client has")
	if err := ours.Release(context.Background()); err != nil {
		f.Errorf("Release: %v", err)
	}
	f.noOrphans(unprompted) // a release returns with a quorum of answers
	token, ok := other.acquire("turn", 30*time.Second)
	if !ok {
		f.Fatal("the other did not get what we released")
	}
	if _, err := c.TryAcquire(context.Background(), "turn", 30*time.Second); !errors.Is(err, redlock.ErrHeld) {
		f.Errorf("not ErrHeld while the other holds it: %v", err)
	}
	if err := ours.Release(context.Background()); !errors.Is(err, redlock.ErrNotHeld) {
		f.Errorf("releasing twice, while the other holds it: %v", err)
	}
	if n := f.on("turn", token); n != 5 {
		f.Errorf("the other's lock stands on %d servers", n)
	}
	other.release("turn", token)
}

// excludeInTheRace lets both compete for one resource for a while; a holder
// must be alone.
func (f *fleet) excludeInTheRace(c *redlock.Client, other *byHand) {
	f.Helper()
	length := 700 * time.Millisecond
	if testing.Short() {
		length = 300 * time.Millisecond
	}
	var inside, ours, theirs atomic.Int64
	alone := func() {
		if inside.Add(1) != 1 {
			f.Error("two holders at once")
		}
		time.Sleep(500 * time.Microsecond)
		inside.Add(-1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begun := time.Now()
	enough := func() { // for the time, and until both have had it
		if time.Since(begun) > length && ours.Load() > 0 && theirs.Load() > 0 {
			cancel()
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				lock, err := c.Acquire(ctx, "race", time.Minute)
				if err != nil {
					continue
				}
				alone()
				ours.Add(1)
				if err := lock.Release(context.Background()); err != nil {
					f.Errorf("Release: %v", err)
				}
				enough()
				time.Sleep(5 * time.Millisecond) // otherwise the slower program would never get it
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			token, ok := other.acquire("race", time.Minute)
			if !ok {
				continue
			}
			alone()
			theirs.Add(1)
			other.release("race", token)
			enough()
		}
	})
	wg.Wait()
	f.Logf("ours %d, theirs %d", ours.Load(), theirs.Load())
	if ours.Load() == 0 || theirs.Load() == 0 {
		f.Error("one of the two never got it")
	}
}
