package conn

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn/internal/locate"
	"github.com/redmux/redmux/resp"
)

// ErrMoved is in the chain of the error of a connection that ended because the
// node's server is another one now: see Conn.Follow.
var ErrMoved = errors.New("the server of this node is another one now")

// Follow makes the connection end with ErrMoved, as by Break, once the node's
// server is another one by the word of its Seeds. They are asked again when a
// sentinel says that the master changed, and after Doubt. Without Seeds it does
// nothing. It may be called once, by the owner of the read side.
func (c *Conn) Follow() {
	c.made()
	if c.located == nil {
		return
	}
	must(c.follower == nil, "Follow was called before")
	f := &follower{conn: c, cfg: c.located, doubt: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	c.follower = f
	f.running.Go(func() { f.ask(ctx) })
	if !f.cfg.InCluster() {
		f.running.Go(func() { f.listen(ctx) })
	}
}

// Doubt takes an error reply into account. The answer MOVED of a server of a
// cluster, for the connection's slot, ends the connection with ErrMoved. After
// other errors that a former master replies, the seeds are asked again soon.
// Before Follow it does nothing. It never waits. Only the owner of the read
// side may call it.
func (c *Conn) Doubt(v resp.Value) {
	c.made()
	if c.follower == nil {
		return
	}
	switch ClassOf(v) {
	case ClassMoved:
		if c.located.InCluster() && locate.Moved(v, c.located.Slot) {
			c.Break(ErrMoved)
		}
	case ClassClusterDown, ClassNoReplicas, ClassReadOnly, ClassMasterDown:
		c.follower.askAgain()
	}
}

// A follower finds out whether a connection's server is still the node's. Two
// goroutines ask the seeds, and listen to a sentinel.
type follower struct {
	conn    *Conn
	cfg     *Config
	doubt   chan struct{} // holds one token: the seeds are to be asked
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// end waits until both goroutines have ended.
func (f *follower) end() {
	if f != nil {
		f.cancel()
		f.running.Wait()
	}
}

// askAgain has the seeds asked, at once or after the present question.
func (f *follower) askAgain() {
	select {
	case f.doubt <- struct{}{}:
	default:
	}
}

const (
	// askApart is the least time between questions to the seeds.
	askApart = time.Second
	// listenApart is the pause after a subscription that ended. It grows with
	// each that fails, up to mostApart times.
	listenApart, mostApart = time.Second, 10
	// listenAlive is the time after which a silent subscription is tried, and
	// after the same time again it ends.
	listenAlive = 10 * time.Second
	// mostNews bounds the messages of one subscription.
	mostNews = 1000
)

// ask asks the seeds after each doubt, until the connection ends.
func (f *follower) ask(ctx context.Context) {
	defer f.cancel()
	for {
		select {
		case <-f.doubt:
		case <-f.conn.done:
			return
		}
		if f.outvoted(ctx) {
			f.conn.Break(ErrMoved)
			return
		}
		if !f.sleep(ctx, askApart) {
			return
		}
	}
}

// outvoted reports whether more seeds name one other server than this one. It
// waits for as many answers as may change that: a lock may depend on this
// connection.
func (f *follower) outvoted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, f.timeout())
	defer cancel()
	s := f.asking().search(ctx, f.timeout()/dialParts)
	defer s.end()
	for !s.tally.Decided() && f.conn.Err() == nil && s.wait() {
	}
	return s.tally.Outvoted(f.conn.server.Addr)
}

// asking returns how to ask the seeds now. Servers of a cluster take what
// AppendAuth sent last, unless it was refused: the credentials of the dial may
// have expired.
func (f *follower) asking() *Config {
	cfg, now := *f.cfg, f.conn.hidden.Load()
	cfg.Username, cfg.Password, cfg.Credentials = now.username, now.password, nil
	return &cfg
}

func (f *follower) timeout() time.Duration { return cmp.Or(f.cfg.DialTimeout, DefaultDialTimeout) }

// sleep returns false if the connection ended.
func (f *follower) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(soon, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.conn.done:
	case <-ctx.Done():
	}
	return false
}

// listen subscribes to one sentinel at a time, until the connection ends.
func (f *follower) listen(ctx context.Context) {
	seeds := f.cfg.Seeds.Addrs
	failures := 0
	for i := rand.IntN(len(seeds)); ; i++ {
		if f.subscribe(ctx, seeds[i%len(seeds)]) {
			failures = 0
		} else {
			failures = min(failures+1, mostApart)
		}
		if !f.sleep(ctx, listenApart*time.Duration(1+failures)) {
			return
		}
	}
}

// subscribe has the seeds asked after each message about the master, until the
// connection or the subscription ends. It reports whether there was one. The
// seeds are asked once at its beginning, for what was missed before.
func (f *follower) subscribe(ctx context.Context, seed string) bool {
	cfg := f.cfg.seed(seed, f.timeout()/dialParts)
	cfg.Prelude = []Step{{Name: "SUBSCRIBE", Command: resp.AppendCommand(nil, "SUBSCRIBE", locate.SwitchMaster)}}
	c, err := Dial(ctx, cfg)
	if err != nil {
		return false
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Break(nil) })
	defer stop()
	var heard atomic.Bool
	defer keepAlive(c, &heard)()
	f.askAgain()
	for range mostNews {
		v, err := c.await()
		if err != nil {
			break
		}
		heard.Store(true)
		if locate.Switched(v, f.cfg.Seeds.Master) {
			f.askAgain()
		}
	}
	return true
}

// keepAlive sends a PING now and then, and ends the connection if nothing was
// heard since the last one. The caller must call end.
func keepAlive(c *Conn, heard *atomic.Bool) (end func()) {
	ping := resp.AppendCommand(nil, "PING")
	heard.Store(true)
	var running sync.WaitGroup
	ended := make(chan struct{})
	running.Go(func() {
		ticker := time.NewTicker(listenAlive)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ended:
				return
			}
			if !heard.Swap(false) {
				c.Break(os.ErrDeadlineExceeded)
			}
			_ = c.Send(ping) // an error ends the reading too
		}
	})
	return func() { close(ended); running.Wait() }
}
