package redlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/require"
)

// ofEachKind returns a form of each kind for a resource; that of several has a
// second one.
func ofEachKind(name string) map[formKind]*form {
	all := map[formKind]*form{plain: nil, several: {kind: several, names: []string{name, name + "2"}}}
	for _, kind := range []formKind{reading, writing, permit, fair} {
		all[kind] = &form{kind: kind, names: []string{name}, permits: 1}
	}
	return all
}

// A hold is as good as the lock that a reentrant call wants if it is of the
// same kind, or on several resources for one of them, or a writer's for a
// reader. A call that waits would wait for a hold with one of its keys.
func TestHoldsThatCallsMeet(t *testing.T) {
	covers := map[[2]formKind]bool{
		{plain, plain}: true, {several, plain}: true, {several, several}: true,
		{reading, reading}: true, {writing, reading}: true, {writing, writing}: true,
		{permit, permit}: true, {fair, fair}: true,
	}
	for has, held := range ofEachKind("a") {
		l := Lock{resource: "a", form: held}
		for wants, wanted := range ofEachKind("a") {
			at := []any{"%d for %d", has, wants}
			require.Equal(t, covers[[2]formKind{has, wants}], l.covers(&request{resource: "a", form: wanted}), at...)
			require.Equal(t, (has == permit) == (wants == permit), l.meets(&request{resource: "a", form: wanted}), at...)
			other := &request{resource: "b", form: ofEachKind("b")[wants]}
			require.False(t, l.covers(other) || l.meets(other), at...)
		}
	}
	two := &request{resource: "a", form: &form{kind: permit, names: []string{"a"}, permits: 2}}
	held := Lock{resource: "a", form: two.form}
	require.False(t, held.meets(two), "there may be another permit")
}

// Nodes that have lost the scripts get them with the next command: no extension
// and no release is lost (R24). A claim is not repeated (R8).
func TestScriptsOfEachKindAreCured_R24(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		flush := func() {
			for _, n := range m.nodes {
				n.FlushScripts()
			}
		}
		for name, k := range map[string]Locker{
			"read": c.RW("r").Read(), "write": c.RW("w").Write(), "a permit": c.Semaphore("s", 2), "fair": c.Fair("f"),
		} {
			flush()
			_, err := k.TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrNoQuorum, name)
			time.Sleep(10 * ms) // all nodes have them again
			lock, err := k.TryAcquire(t.Context(), time.Second)
			require.NoError(t, err, name)
			flush()
			lock, err = lock.Extend(t.Context(), time.Second)
			require.NoError(t, err, name)
			flush()
			require.NoError(t, lock.Release(t.Context()), name)
		}
		write, err := c.RW("r").Write().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		flush()
		_, err = c.RW("r").Downgrade(t.Context(), write, time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		for key := range m.sets() {
			require.Equal(t, "s"+permitsSuffix, key)
		}
	})
}

// The names that a lock shows are a copy: its release needs its own.
func TestResourcesAreACopy(t *testing.T) {
	for kind, f := range ofEachKind("a") {
		l := Lock{resource: "a", form: f}
		l.Resources()[0] = "b"
		require.Equal(t, "a", l.Resources()[0], kind)
	}
}

// A text that names a key that the lock does not have, or no key, says nothing.
// What an attempt heard is forgotten when it is over (R32).
func TestRefusalsOfEachKind_R32(t *testing.T) {
	value := new(tokens).next().Reveal() + ":web-1"
	most := map[formKind]int{plain: 1, several: 2, reading: 3, writing: 3, permit: 1, fair: 3}
	for kind, f := range ofEachKind("a") {
		for place := range 256 {
			r := newRefusals(f, true)
			r.hear(0, fmt.Append(nil, place, " ", value))
			r.hear(1, []byte(strings.Repeat("9", 1000)))
			err := r.translate(multiplex.ErrRefused)
			require.ErrorIs(t, err, ErrHeld)
			require.Equal(t, 0 < place && place <= most[kind], err != ErrHeld, "%d %d", kind, place)
			if held := (*HeldError)(nil); errors.As(err, &held) {
				named := kind != permit && (kind != fair || place == 1)
				require.Equal(t, named, held.Owner == "web-1", "%d %d: only the value of a key says whose it is", kind, place)
			}
			r.recycle()
		}
		heard := newRefusals(f, true)
		for node := range multiplex.MaxNodes {
			heard.hear(node, []byte("1 "+value))
			heard.hear(node, []byte("1 1,2,3"))
		}
		heard.recycle()
		again := newRefusals(nil, true)
		again.told = nil
		require.Empty(t, again.free)
		again.free = nil
		require.Equal(t, refusals{scripted: true}, *again)
	}
}
