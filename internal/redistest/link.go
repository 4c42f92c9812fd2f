package redistest

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Direction says which way of a connection a setting concerns.
type Direction uint8

// Up is from the client to the server, Down from the server to the client.
const (
	Up Direction = 1 << iota
	Down
	Both = Up | Down
)

// Link is what lies between clients and one address: its settings hold for all
// connections, present and future, and may be changed at any time. The zero
// settings are those of a perfect wire. All methods are safe for concurrent
// use.
type Link struct {
	mu      sync.Mutex // guards the following
	ways    [2]way     // Up, Down
	refused bool
	lossy   bool          // see AbortsLose
	held    chan struct{} // open while dials are held; nil when they are not
	idle    time.Duration // after which connections are closed; 0: never
	pairs   map[*pair]struct{}
	dials   int
}

// way is the settings of one direction.
type way struct {
	latency time.Duration
	drip    time.Duration
	chunk   int // most bytes per Read; 0: any number
	window  int // most bytes sent and not read; 0: defaultWindow
	cut     int64
	cutSet  bool // cut holds
	cutOnce bool
	paused  bool
}

// Some hundred KiB is about what the kernel's two socket buffers hold together.
const defaultWindow = 256 << 10

// newLink returns a perfect wire.
func newLink() *Link {
	return &Link{pairs: make(map[*pair]struct{})}
}

// Latency sets how long bytes travel. Bytes already under way keep their time.
func (l *Link) Latency(up, down time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[0].latency, l.ways[1].latency = up, down
}

// Pause holds all bytes, and the ends of connections behind them, until Resume.
// Connections can still be opened, as they can to a process that was stopped.
func (l *Link) Pause(d Direction) {
	l.change(d, func(w *way) { w.paused = true })
}

// Resume lets the held bytes go on, in the order in which they were sent.
func (l *Link) Resume(d Direction) {
	l.change(d, func(w *way) { w.paused = false })
	for _, p := range l.pipes(d) {
		p.pumpNow()
	}
}

// Drip lets bytes arrive one at a time, each the given time after the one
// before. Zero ends it.
func (l *Link) Drip(d Direction, each time.Duration) {
	l.change(d, func(w *way) { w.drip = each })
}

// Chunk bounds what one Read returns: Chunk(Down, 1) splits every reply at
// every byte, without taking time. Zero ends it.
func (l *Link) Chunk(d Direction, n int) {
	l.change(d, func(w *way) { w.chunk = n })
}

// Window sets how many bytes may be sent and not yet read before Write waits.
// If zero, 256 KiB.
func (l *Link) Window(d Direction, n int) {
	l.change(d, func(w *way) { w.window = n })
}

// Cut resets every connection as soon as it has carried n bytes: open ones
// counted from now, later ones from their beginning. With n = 0 the first byte
// written is lost already. A negative n ends it.
func (l *Link) Cut(d Direction, n int64) {
	l.setCut(d, n, false)
}

// CutOnce is Cut for the first connection that comes so far; it alone is reset.
func (l *Link) CutOnce(d Direction, n int64) {
	l.setCut(d, n, true)
}

// Reset ends every open connection as if the network had sent RST to both
// ends: what is under way is lost, what has arrived can still be read.
func (l *Link) Reset() {
	for _, pr := range l.open() {
		pr.reset()
	}
}

// Break ends every open connection for its client, which sees that at once. The
// bytes that the client has sent still arrive, later by the given time and with
// the end behind them: the server may get a command of the old connection after
// those of a new one (R8).
func (l *Link) Break(late time.Duration) {
	for _, pr := range l.open() {
		pr.up.breakLate(late)
		pr.down.reset()
	}
}

// IdleTimeout closes each connection that is opened from now on as soon as no
// byte was sent over it for so long, in either direction, as proxies and
// servers do: both ends are sent FIN. Zero ends it.
func (l *Link) IdleTimeout(after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = after
}

// HalfOpen makes the server's end of every open connection vanish without a
// sign to the client: the server's end is reset, the client's end sees nothing,
// and the bytes that it writes are lost.
func (l *Link) HalfOpen() {
	for _, pr := range l.open() {
		pr.halfOpen()
	}
}

// Refuse makes dials fail with "connection refused", or ends that.
func (l *Link) Refuse(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = on
}

// AbortsLose makes an end that is closed by an abort lose what it sent and what
// has not arrived, as a kernel throws away what it has not sent, or not got
// acknowledged. So it does with an end that is closed with bytes that it has
// not read, which a kernel answers with RST too. What has arrived can still be
// read. Without it every byte that was written arrives, which is the worse case
// for what must not be executed late (R8), and hides what is lost (R28). It
// concerns Network only: behind a Proxy are real sockets.
func (l *Link) AbortsLose(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = on
}

// abortsLose is asked by an end that is closed.
func (l *Link) abortsLose() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lossy
}

// HoldDials makes dials wait until it is called with false or their context
// ends, as if the network swallowed every SYN. It concerns Network only: the
// kernel answers for a Proxy.
func (l *Link) HoldDials(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.held == nil:
		l.held = make(chan struct{})
	case !on && l.held != nil:
		close(l.held)
		l.held = nil
	}
}

// Conns is the number of connections with an end that is not closed.
func (l *Link) Conns() int {
	return len(l.open())
}

// Dialed is the number of connections whose client has not closed its end. The
// node's end may be open for longer: what was sent before arrives first.
func (l *Link) Dialed() (n int) {
	for _, pr := range l.open() {
		if !pr.up.isShut() {
			n++
		}
	}
	return n
}

// Dials is the number of connections ever opened.
func (l *Link) Dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// connect waits as long as a dial takes, a round trip, and adds a connection.
func (l *Link) connect(ctx context.Context) (*pair, error) {
	l.mu.Lock()
	held := l.held
	trip := l.ways[0].latency + l.ways[1].latency
	l.mu.Unlock()

	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if trip > 0 {
		timer := time.NewTimer(max(pure.Soon, trip))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Judged last: the answer comes from what is there when the SYN arrives.
	// And at once with the pair, so that a Reset after Refuse misses none.
	if l.refused {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	return l.addLocked(), nil
}

// add makes the two pipes of a new connection.
func (l *Link) add() *pair {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addLocked()
}

func (l *Link) addLocked() *pair {
	pr := &pair{link: l, ends: 2, idle: l.idle}
	pr.up = newPipe(pr, Up, l.ways[0])
	pr.down = newPipe(pr, Down, l.ways[1])
	l.pairs[pr] = struct{}{}
	l.dials++
	if pr.idle > 0 {
		pr.timer = time.AfterFunc(max(pure.Soon, pr.idle), pr.hangUp)
	}
	return pr
}

// remove forgets a connection both of whose ends are closed.
func (l *Link) remove(pr *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, pr)
}

// open returns the connections of the moment. It copies, because what follows
// takes the locks of pipes, and a pipe asks for the link's while it holds its
// own.
func (l *Link) open() []*pair {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*pair, 0, len(l.pairs))
	for pr := range l.pairs {
		all = append(all, pr)
	}
	return all
}

// pipes returns the pipes of one direction, or of both, of all connections.
func (l *Link) pipes(d Direction) []*pipe {
	var all []*pipe
	for _, pr := range l.open() {
		if d&Up != 0 {
			all = append(all, pr.up)
		}
		if d&Down != 0 {
			all = append(all, pr.down)
		}
	}
	return all
}

// change applies f to the settings of one direction, or of both.
func (l *Link) change(d Direction, f func(*way)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ways {
		if d&(1<<i) != 0 {
			f(&l.ways[i])
		}
	}
}

// setCut is for connections to come and for those that are open.
func (l *Link) setCut(d Direction, n int64, once bool) {
	l.change(d, func(w *way) { w.cut, w.cutSet, w.cutOnce = n, n >= 0, once })
	for _, p := range l.pipes(d) {
		p.setCut(n)
	}
}

// cutDone is called by a connection that was cut.
func (l *Link) cutDone(d Direction) {
	if l.way(d).cutOnce {
		l.setCut(d, -1, false)
	}
}

// way returns the settings of one direction, Up or Down.
func (l *Link) way(d Direction) way {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[d>>1]
}

// pair is a connection: its two pipes, and how many of its ends are open.
type pair struct {
	link     *Link
	up, down *pipe
	idle     time.Duration
	timer    *time.Timer // until it was idle for too long; nil: no limit

	mu   sync.Mutex // guards the following
	ends int
	half bool // the server's end is gone, and the client does not see it
}

// leave is called once by each end that closes.
func (pr *pair) leave() {
	pr.mu.Lock()
	pr.ends--
	last := pr.ends == 0
	pr.mu.Unlock()
	if last {
		if pr.timer != nil {
			pr.timer.Stop()
		}
		pr.link.remove(pr)
	}
}

// touch is called for all that is sent.
func (pr *pair) touch() {
	if pr.timer != nil && pr.timer.Stop() {
		pr.timer.Reset(max(pure.Soon, pr.idle))
	}
}

// hangUp is FIN to both ends.
func (pr *pair) hangUp() {
	pr.up.hangUp()
	pr.down.hangUp()
}

// reset is RST to both ends.
func (pr *pair) reset() {
	pr.up.reset()
	pr.down.reset()
}

// halfOpen: the server's end learns that it is over, the client's end does not.
// The way down is stuck first: once the server's end knows, a Proxy closes its
// socket, and the end of that would still travel down.
func (pr *pair) halfOpen() {
	pr.mu.Lock()
	pr.half = true
	pr.mu.Unlock()
	pr.down.stick()
	pr.up.swallow()
}

// isHalfOpen is asked by Proxy, whose sockets must be ended by hand then.
func (pr *pair) isHalfOpen() bool {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.half
}
