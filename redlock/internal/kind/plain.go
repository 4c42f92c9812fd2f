package kind

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// plain is the algorithm as it is published: one key for one resource.
type plain struct {
	once
	single
	kinds *Kinds
}

var plainTraits = Traits{
	Serves: Excluding, Needs: Excluding, Alone: true, Numbered: true, Contested: true,
	Seats: 1, MostSeats: 1, HandsOver: true,
}

func (*plain) Traits() *Traits     { return &plainTraits }
func (*plain) Key(name string) Key { return Key{use: Excluding, name: name} }

// The commands of the algorithm.
var (
	setKind     = &multiplex.ClaimKind{Kind: multiplex.Kind{Judge: wire.JudgeSet}, Undo: releaseKind}
	ownedKind   = &multiplex.ClaimKind{Kind: setKind.Kind, Undo: releaseKind, Native: ClaimForms}
	extendKind  = &multiplex.ExtendKind{Kind: scripted, Merger: wire.MergedExtension}
	releaseKind = &multiplex.ReleaseKind{Kind: scripted, Merger: wire.MergedRelease, Native: ReleaseForms}
)

var (
	// ReleaseForms are the native commands instead of release.lua (R25): of
	// Redis from 8.4 and Valkey from 9.2 on, and of Valkey from 9.0 on.
	// Extensions have none: at maxmemory SET … IFEQ is refused, but the script
	// succeeds.
	ReleaseForms = []multiplex.Form{
		{Name: "DELEX", Head: []byte("*4\r\n$5\r\nDELEX\r\n"), Middle: []byte("$4\r\nIFEQ\r\n")},
		{Name: "DELIFEQ", Head: []byte("*3\r\n$7\r\nDELIFEQ\r\n")},
	}
	// ClaimForms are the forms of SET for clients whose plain refusals tell:
	// SET … NX PX … GET, of Redis from 7.0 on, replies with the value in the
	// way.
	ClaimForms = []multiplex.Form{
		{Name: "SET NX GET", Head: []byte("*7\r\n$3\r\nSET\r\n"), Tail: []byte("$3\r\nGET\r\n"), Judge: wire.JudgeSetGet, Telling: true},
	}
)

// PlainRelease returns the kind of a plain lock's release.
func PlainRelease() *multiplex.ReleaseKind { return releaseKind }

func (p *plain) Claim(g *Grant, room []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	kind := setKind
	if p.kinds.Tells {
		kind = ownedKind
	}
	return kind, p.kinds.Set(room, g.Name, &g.Value, g.TTL)
}

func (p *plain) Extend(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	return extendKind, p.kinds.Encoder.Extend(room, g.Name, &g.Value, ttl, promised)
}

func (p *plain) Release(g *Grant, room []byte) (*multiplex.ReleaseKind, multiplex.Encoded) {
	return releaseKind, p.kinds.Encoder.Release(room, g.Name, &g.Value)
}

func (*plain) Hear(s *Said, node, number int, text []byte) { s.hold(node, number, 1, text) }

func (*plain) Refusal(s *Said, _ string, _ int) bool { return s.Labels != pure.Labels{} }

// Commands of holds beyond the algorithm, for locks that are Alone.
var (
	// healKind is an extension that may set the key again. It is not merged:
	// every node that gets it must owe a release. These nodes are known at once
	// only for a command with its place in the log (R8).
	healKind = &multiplex.ExtendKind{Kind: multiplex.Kind{Judge: wire.JudgeHeal, Script: true}, Creates: true}
	// shortenKind is the release of a lock with keys that stay for a while. It
	// stands behind every posted renewal, since a renewal behind it would give
	// the key its whole TTL again.
	shortenKind = &multiplex.ReleaseKind{Kind: scripted, Behind: true}
)

// Heal returns an extension to set missing keys again.
func (k *Kinds) Heal(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	return healKind, k.Encoder.Heal(room, g.Name, &g.Value, ttl, promised)
}

// Shorten returns a release to leave the keys for the rest of a time.
func (k *Kinds) Shorten(g *Grant, room []byte, rest time.Duration) (*multiplex.ReleaseKind, multiplex.Encoded) {
	return shortenKind, k.Encoder.Shorten(room, g.Name, &g.Value, rest)
}
