package multiplex

import (
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// sightingOf reads the reply to Seal.Read. It returns an error if the reply
// cannot answer the command (R16).
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

// inspect checks the node once before it joins, over its own connection: it
// reads the seal, or on a node declared durable, whether the server says so. An
// error ends the connection.
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
	n.trust.looks = pure.FirstLooks(now)
	return n.sightLocked(s, false, now) // one look is not enough for a debut
}

// inspectDurable warns if a node declared durable says otherwise. A server that
// refuses the question stays unknown (R22).
func (n *node) inspectDurable(v resp.Value) error {
	if v.IsError() || !strings.Contains(string(v.Bytes()), "aof_enabled:0") {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.trust.warnings = append(n.trust.warnings, warnNotDurable)
	return nil
}

// sightLocked takes in what was found in place of the seal. An error ends the
// connection: the deployment has another MaxTTL. verified is as for
// pure.Debut.Sight.
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

// tendLocked reads the seal of a node that is up when it is time, and returns
// when to run again.
func (n *node) tendLocked(now time.Duration) time.Duration {
	g := n.group
	if n.trust.Need == 0 || g.config.Seal.Read == nil {
		return now + g.config.ProbeAfter
	}
	if now < n.trust.looks.Next {
		return n.trust.looks.Next
	}
	if !n.trust.looks.Asking {
		n.lookLocked()
	}
	n.trust.looks.Plan(n.trust.Trusted, now)
	return n.trust.looks.Next
}

// lookLocked asks for the seal, in the lane. The reply is handled when it
// comes.
func (n *node) lookLocked() {
	g := n.group
	verified := g.quarantine.debut.Verifying
	q := &inquiry{abandoned: func(*fault) { n.trust.looks.Asking = false }}
	q.answer = func(_ int, v resp.Value) error {
		s, err := sightingOf(v)
		if err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		n.trust.looks.Asking = false
		now := g.now()
		if err := n.sightLocked(s, verified, now); err != nil {
			return err
		}
		if watched, ok := n.trust.Renewal(s, g.quarantine.maxTTL, now); ok {
			n.writeSealLocked(watched)
		}
		return nil
	}
	n.trust.looks.Asking = n.inquireLocked(q, g.config.Seal.Read)
}

// writeSealLocked writes that the node's process was watched for so long, over
// the connection to that very process. A node that refuses to write (-OOM,
// -MISCONF …) is asked again at the next look; our own trust in it does not
// depend on that.
func (n *node) writeSealLocked(watched time.Duration) {
	g := n.group
	if g.config.Seal.Write == nil || n.trust.Run == "" || n.trust.looks.Writing {
		return
	}
	q := &inquiry{abandoned: func(*fault) { n.trust.looks.Writing = false }}
	q.answer = func(_ int, v resp.Value) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		n.trust.looks.Writing = false
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
	n.trust.looks.Writing = n.inquireLocked(q, g.config.Seal.Write(s.String()))
}

// cureSealLocked loads the script that writes the seal again, for the next
// look, which is soon.
func (n *node) cureSealLocked() {
	g := n.group
	if n.life.State != Up {
		return
	}
	n.loadScriptsLocked()
	g.promptLocked()
	n.trust.looks.Hasten(g.now())
	g.wakeWatchAtLocked(n.trust.looks.Next)
}
