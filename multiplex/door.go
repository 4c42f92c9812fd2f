package multiplex

import (
	"context"
)

// Doors. A nil context, and a value that no function of this package has made,
// are mistakes of a program. They panic at the door, with a sentence that says
// what is wrong, and not deep inside.

// must panics with a text unless ok.
func must(ok bool, text string) {
	if !ok {
		panic("multiplex: " + text)
	}
}

// made is the door of methods that have no context.
func (g *Group) made() { must(g != nil && g.config != nil, "a nil or zero Group: New makes one") }

// called is the door of methods that have one.
func (g *Group) called(ctx context.Context) {
	g.made()
	must(ctx != nil, "the context is nil")
}

func (l *Lookout) made() {
	must(l != nil && l.group != nil, "a nil or zero Lookout: Group.Lookout makes one")
}

func (o *Outcomes) made() {
	must(o != nil && o.ready != nil, "a nil or zero Outcomes: NewOutcomes makes one")
}

// noError is said of a method of a nil error.
const noError = "a nil error, which no function of this package returns"
