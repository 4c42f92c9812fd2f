package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// callers are what the player of a story about the kinds of lock has besides:
// several clients, called a, b, c, of which each has one caller or more: a, a2.
type callers struct {
	clients map[string]*Client
	all     map[string]*caller
	ways    map[string]*redistest.Network // of clients that have one of their own
	owners  bool
	old     []map[string]string // the nodes' keys before a call that was begun
	grants  []granting
}

// A granting is the result of an attempt.
type granting struct {
	lock Lock
	err  error
	at   time.Time
}

// A caller has locks, and may wait for another.
type caller struct {
	client *Client
	locks  []Lock // the last one is released first
	former Lock
	call   chan granting // of a call that waits
	cancel context.CancelFunc
}

const (
	aCaller  = `([a-z])(\d?)`
	aWish    = `(read|write|take|lock)`
	anEnding = `([a-z ]+?)(?: at place (\d+))?(?: at (\S+))?(?: by (\S+))? after ` + aRange + `(?: validity ` + aRange + `)?(?: : (.+))?`
)

// maxTTL is Config.MaxTTL of stories with fencing numbers.
const maxTTL = 2 * time.Second

// connect makes the clients that lines speak of. Before fenced ones it opens
// the deployment, with floors.
func (p *player) connect(lines []line) {
	if p.config.Fenced {
		_, err := Init(p.t.Context(), p.memory.reach(p.config))
		require.NoError(p.t, err)
	}
	for _, l := range lines {
		name := l.client
		if name == "" || p.clients[name] != nil {
			continue
		}
		config := p.config
		config.Logger = slog.New(slog.DiscardHandler)
		if p.owners {
			config.Owner = name
		}
		if way := p.ways[name]; way != nil {
			config.Connect.NetDial = way.Dial
		}
		p.clients[name] = p.memory.client(p.t, config)
		if config.Fenced {
			require.NoError(p.t, p.clients[name].Ready(p.t.Context()))
		}
	}
}

// leave ends the calls that still wait.
func (p *player) leave() {
	for _, c := range p.all {
		if c.call != nil {
			c.cancel()
			<-c.call
		}
	}
}

func (p *player) caller(name, number string) *caller {
	c := p.all[name+number]
	if c == nil {
		c = &caller{client: p.clients[name]}
		p.all[name+number] = c
	}
	return c
}

// locker returns what a caller wants.
func (c *caller) locker(verb, words string) Locker {
	var permits int
	rest := strings.Fields(words)
	switch {
	case verb == "read":
		return c.client.RW(resource).Read()
	case verb == "write":
		return c.client.RW(resource).Write()
	case verb == "take":
		_, _ = fmt.Sscanf(words, " a permit of %d", &permits)
		return c.client.Semaphore(resource, permits)
	case slices.Equal(rest, []string{"fairly"}):
		return c.client.Fair(resource)
	case len(rest) > 0:
		return c.client.All(rest...)
	}
	return c.client.Lock(resource)
}

// wants makes one attempt: "a reads : acquired after 2ms".
func (p *player) wants(a []string) error {
	c := p.caller(a[0], a[1])
	k, ttl := c.locker(a[2], a[3]), p.ttlOf(a[4])
	ctx, cancel := p.context()
	defer cancel()
	lock, err := k.TryAcquire(ctx, ttl)
	return p.judge(c, granting{lock, err, time.Now()}, "acquired", a[5:])
}

// context begins a call. Its context ends when the story says so.
func (p *player) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	switch {
	case p.cancels && p.cancelAfter == 0:
		cancel()
	case p.cancels:
		time.AfterFunc(max(pure.Soon, p.cancelAfter), cancel)
	}
	p.cancels, p.start = false, time.Now()
	return ctx, cancel
}

func (p *player) ttlOf(text string) time.Duration {
	ttl := p.ttl
	if text != "" {
		_ = set(&ttl, text)
	}
	return ttl
}

// waits begins a call that waits, or a single attempt: "a waits to read".
func (p *player) waits(a []string) error {
	c := p.caller(a[0], a[1])
	k, ttl := c.locker(a[3], a[4]), p.ttlOf(a[5])
	call := k.Acquire
	if a[2] == "begins" {
		call = k.TryAcquire
		p.old = nil
		for _, node := range p.memory.nodes {
			keys := map[string]string{}
			for _, key := range node.Keys() {
				keys[key], _ = node.Get(key)
			}
			p.old = append(p.old, keys)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.call, c.cancel = make(chan granting, 1), cancel
	p.start = time.Now()
	go func(ended chan granting) {
		lock, err := call(ctx, ttl)
		ended <- granting{lock, err, time.Now()}
	}(c.call)
	synctest.Wait()
	return nil
}

func (p *player) stillWaits(a []string) error {
	synctest.Wait()
	if c := p.caller(a[0], a[1]); c.call == nil || len(c.call) > 0 {
		return errors.New("it does not wait")
	}
	return nil
}

// hears is the end of a call that waited: "b : acquired after 3ms".
func (p *player) hears(a []string) error {
	c := p.caller(a[0], a[1])
	select {
	case g := <-c.call:
		c.call = nil
		return p.judge(c, g, "acquired", a[2:])
	case <-time.After(30 * time.Second):
		return errors.New("it still waits after 30 s")
	}
}

// does something with a lock that the caller has: "a releases : released after
// 2ms".
func (p *player) does(a []string) (err error) {
	c, good := p.caller(a[0], a[1]), "acquired"
	with := c.former
	verb, again := strings.CutSuffix(a[2], " again")
	if n := len(c.locks); n > 0 && !again {
		with = c.locks[n-1]
	}
	if first, of, ok := strings.Cut(verb, " the lock of "); ok {
		verb, with = first, p.all[of].locks[0]
	}
	var lock Lock
	ctx, cancel := p.context()
	defer cancel()
	switch verb, what, _ := strings.Cut(verb, " "); verb {
	case "upgrades":
		lock, err = c.client.RW(resource).Upgrade(ctx, with, p.ttl)
	case "downgrades":
		if lock, err = c.client.RW(resource).Downgrade(ctx, with, p.ttlOf(what)); err == nil {
			c.pop()
		}
	case "extends":
		if lock, err = with.Extend(ctx, p.ttlOf(what)); err == nil {
			c.pop()
		}
		good = "extended"
	case "releases":
		if err = with.Release(ctx); !again {
			c.pop()
		}
		good = "released"
	case "gives":
		c.cancel()
		return p.hears(append(a[:2:2], a[3:]...))
	case "closes":
		err, good = c.client.Close(ctx), "closed"
	case "drains":
		err, good = c.client.Drain(ctx), "drained"
	}
	return p.judge(c, granting{lock, err, time.Now()}, good, a[3:])
}

func (c *caller) pop() {
	if n := len(c.locks); n > 0 {
		c.former, c.locks = c.locks[n-1], c.locks[:n-1]
	}
}

// judge compares how a call ended with what the story says: the outcome, the
// caller's place, the resource and the owner of a refusal, the time since the
// last call of any caller began, and the validity.
func (p *player) judge(c *caller, g granting, good string, want []string) error {
	got := good
	if g.err != nil {
		got = outcomeOf(g.err)
	} else if g.lock.grant.TTL > 0 {
		c.locks = append(c.locks, g.lock)
		if err := p.ordered(g); err != nil {
			return err
		}
	}
	took := max(0, g.at.Sub(p.start)) // it may have ended before that call began
	if got != want[0] {
		return fmt.Errorf("%s after %v: %v", got, took, g.err)
	}
	var held HeldError
	if h := (*HeldError)(nil); errors.As(g.err, &h) {
		held = *h
	}
	if place := strconv.Itoa(held.Place); want[1] != "" && want[1] != place || want[2] != "" && want[2] != held.Resource || want[3] != held.Owner {
		return fmt.Errorf("%+v", held)
	}
	if want[5] != "" {
		if err := within(g.lock.until.Sub(g.at), want[5]); err != nil {
			return fmt.Errorf("validity: %w", err)
		}
	}
	if causes := sorted(strings.Split(want[6], ", ")); want[6] != "" && causes != causesOf(g.err) {
		return fmt.Errorf("causes: %s", causesOf(g.err))
	}
	return within(took, want[4])
}

// ordered checks a fenced lock that was granted: its number is higher than
// those of all locks that were granted before its attempt began.
func (p *player) ordered(g granting) error {
	if i := slices.IndexFunc(p.grants, func(o granting) bool {
		return !o.at.After(p.start) && o.lock.Fence() >= g.lock.Fence() && g.lock.Fence() > 0
	}); i >= 0 {
		return fmt.Errorf("number %d, after %d", g.lock.Fence(), p.grants[i].lock.Fence())
	}
	p.grants = append(p.grants, g)
	return nil
}

// attempts counts a client's attempts in a time: "b tries 0..20 times in 10s".
func (p *player) attempts(a []string) error {
	c := p.clients[a[0]]
	before := c.Stats().Attempts.Total()
	if err := p.wait(a[3:]); err != nil {
		return err
	}
	least, _ := strconv.ParseUint(a[1], 10, 64)
	most, _ := strconv.ParseUint(a[2], 10, 64)
	if n := c.Stats().Attempts.Total() - before; n < least || n > most {
		return fmt.Errorf("%d times", n)
	}
	return nil
}

// way gives a client a way of its own to all nodes, or one of them: "way of b
// 60ms".
func (p *player) way(a []string) error {
	own := p.ways[a[0]]
	if own == nil {
		own = p.memory.wires(p.t)
		p.ways[a[0]] = own
	}
	for i := range p.memory.nodes {
		if a[1] != "" && a[1] != strconv.Itoa(i) {
			continue
		}
		link := own.At(p.memory.addr(i))
		if link.Refuse(a[2] == "down"); a[2] == "down" {
			link.Reset()
		}
		if link.Pause(redistest.Up); a[2] != "cut off" {
			link.Resume(redistest.Up)
		}
		if up, down, err := split(a[2]); err == nil {
			link.Latency(up, down)
		}
	}
	return nil
}

// ticketClock makes a client's clock wrong.
func (p *player) ticketClock(a []string) error {
	var d time.Duration
	err := set(&d, a[1])
	if a[2] == "slow" {
		d = -d
	}
	p.clients[a[0]].kinds.Tickets.Correct(d)
	return err
}

// forgets deletes one of the keys of the lock.
func (p *player) forgets(a []string) error {
	for i, n := range p.memory.nodes {
		if a[0] != "" && a[0] != strconv.Itoa(i) {
			continue
		}
		for _, key := range n.Keys() {
			if shortKey(key) == a[1] {
				n.DB().Delete(key)
			}
		}
	}
	return nil
}

// shortKey is how stories name a key of the lock.
func shortKey(key string) string {
	short, ok := strings.CutPrefix(key, resource)
	if !ok {
		return key
	}
	short = strings.TrimPrefix(short, ":redlock:")
	if strings.HasPrefix(short, "queue:") {
		return "lease"
	}
	if short == "" {
		return "lock"
	}
	return short
}

// keys waits until a time after the beginning of the last call, and looks for
// the keys of all nodes, or of one.
func (p *player) keys(a []string) error {
	if err := p.until(a[1]); err != nil {
		return err
	}
	var got []string
	for i, n := range p.memory.nodes {
		for _, key := range n.Keys() {
			if a[0] == "" || a[0] == strconv.Itoa(i) {
				got = append(got, shortKey(key))
			}
		}
	}
	slices.Sort(got)
	got = slices.Compact(got)
	want := strings.Fields(strings.TrimPrefix(a[2], "none"))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("%q instead of %q", got, want)
	}
	return nil
}

// until waits until a time after the beginning of the last call.
func (p *player) until(text string) error {
	var at time.Duration
	require.NoError(p.t, set(&at, text))
	rest := at - time.Since(p.start)
	if rest < 0 {
		return fmt.Errorf("it is %v already", time.Since(p.start))
	}
	time.Sleep(rest)
	synctest.Wait()
	return nil
}

// behind makes a client's numbers too low.
func (p *player) behind(a []string) error {
	var d time.Duration
	err := set(&d, a[1])
	lag(p.clients[a[0]], -d)
	return err
}

// restart restarts a node, empty or as from a file that is a little old.
func (p *player) restart(args []string) error {
	i, _ := strconv.Atoi(args[0])
	p.memory.nodes[i].Restart()
	if args[1] != "" {
		for key, value := range p.old[i] {
			p.memory.nodes[i].DB().Set(key, value, 0)
		}
	}
	synctest.Wait()
	return nil
}

// holds lets another client hold a resource of several on a node.
func (p *player) holds(args []string) error {
	if err := p.node([]string{args[0], args[1], "+OK"}); err != nil {
		return err
	}
	i, _ := strconv.Atoi(args[0])
	p.memory.nodes[i].DB().Set(args[2], stranger, 0)
	return nil
}
