package kind

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// all is one lock on several resources: all of them or none. One script sets
// the keys of all on a node, or changes nothing there, so a node votes for all
// or none. No caller waits with a part of them, so callers cannot wait for each
// other in a circle.
type all struct {
	once
	kinds *Kinds
	names []string
	key   Key
}

var allTraits = Traits{
	Serves: Excluding, Needs: Excluding, Numbered: true, Contested: true,
	Seats: 1, MostSeats: 1, HandsOver: true,
}

// All returns the kind of a lock on several resources, and the text for all of
// them. For a single one, it is that of a plain lock. names is copied.
func (k *Kinds) All(names []string) (Kind, string) {
	if len(names) == 1 {
		return k.plain, names[0]
	}
	a := all{kinds: k, names: slices.Clone(names)}
	a.key = Key{use: Excluding, several: true, name: fmt.Sprintf("%q", slices.Sorted(slices.Values(a.names)))}
	text := strings.Join(a.names, ", ")
	if k.Numbers != nil {
		return &numberedAll{a}, text
	}
	return &a, text
}

func (*all) Traits() *Traits     { return &allTraits }
func (a *all) Key(string) Key    { return a.key }
func (a *all) Several() []string { return a.names }

func (a *all) Check(string) (resource, problem string) {
	if n := len(a.names); n < 1 || n > wire.MaxResources {
		return "", fmt.Sprintf("%d resources: there must be 1 to %d", n, wire.MaxResources)
	}
	for i, name := range a.names {
		if slices.Contains(a.names[:i], name) {
			return name, "the resource is named twice"
		}
	}
	return "", ""
}

// The commands of a lock on several resources. Merged, its release is that of
// so many locks with one token, by the same script, and so is its extension.
// This lengthens our keys, even beside keys of others. It does no harm (R10):
// the vote is a refusal all the same.
var (
	acquireAllKind = &multiplex.ClaimKind{Kind: telling, Undo: releaseAllKind, Telling: true}
	extendAllKind  = &multiplex.ExtendKind{Kind: scripted, Merger: wire.MergedExtension}
	releaseAllKind = &multiplex.ReleaseKind{Kind: scripted, Merger: wire.MergedRelease}
)

func (a *all) Claim(g *Grant, room []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	return acquireAllKind, a.kinds.Several(room, &wire.AcquireAll, a.names, &g.Value, g.TTL)
}

func (a *all) Extend(g *Grant, room []byte, ttl, promised time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	return extendAllKind, a.kinds.Several(room, &wire.ExtendAll, a.names, &g.Value, ttl, promised)
}

func (a *all) Release(g *Grant, room []byte) (*multiplex.ReleaseKind, multiplex.Encoded) {
	return releaseAllKind, a.kinds.Several(room, &wire.ReleaseAll, a.names, &g.Value)
}

func (a *all) Hear(s *Said, node, number int, text []byte) { s.hold(node, number, len(a.names), text) }

func (a *all) Refusal(s *Said, _ string, number int) bool {
	s.Resource = a.names[number-1]
	return true
}
