package machines

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/pure"
)

// A stage is a world with three servers and a fair lock, whose callers do what a
// test says.
type stage struct {
	*world
	t *testing.T
}

func newStage(t *testing.T, b Broken) stage {
	const callers = 4
	w := quietWith(1, scenario{nodes: 3, processes: callers, resources: 1, permits: 1, forms: []formKind{fair}})
	w.broken = b
	for i, p := range w.processes {
		for s := range w.servers {
			*p.link(s) = link{delay: ms, world: w}
		}
		p.tickets.Correct(time.Duration(i) * time.Hour) // later callers have higher tickets
		for _, m := range p.members {
			m.step(pure.Started)
		}
	}
	w.pass(100 * ms)
	return stage{w, t}
}

// A caller is one call, in a process of its own.
type caller struct {
	*worker
	wish *wish
	lock *lock
	done bool // its last try
}

func (s stage) caller(process int, waits bool) *caller {
	k := s.processes[process].workers[0]
	c := &caller{worker: k, wish: &wish{resources: []int{0}, ttl: time.Second, ends: pure.Never, triesMax: 1}}
	if waits {
		c.wish.triesMax = 2
	}
	k.shape(c.wish)
	c.wish.done = func(l *lock) { c.lock, c.done = l, true }
	return c
}

// begin begins a try, and until ends it.
func (c *caller) begin() {
	c.done, c.wish.asked = false, 0
	c.send(c.wish, c.process.clocks())
}

func (s stage) until(c *caller) {
	for range 1000 {
		if s.pass(ms / 2); c.done {
			return
		}
	}
	s.t.Fatal("it is never decided")
}

func (s stage) try(c *caller) bool {
	c.begin()
	s.until(c)
	return c.lock != nil
}

// holds keeps what a caller sends to some servers, or what they send to it,
// until it is undone.
func (s stage) holds(c *caller, up bool, servers ...int) (undo func()) {
	var all []func()
	for _, i := range servers {
		all = append(all, s.hold(c.process.link(i), up, !up))
	}
	return func() {
		for _, undo := range all {
			undo()
		}
	}
}

// A caller that a quorum has let in is not overtaken by one that asked later,
// with a lower ticket, and heard of no higher one: of the nodes that had let in
// the first, one failed, and the other's answer was late.
func TestTicketThatANodeRefusedInSilence(t *testing.T) {
	for _, b := range []Broken{"", KeptUnheard} {
		t.Run(fmt.Sprintf("broken: %q", b), func(t *testing.T) {
			s := newStage(t, b)
			holder, first := s.caller(0, false), s.caller(2, true)
			require.True(t, s.try(holder))
			s.holds(first, true, 0)
			require.False(t, s.try(first), "two servers let it in")
			second := s.caller(1, true)
			undo := s.holds(second, false, 2)
			s.servers[1].refusesSets++
			require.False(t, s.try(second), "one lets it in, one fails, and one is not heard")
			s.servers[1].refusesSets--
			undo()
			s.pass(50 * ms)
			holder.giveBack(holder.lock)
			s.pass(5 * ms)
			if b == KeptUnheard {
				require.True(t, s.try(second))
				require.Equal(t, "turn", s.report.Violations[0].Rule)
				return
			}
			require.False(t, s.try(second))
			require.True(t, s.try(first))
			require.Empty(t, s.report.Violations)
		})
	}
}

// A caller draws another ticket under another name: with the same name it
// would be the first on one node and the last on another, and could block
// another caller as long as both wait.
func TestTicketUnderAnotherName(t *testing.T) {
	for _, b := range []Broken{"", TicketUnderOldName} {
		t.Run(fmt.Sprintf("broken: %q", b), func(t *testing.T) {
			s := newStage(t, b)
			holder, low, middle, high := s.caller(0, false), s.caller(1, true), s.caller(2, true), s.caller(3, true)
			require.True(t, s.try(holder))
			s.holds(high, true, 0, 2)
			require.False(t, s.try(high), "one server lets it in")
			high.leave(high.wish)
			s.pass(50 * ms)
			s.holds(low, true, 2)
			undo := s.holds(middle, true, 1)
			low.begin()
			s.pass(ms / 2)
			middle.begin()
			s.until(low)
			s.until(middle)
			require.Equal(t, 2, low.wish.form.turn.let.Len())
			require.Equal(t, 2, middle.wish.form.turn.let.Len())
			undo()
			holder.giveBack(holder.lock)
			s.pass(5 * ms)
			s.servers[2].stopped++
			granted := false
			for range 4 {
				granted = granted || s.try(middle) || s.try(low)
			}
			require.Equal(t, b == "", granted)
			require.Empty(t, s.report.Violations)
		})
	}
}
