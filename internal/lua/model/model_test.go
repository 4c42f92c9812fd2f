package model

import (
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/assert"
)

// A key is a value and what remains of its life; 0 for ever.
type key struct {
	token string
	left  time.Duration
}

type keys map[string]key

func (k keys) Get(name string) (string, bool) { v, ok := k[name]; return v.token, ok }

func (k keys) Set(name, token string, ttl time.Duration) { k[name] = key{token, ttl} }

func (k keys) Delete(name string) bool { delete(k, name); return true }

func (k keys) TTL(name string) (time.Duration, bool) { v, ok := k[name]; return v.left, ok }

func (k keys) Expire(name string, ttl time.Duration) bool {
	k[name] = key{k[name].token, ttl}
	return true
}

// What each script answers and leaves, for a token "a" and a TTL of 5 s, or 8 s
// for a key that has lost its own.
func TestModel(t *testing.T) {
	const s = time.Second
	none := key{}
	for _, c := range []struct {
		name                           string
		there                          key
		release, extend, heal, shorten int
		released, extended             key
		healed, shortened              key
	}{
		{"missing", none, 0, 0, 2, 0, none, none, key{"a", 5 * s}, none},
		{"another's", key{"b", s}, 0, 0, 0, 0, key{"b", s}, key{"b", s}, key{"b", s}, key{"b", s}},
		{"ours, ends first", key{"a", s}, 1, 1, 1, 1, none, key{"a", 5 * s}, key{"a", 5 * s}, key{"a", s}},
		{"ours, ends later", key{"a", 9 * s}, 1, 1, 1, 1, none, key{"a", 9 * s}, key{"a", 9 * s}, key{"a", 5 * s}},
		{"ours, for ever", key{"a", 0}, 1, 1, 1, 1, none, key{"a", 8 * s}, key{"a", 8 * s}, key{"a", 5 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(want int, left key, do func(db Keys[string, string]) int) {
				t.Helper()
				db := keys{}
				if c.there != none {
					db["k"] = c.there
				}
				assert.Equal(t, want, do(db))
				assert.Equal(t, left, db["k"])
			}
			run(c.release, c.released, func(db Keys[string, string]) int { return Release(db, "k", "a") })
			run(c.extend, c.extended, func(db Keys[string, string]) int { return Extend(db, "k", "a", 5*s, 8*s) })
			run(c.heal, c.healed, func(db Keys[string, string]) int { return Heal(db, "k", "a", 5*s, 8*s) })
			run(c.shorten, c.shortened, func(db Keys[string, string]) int { return Shorten(db, "k", "a", 5*s) })
		})
	}
}

// Nothing that a seal says is lowered, and the time watched is of one process,
// unless the seal is of a deployment that is replaced.
func TestASealIsNotLowered_R23(t *testing.T) {
	const s = time.Second
	old := pure.Seal{Identity: own, Run: "a", MaxTTL: 2 * s, Watched: 3 * s}
	for _, c := range []struct{ written, after pure.Seal }{
		{pure.Seal{Identity: own, Run: "a", MaxTTL: s, Watched: 2 * s}, old},
		{pure.Seal{Identity: own, Run: "a", MaxTTL: 4 * s, Watched: 5 * s}, pure.Seal{Identity: own, Run: "a", MaxTTL: 4 * s, Watched: 5 * s}},
		{pure.Seal{Identity: own, Run: "b", MaxTTL: s, Watched: 2 * s}, pure.Seal{Identity: own, Run: "b", MaxTTL: 2 * s, Watched: 2 * s}},
	} {
		for _, verb := range []pure.Verb{pure.Confirm, pure.Adopt} {
			after, done := Seal(Mark{Seal: old}, Change{Verb: verb, Identity: own, Seal: c.written})
			assert.True(t, done)
			assert.Equal(t, Mark{Seal: c.after}, after)
		}
	}
	old.Identity = foreign
	written := pure.Seal{Identity: own, Run: "a", MaxTTL: s, Watched: 2 * s}
	after, done := Seal(Mark{old, lockedBy(own)}, Change{Verb: pure.Confirm, Identity: own, Seal: written})
	assert.True(t, done)
	assert.Equal(t, Mark{Seal: written}, after)
}

var (
	own     = pure.Identity{ID: "own", Nodes: 3}
	foreign = pure.Identity{ID: "foreign", Nodes: 3}
)

func proposedBy(who pure.Identity) pure.Opening {
	return pure.Opening{Stage: pure.Proposed, Identity: who}
}
func lockedBy(who pure.Identity) pure.Opening { return pure.Opening{Stage: pure.Locked, Identity: who} }

// What each verb does to each state of a node (R30): 1 done, 0 refused, and
// then nothing changes.
func TestMarks_R30(t *testing.T) {
	seal := func(who pure.Identity) pure.Seal { return pure.Seal{Identity: who, Run: "a", MaxTTL: 1, Watched: 1} }
	unnamed, none := seal(pure.Identity{}), pure.Opening{}
	sealed := Mark{Seal: seal(own)}
	for _, c := range []struct {
		name                                string
		there                               Mark
		propose, lock, confirm, adopt, undo bool
	}{
		{"free", Mark{}, true, false, false, true, false},
		{"unnamed", Mark{unnamed, none}, true, false, false, true, false},
		{"proposed", Mark{Opening: proposedBy(own)}, true, true, false, false, true},
		{"locked", Mark{Opening: lockedBy(own)}, false, true, true, true, true},
		{"unnamed and locked", Mark{unnamed, lockedBy(own)}, false, true, true, true, true},
		{"sealed", sealed, false, false, true, true, false},
		{"proposed by another", Mark{Opening: proposedBy(foreign)}, false, false, false, false, false},
		{"locked by another", Mark{Opening: lockedBy(foreign)}, false, false, false, false, false},
		{"sealed by another", Mark{Seal: seal(foreign)}, false, false, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for verb, want := range map[pure.Verb]bool{
				pure.Propose: c.propose, pure.Lock: c.lock, pure.Confirm: c.confirm, pure.Adopt: c.adopt, pure.Undo: c.undo,
			} {
				after, done := Seal(c.there, Change{Verb: verb, Identity: own, Seal: seal(own)})
				assert.Equal(t, want, done, "verb %d", verb)
				left := c.there
				switch {
				case !done:
				case verb == pure.Propose:
					left.Opening = proposedBy(own)
				case verb == pure.Lock:
					left.Opening = lockedBy(own)
				case verb == pure.Undo:
					left.Opening = none
				default:
					left = sealed
				}
				assert.Equal(t, left, after, "verb %d", verb)
			}
		})
	}
	for name, there := range map[string]Mark{
		"sealed": {Seal: seal(foreign)}, "proposed": {Opening: proposedBy(foreign)}, "locked": {seal(foreign), lockedBy(foreign)},
	} {
		after, done := Seal(there, Change{Verb: pure.Propose, Identity: own, Replaces: []string{"x", foreign.ID}})
		assert.True(t, done, "%s: it is to be replaced", name)
		assert.Equal(t, Mark{there.Seal, proposedBy(own)}, after)
		_, done = Seal(there, Change{Verb: pure.Propose, Identity: own, Replaces: []string{"x"}})
		assert.False(t, done, "%s: another is", name)
	}
}
