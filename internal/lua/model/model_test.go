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

// What each script answers and leaves, for a token "a" and a TTL of 5 s.
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
		{"ours, for ever", key{"a", 0}, 1, 1, 1, 1, none, key{"a", 0}, key{"a", 0}, key{"a", 5 * s}},
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
			run(c.extend, c.extended, func(db Keys[string, string]) int { return Extend(db, "k", "a", 5*s) })
			run(c.heal, c.healed, func(db Keys[string, string]) int { return Heal(db, "k", "a", 5*s) })
			run(c.shorten, c.shortened, func(db Keys[string, string]) int { return Shorten(db, "k", "a", 5*s) })
		})
	}
}

// Nothing that a seal says is lowered, and the time watched is of one process.
func TestSeal_R23(t *testing.T) {
	const s = time.Second
	old := pure.Seal{Run: "a", MaxTTL: 2 * s, Watched: 3 * s}
	for _, c := range []struct{ written, after pure.Seal }{
		{pure.Seal{Run: "a", MaxTTL: s, Watched: 2 * s}, old},
		{pure.Seal{Run: "a", MaxTTL: 4 * s, Watched: 5 * s}, pure.Seal{Run: "a", MaxTTL: 4 * s, Watched: 5 * s}},
		{pure.Seal{Run: "b", MaxTTL: s, Watched: 2 * s}, pure.Seal{Run: "b", MaxTTL: 2 * s, Watched: 2 * s}},
	} {
		assert.Equal(t, c.after, Seal(old, c.written))
	}
}
