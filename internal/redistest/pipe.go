package redistest

import (
	"cmp"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// pipe carries the bytes of one direction of one connection:
//
//	Write → wire (sent, not arrived: latency, pause) → inbox (arrived) → Read
//
// The end of the connection (FIN or RST) is a segment like any other, so it
// arrives behind the bytes that were sent before it. Unlike net.Pipe, Write
// does not wait for the reader until the window is full.
//
// Waiting is done on a sync.Cond and on timers only, both of which
// testing/synctest knows to be durable.
type pipe struct {
	pair *pair
	dir  Direction

	mu       sync.Mutex // guards the following
	cond     sync.Cond
	wire     []segment
	flying   int       // bytes in wire
	last     time.Time // arrival of the youngest segment
	armed    bool      // a timer will pump
	inbox    []byte
	end      error // what Read returns after the inbox; nil while open
	gone     bool  // the reader closed: what arrives is dropped
	shut     bool  // the writer closed
	broken   error // what Write returns; nil while it works
	stuck    bool  // nothing arrives any more
	void     bool  // what is written vanishes
	cutLeft  int64 // bytes until the connection is cut; negative: never
	readBy   deadline
	writeBy  deadline
	delivery *time.Timer
}

// segment is bytes that arrive together, or the end of the connection.
type segment struct {
	at   time.Time
	data []byte
	end  error
}

// newPipe is given the settings, because its maker holds the link's lock.
func newPipe(pr *pair, dir Direction, w way) *pipe {
	p := &pipe{pair: pr, dir: dir, cutLeft: -1}
	if w.cutSet {
		p.cutLeft = w.cut
	}
	p.cond.L = &p.mu
	return p
}

// Read waits for bytes, the end, or the deadline. As with a socket, a deadline
// that has passed is judged before bytes that are there.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.gone:
			return 0, net.ErrClosed
		case p.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p.inbox) > 0:
			return p.take(b), nil
		case p.end != nil:
			return 0, p.end
		case len(b) == 0:
			return 0, nil
		}
		p.cond.Wait()
	}
}

// isShut reports whether the writer has closed its end.
func (p *pipe) isShut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shut
}

// Write waits only while the window is full.
func (p *pipe) Write(b []byte) (int, error) {
	n, cut, err := p.write(b)
	if cut {
		// Outside the lock: the cut concerns the other direction too.
		p.pair.link.cutDone(p.dir)
		p.pair.cutOther(p.dir)
	}
	return n, err
}

// write goes in rounds of what the window has room for. The settings are read
// again in each: they may have changed while it waited.
func (p *pipe) write(b []byte) (n int, cut bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(b) {
		w := p.pair.link.way(p.dir)
		room := cmp.Or(w.window, defaultWindow) - p.flying - len(p.inbox)
		switch {
		case p.shut:
			return n, false, net.ErrClosed
		case p.writeBy.passed():
			return n, false, os.ErrDeadlineExceeded
		case p.broken != nil:
			return n, false, p.broken
		case p.void:
			return len(b), false, nil
		case p.gone:
			// A segment that reaches a closed socket is answered with RST:
			// this Write still succeeds, the next one does not.
			p.broken = syscall.EPIPE
			return len(b), false, nil
		case room <= 0:
			p.cond.Wait()
			continue
		}
		chunk := b[n:min(n+room, len(b))]
		if p.cutLeft >= 0 && int64(len(chunk)) >= p.cutLeft {
			p.send(w, chunk[:p.cutLeft])
			p.fail(w)
			return len(b), true, nil
		}
		if p.cutLeft > 0 {
			p.cutLeft -= int64(len(chunk))
		}
		p.send(w, chunk)
		n += len(chunk)
	}
	return n, false, nil
}

// finish ends the direction from the writer's side: io.EOF is FIN, anything
// else is RST. Either arrives behind what was written.
func (p *pipe) finish(end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return
	}
	p.shut = true
	p.writeBy.stop()
	if !p.void && !p.gone && p.broken == nil {
		p.launch(p.pair.link.way(p.dir), segment{end: end})
	}
	p.cond.Broadcast()
}

// abandon ends the direction from the reader's side.
func (p *pipe) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.readBy.stop()
	p.inbox = nil
	p.dropWire()
	p.cond.Broadcast()
}

// lose drops the bytes in transit. If the connection is broken already, they
// and the end behind them still arrive (Link.Break).
func (p *pipe) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return
	}
	p.dropWire()
	p.last = time.Time{} // nothing is left that the end could overtake
}

// unread reports that bytes have arrived and were not read.
func (p *pipe) unread() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inbox) > 0
}

// reset drops the bytes in transit and ends both sides.
func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropWire()
	p.broken = syscall.ECONNRESET
	if p.end == nil && !p.stuck {
		p.end = syscall.ECONNRESET
	}
	p.cond.Broadcast()
}

// hangUp ends the direction as if its writer had closed it, without being
// asked.
func (p *pipe) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil || p.shut || p.void {
		return
	}
	p.broken = syscall.EPIPE
	p.launch(p.pair.link.way(p.dir), segment{end: io.EOF})
	p.cond.Broadcast()
}

// breakLate ends the connection for the writer at once. For the reader it ends
// behind the bytes in transit, which are late.
func (p *pipe) breakLate(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil || p.shut || p.void {
		return
	}
	for i := range p.wire {
		p.wire[i].at = p.wire[i].at.Add(late)
		p.last = p.wire[i].at
	}
	p.fail(p.pair.link.way(p.dir))
}

// swallow ends the connection for the reader, and not for the writer.
func (p *pipe) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropWire()
	p.void = true
	if p.end == nil {
		p.end = syscall.ECONNRESET
	}
	p.cond.Broadcast()
}

// stick ends the connection for the writer, and not for the reader.
func (p *pipe) stick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropWire()
	p.stuck = true
	p.broken = syscall.ECONNRESET
	p.cond.Broadcast()
}

// setCut counts from now.
func (p *pipe) setCut(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLeft = n
}

// setReadDeadline also wakes a reader that waits already, as sockets do: it is
// how a connection is interrupted.
func (p *pipe) setReadDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readBy.set(t, p.wake)
	p.cond.Broadcast()
}

// setWriteDeadline does the same for a writer.
func (p *pipe) setWriteDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeBy.set(t, p.wake)
	p.cond.Broadcast()
}

// wake makes the waiting goroutines check again.
func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
}

// pumpNow delivers what is due, after a pause or when the timer fired.
func (p *pipe) pumpNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pump(p.pair.link.way(p.dir))
}

// The callers of the following must hold the lock.

// take gives the reader what has arrived, a chunk at most.
func (p *pipe) take(b []byte) int {
	if limit := p.pair.link.way(p.dir).chunk; limit > 0 && limit < len(b) {
		b = b[:limit]
	}
	n := copy(b, p.inbox)
	p.inbox = p.inbox[n:]
	p.cond.Broadcast() // there is room
	return n
}

// send copies the bytes and puts them on the wire.
func (p *pipe) send(w way, b []byte) {
	if len(b) == 0 {
		return
	}
	p.pair.touch()
	data := append([]byte(nil), b...)
	if w.drip <= 0 {
		p.launch(w, segment{data: data})
		return
	}
	for i := range data {
		p.launch(w, segment{data: data[i : i+1]})
	}
}

// launch gives the segment its time of arrival, never before the one in front.
func (p *pipe) launch(w way, s segment) {
	s.at = time.Now().Add(w.latency)
	if p.last.After(s.at) {
		s.at = p.last
	}
	if w.drip > 0 && len(s.data) > 0 {
		s.at = s.at.Add(w.drip)
	}
	p.last = s.at
	p.wire = append(p.wire, s)
	p.flying += len(s.data)
	p.pump(w)
}

// fail ends a direction that was cut.
func (p *pipe) fail(w way) {
	p.cutLeft = -1
	p.broken = syscall.ECONNRESET
	p.launch(w, segment{end: syscall.ECONNRESET})
	p.cond.Broadcast()
}

// pump moves what is due from the wire to the inbox and arms the timer for the
// rest.
func (p *pipe) pump(w way) {
	if w.paused || p.stuck {
		return
	}
	now := time.Now()
	for len(p.wire) > 0 && !p.wire[0].at.After(now) {
		p.arrive(p.wire[0])
		p.wire = p.wire[1:]
	}
	if len(p.wire) == 0 || p.armed {
		return
	}
	p.armed = true
	p.delivery = time.AfterFunc(max(pure.Soon, p.wire[0].at.Sub(now)), func() {
		p.mu.Lock()
		p.armed = false
		p.mu.Unlock()
		p.pumpNow()
	})
}

// arrive hands a segment to the reader. Of several ends, the first counts.
func (p *pipe) arrive(s segment) {
	p.flying -= len(s.data)
	if !p.gone {
		p.inbox = append(p.inbox, s.data...)
	}
	if s.end != nil && p.end == nil {
		p.end = s.end
	}
	p.cond.Broadcast()
}

// dropWire drops the bytes in transit and stops their timer: a test that counts
// goroutines must not see its callback.
func (p *pipe) dropWire() {
	p.wire, p.flying = nil, 0
	if p.delivery != nil && p.delivery.Stop() {
		p.armed = false
	}
}

// cutOther ends the direction against the one that was cut: what the other
// side has sent so far still arrives, behind it comes the reset.
func (pr *pair) cutOther(d Direction) {
	other := pr.up
	if d == Up {
		other = pr.down
	}
	w := pr.link.way(other.dir)
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.broken == nil && !other.shut {
		other.fail(w)
	}
}

// deadline is a time after which waiting ends.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set replaces the deadline; the zero time is none.
func (d *deadline) set(t time.Time, wake func()) {
	d.stop()
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(max(pure.Soon, wait), wake)
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// passed compares instead of asking the timer, whose callback may be late.
func (d *deadline) passed() bool {
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

var _ io.ReadWriter = (*pipe)(nil)
