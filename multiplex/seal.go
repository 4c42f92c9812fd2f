package multiplex

import (
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A Seal says how the seal is read and written: a key on each node that says for how long the process that holds it has been
// watched (R23), so that not every client has to watch for itself. The group knows neither the key's name nor the script.
// The zero Seal is none; then each client watches.
type Seal struct {
	// Read is the command that is answered with the value, or null.
	Read []byte
	// Write gives the command that stores a value unless what is there says more. It is answered with 1 when a seal of the
	// same process stands there that says at least as much, and with 0 when the key holds something else, which is left
	// alone. A node that answers NOSCRIPT gets Config.Cure before the next try.
	Write func(value string) []byte
}

// sightingOf reads the reply to Seal.Read. An error of it is no answer to the command (R16).
func sightingOf(v resp.Value) (pure.Sighting, error) {
	switch {
	case conn.ClassOf(v) == conn.ClassWrongType:
		return pure.Sighting{What: pure.SealStrange}, nil
	case v.IsError():
		return pure.Sighting{What: pure.Unreadable}, nil
	case v.IsNull() && v.Type() != resp.Array:
		return pure.Sighting{What: pure.SealAbsent}, nil
	case v.Type() != resp.BulkString:
		return pure.Sighting{}, fmt.Errorf("%w: type %q to the look at the seal", ErrUnexpected, v.Type())
	}
	s, err := pure.ParseSeal(string(v.Bytes()[:min(len(v.Bytes()), maxSeal)]))
	if err != nil {
		return pure.Sighting{What: pure.SealStrange}, nil
	}
	return pure.Sighting{What: pure.SealSeen, Seal: s}, nil
}

// maxSeal is longer than any seal.
const maxSeal = 512

const (
	// lookFirst is when the seal of a quarantined node is looked at again, doubling to lookOften: another process may have
	// watched for longer. A trusted node's is looked at every lookRarely, to find out that the keys were flushed.
	lookFirst  = 100 * time.Millisecond
	lookOften  = time.Second
	lookRarely = 5 * time.Second
)

// looks is when one node's seal is looked at, and what is under way. The group's mutex guards it.
type looks struct {
	next    time.Duration // when to look again
	delay   time.Duration // after that, while the node is quarantined
	asking  bool          // a look is under way
	writing bool          // a seal is being written
}

// inspect looks at the node once before it joins, over its own connection: for the seal, or, on a node that was declared
// durable, for whether it says that it is. An error ends the connection.
func (n *node) inspect(c *conn.Conn) error {
	g := n.group
	command, judge := g.config.Seal.Read, n.inspectSeal
	if g.config.MaxTTL > 0 && g.config.Durable.Has(n.index) {
		command, judge = infoPersistence, n.inspectDurable
	}
	if g.config.MaxTTL == 0 || command == nil {
		return nil
	}
	ctx, cancel := n.patience()
	defer cancel()
	return c.Exchange(ctx, command, 1, func(_ int, v resp.Value) error { return judge(v) })
}

var infoPersistence = resp.AppendCommand(nil, "INFO", "persistence")

func (n *node) inspectSeal(v resp.Value) error {
	s, err := sightingOf(v)
	if err != nil {
		return err
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	now := n.group.now()
	n.looks = looks{next: now + lookFirst, delay: lookFirst}
	return n.sight(s, false, now) // one look is not enough for a debut
}

// inspectDurable warns where a node that is said to keep everything says otherwise. What may not be asked stays unknown
// (R22).
func (n *node) inspectDurable(v resp.Value) error {
	if v.IsError() || !strings.Contains(string(v.Bytes()), "aof_enabled:0") {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.warnings = append(n.warnings, warnNotDurable)
	return nil
}

// sight takes note of what was seen in the place of the seal. An error ends the connection: the deployment has another
// MaxTTL. verified is as for debut.sight. The caller holds the mutex.
func (n *node) sight(s pure.Sighting, verified bool, now time.Duration) error {
	g := n.group
	g.debut = g.debut.Sight(n.index, s, verified)
	if s.What == pure.SealSeen && s.Seal.MaxTTL != g.maxTTL {
		if !g.config.Allow.OtherMaxTTL {
			return otherMaxTTL(s.Seal.MaxTTL, g.maxTTL)
		}
		g.raise(s.Seal.MaxTTL, now)
	}
	n.trust = n.trust.Sight(s, now)
	n.judgeTrust(now)
	g.tryDebut()
	return nil
}

// tend looks at the seal when it is time, and writes it when that is due. It returns when to come again. The node is up, and
// the caller holds the mutex.
func (n *node) tend(now time.Duration) time.Duration {
	g := n.group
	if n.trust.Need == 0 || g.config.Seal.Read == nil {
		return now + g.config.ProbeAfter
	}
	if now < n.looks.next {
		return n.looks.next
	}
	if !n.looks.asking {
		n.look()
	}
	if n.trust.Trusted {
		n.looks.delay = lookRarely
	} else {
		n.looks.delay = min(2*n.looks.delay, lookOften)
	}
	n.looks.next = now + n.looks.delay
	return n.looks.next
}

// look asks for the seal, in the lane; what it shows is dealt with when it is there. The caller holds the mutex.
func (n *node) look() {
	g := n.group
	verified := g.debut.Verifying
	q := &inquiry{abandoned: func(*fault) { n.looks.asking = false }}
	q.answer = func(_ int, v resp.Value) error {
		s, err := sightingOf(v)
		if err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		n.looks.asking = false
		now := g.now()
		if err := n.sight(s, verified, now); err != nil {
			return err
		}
		if s.What != pure.Unreadable {
			n.renewSeal(s, now)
		}
		return nil
	}
	n.looks.asking = n.inquire(q, g.config.Seal.Read)
}

// renewSeal writes the seal where it is missing, or says less than was watched for. The caller holds the mutex.
func (n *node) renewSeal(s pure.Sighting, now time.Duration) {
	suffices := s.What == pure.SealSeen && s.Seal.Run == n.trust.Run &&
		s.Seal.Watched >= n.trust.Need && s.Seal.MaxTTL >= n.group.maxTTL
	if !suffices && s.What != pure.SealStrange && n.trust.Proved(now) {
		n.writeSeal(n.trust.Watched(now))
	}
}

// writeSeal writes that the node's process was watched for so long, over the connection to that very process. A node that
// refuses to write (-OOM, -MISCONF …) is asked again at the next look; our own trust in it does not depend on that. The
// caller holds the mutex.
func (n *node) writeSeal(watched time.Duration) {
	g := n.group
	if g.config.Seal.Write == nil || n.trust.Run == "" || n.looks.writing {
		return
	}
	q := &inquiry{abandoned: func(*fault) { n.looks.writing = false }}
	q.answer = func(_ int, v resp.Value) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		n.looks.writing = false
		count, ok := v.Int64()
		switch {
		case ok && count == 1:
			now := g.now()
			n.trust = n.trust.Seal(watched, now)
			n.judgeTrust(now)
		case ok: // the key holds something that is not ours to replace
		case !v.IsError():
			return fmt.Errorf("%w: type %q to the seal", ErrUnexpected, v.Type())
		case conn.ClassOf(v) == conn.ClassNoScript:
			n.cureSeal()
		}
		return nil
	}
	s := pure.Seal{Run: n.trust.Run, MaxTTL: g.maxTTL, Watched: watched}
	n.looks.writing = n.inquire(q, g.config.Seal.Write(s.String()))
}

// cureSeal makes the node know the script again that writes the seal, for the next look, which is soon. The caller holds the
// mutex.
func (n *node) cureSeal() {
	g := n.group
	if n.life.State != Up {
		return
	}
	if !n.lane.loading() {
		for _, script := range g.config.Cure {
			n.lane.add(laneEntry{purpose: load}, script)
		}
		g.prompt()
	}
	n.looks.next = g.now() + lookFirst
	g.wakeWatchAt(n.looks.next)
}
