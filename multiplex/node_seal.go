package multiplex

import (
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

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
	n.trust.looks = looks{next: now + lookFirst, delay: lookFirst}
	return n.sightLocked(s, false, now) // one look is not enough for a debut
}

// inspectDurable warns where a node that is said to keep everything says otherwise. What may not be asked stays unknown
// (R22).
func (n *node) inspectDurable(v resp.Value) error {
	if v.IsError() || !strings.Contains(string(v.Bytes()), "aof_enabled:0") {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.trust.warnings = append(n.trust.warnings, warnNotDurable)
	return nil
}

// sight takes note of what was seen in the place of the seal. An error ends the connection: the deployment has another
// MaxTTL. verified is as for debut.sight. The caller holds the mutex.
func (n *node) sightLocked(s pure.Sighting, verified bool, now time.Duration) error {
	g := n.group
	g.quarantine.debut = g.quarantine.debut.Sight(n.index, s, verified)
	if s.What == pure.SealSeen && s.Seal.MaxTTL != g.quarantine.maxTTL {
		if !g.config.Allow.OtherMaxTTL {
			return otherMaxTTL(s.Seal.MaxTTL, g.quarantine.maxTTL)
		}
		g.raiseLocked(s.Seal.MaxTTL, now)
	}
	n.trust.Trust = n.trust.Sight(s, now)
	n.judgeTrustLocked(now)
	g.tryDebutLocked()
	return nil
}

// tend looks at the seal when it is time, and writes it when that is due. It returns when to come again. The node is up, and
// the caller holds the mutex.
func (n *node) tendLocked(now time.Duration) time.Duration {
	g := n.group
	if n.trust.Need == 0 || g.config.Seal.Read == nil {
		return now + g.config.ProbeAfter
	}
	if now < n.trust.looks.next {
		return n.trust.looks.next
	}
	if !n.trust.looks.asking {
		n.lookLocked()
	}
	if n.trust.Trusted {
		n.trust.looks.delay = lookRarely
	} else {
		n.trust.looks.delay = min(2*n.trust.looks.delay, lookOften)
	}
	n.trust.looks.next = now + n.trust.looks.delay
	return n.trust.looks.next
}

// look asks for the seal, in the lane; what it shows is dealt with when it is there. The caller holds the mutex.
func (n *node) lookLocked() {
	g := n.group
	verified := g.quarantine.debut.Verifying
	q := &inquiry{abandoned: func(*fault) { n.trust.looks.asking = false }}
	q.answer = func(_ int, v resp.Value) error {
		s, err := sightingOf(v)
		if err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		n.trust.looks.asking = false
		now := g.now()
		if err := n.sightLocked(s, verified, now); err != nil {
			return err
		}
		if s.What != pure.Unreadable {
			n.renewSealLocked(s, now)
		}
		return nil
	}
	n.trust.looks.asking = n.inquireLocked(q, g.config.Seal.Read)
}

// renewSeal writes the seal where it is missing, or says less than was watched for. The caller holds the mutex.
func (n *node) renewSealLocked(s pure.Sighting, now time.Duration) {
	suffices := s.What == pure.SealSeen && s.Seal.Run == n.trust.Run &&
		s.Seal.Watched >= n.trust.Need && s.Seal.MaxTTL >= n.group.quarantine.maxTTL
	if !suffices && s.What != pure.SealStrange && n.trust.Proved(now) {
		n.writeSealLocked(n.trust.Watched(now))
	}
}

// writeSeal writes that the node's process was watched for so long, over the connection to that very process. A node that
// refuses to write (-OOM, -MISCONF …) is asked again at the next look; our own trust in it does not depend on that. The
// caller holds the mutex.
func (n *node) writeSealLocked(watched time.Duration) {
	g := n.group
	if g.config.Seal.Write == nil || n.trust.Run == "" || n.trust.looks.writing {
		return
	}
	q := &inquiry{abandoned: func(*fault) { n.trust.looks.writing = false }}
	q.answer = func(_ int, v resp.Value) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		n.trust.looks.writing = false
		count, ok := v.Int64()
		switch {
		case ok && count == 1:
			now := g.now()
			n.trust.Trust = n.trust.Seal(watched, now)
			n.judgeTrustLocked(now)
		case ok: // the key holds something that is not ours to replace
		case !v.IsError():
			return fmt.Errorf("%w: type %q to the seal", ErrUnexpected, v.Type())
		case conn.ClassOf(v) == conn.ClassNoScript:
			n.cureSealLocked()
		}
		return nil
	}
	s := pure.Seal{Run: n.trust.Run, MaxTTL: g.quarantine.maxTTL, Watched: watched}
	n.trust.looks.writing = n.inquireLocked(q, g.config.Seal.Write(s.String()))
}

// cureSeal makes the node know the script again that writes the seal, for the next look, which is soon. The caller holds the
// mutex.
func (n *node) cureSealLocked() {
	g := n.group
	if n.life.State != Up {
		return
	}
	if !n.lane.loading() {
		for _, script := range g.config.Cure {
			n.lane.add(laneEntry{purpose: load}, script)
		}
		g.promptLocked()
	}
	n.trust.looks.next = g.now() + lookFirst
	g.wakeWatchAtLocked(n.trust.looks.next)
}
